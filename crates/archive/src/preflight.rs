//! What a target lacks before a restore begins, and what mends it: the form of the answer. Engines look. Pure.

use serde::Serialize;

/// Something that a target lacks: a restore would fail for the want of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lack {
    /// What is lacking.
    pub cause: String,
    /// The statement or the command that mends it. What isn't to be run stands in brackets behind it.
    pub mend: String,
}

impl Lack {
    /// A lack, and what mends it.
    pub fn new(cause: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { cause: cause.into(), mend: mend.into() }
    }

    /// All lacks as the cause and the next step of one failure; `None` if there is none. What mends several that follow each
    /// other is said once.
    pub fn told(lacks: &[Self]) -> Option<(String, String)> {
        if lacks.is_empty() {
            return None;
        }
        let causes: Vec<&str> = lacks.iter().map(|lack| lack.cause.as_str()).collect();
        let mut mends: Vec<&str> = lacks.iter().map(|lack| lack.mend.as_str()).collect();
        mends.dedup();
        Some((causes.join("; "), mends.join(" ")))
    }
}

/// What was found of a target.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Look {
    /// What it lacks.
    pub lacks: Vec<Lack>,
    /// What is tried, because only the server knows whether it allows it.
    pub doubts: Vec<String>,
    /// What is made when the database has its name.
    pub later: Vec<String>,
}

/// Bytes that are needed beside a database: the server's log, and files of a sort.
const BESIDE: u64 = 256 << 20;

/// Bytes that a database of `size` bytes needs while it is restored: a tenth more, because indexes are built in any order, and
/// 256 MiB.
fn room_for(size: u64) -> u64 {
    size.saturating_add(size / 10).saturating_add(BESIDE)
}

/// Why a disk with `free` bytes has no room for a database of `size` bytes, if it hasn't.
pub fn no_room(free: u64, size: u64) -> Option<String> {
    let needed = room_for(size);
    let missing = needed.checked_sub(free).filter(|missing| *missing > 0)?;
    Some(format!("about {needed} bytes are needed and {free} are free: {missing} are missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told() {
        const GIB: u64 = 1 << 30;
        for (free, size, missing) in [
            (0, 0, Some(256 << 20)),
            (256 << 20, 0, None),
            (10 * GIB, 9 * GIB, Some(9 * GIB / 10 + (256 << 20) - GIB)),
            (11 * GIB, 9 * GIB, None),
            (u64::MAX, u64::MAX, None),
            (0, u64::MAX, Some(u64::MAX)),
        ] {
            let said = no_room(free, size);
            assert_eq!(said.is_some(), missing.is_some(), "{free} {size}");
            if let (Some(said), Some(missing)) = (said, missing) {
                assert!(said.ends_with(&format!("{missing} are missing")), "{said}");
            }
        }
    }

    #[test]
    fn lacks_are_told_as_one_failure() {
        let lacks = [Lack::new("a", "GRANT x;"), Lack::new("b", "GRANT x;"), Lack::new("c", "GRANT y;")];
        assert_eq!(Lack::told(&lacks), Some(("a; b; c".to_owned(), "GRANT x; GRANT y;".to_owned())));
        assert_eq!(Lack::told(&[]), None);
        let json = serde_json::to_value(&lacks[0]).expect("written");
        assert_eq!(json, serde_json::json!({ "cause": "a", "mend": "GRANT x;" }));
    }
}
