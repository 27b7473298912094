//! Sizes as people write them.

/// Reads a number of bytes such as `64MiB`, `1.5 GB` or `512B`; `None` when it is none. A bare number has no
/// unit and is refused. `K`, `M`, `G` and `T` alone, and with `iB`, count in powers of 1024; with `B` in powers of
/// 1000.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let unit: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "b" => 1,
        "kb" => 1000,
        "mb" => 1000 * 1000,
        "gb" => 1000 * 1000 * 1000,
        "tb" => 1000 * 1000 * 1000 * 1000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return None,
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit);
    }
    let bytes = number.parse::<f64>().ok()? * unit as f64;
    (bytes < (1u64 << 53) as f64).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_write() {
        for (text, expected) in [
            ("64MiB", Some(64 << 20)),
            ("64 MiB", Some(64 << 20)),
            ("5MB", Some(5_000_000)),
            ("1.5GiB", Some(3 << 29)),
            ("512B", Some(512)),
            ("16k", Some(16 << 10)),
            ("64", None),
            ("MiB", None),
            ("-1MiB", None),
            ("1..5MiB", None),
            ("1 MiBit", None),
            ("99999999999TiB", None),
            ("", None),
        ] {
            assert_eq!(parse_size(text), expected, "{text}");
        }
    }
}
