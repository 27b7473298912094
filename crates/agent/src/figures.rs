//! Figures as people read them: on a terminal and on the page.

/// A number of bytes as people read it, in powers of 1024.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let name = UNITS[unit];
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {name}") }
}

/// A span of milliseconds as people read it: its two largest units.
pub fn span(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0 => format!("{millis} ms"),
        1..60 => format!("{seconds}.{} s", millis % 1000 / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        for (count, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB"), (u64::MAX, "16384.0 PiB")]
        {
            assert_eq!(bytes(count), text);
        }
        for (millis, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_500, "1.5 s"),
            (61_000, "1 min 1 s"),
            (3_720_000, "1 h 2 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(span(millis), text);
        }
    }
}
