//! Shared by the readers of URLs and settings: names in both spellings, numbers, paths, and the errors for wrong ones.

use percent_encoding::percent_decode_str;

use crate::Error;

pub(crate) fn wrong(object: &str, cause: &str, next: &str) -> Error {
    Error::InvalidUrl { object: object.to_owned(), cause: cause.to_owned(), next: next.to_owned() }
}

/// The error for a name that isn't known, with the nearest one that is.
pub(crate) fn unknown(what: &str, name: &str, known: &[&str]) -> Error {
    let shown: String = name.chars().take(60).collect::<String>().escape_debug().to_string();
    let nearest = known.iter().min_by_key(|candidate| strsim::damerau_levenshtein(&shown, candidate));
    let next = nearest.map_or_else(String::new, |nearest| format!("did you mean `{nearest}`?"));
    Error::InvalidUrl { object: shown, cause: format!("there is no such {what}"), next }
}

/// `forcePathStyle` and `force-path-style` are one name, as are `sseCustomerKeyMD5` and `sse-customer-key-md5`.
pub(crate) fn kebab(name: &str) -> String {
    let mut kebab = String::with_capacity(name.len() + 8);
    let mut lower = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && lower {
            kebab.push('-');
        }
        lower = c.is_ascii_lowercase();
        kebab.push(if c == '_' { '-' } else { c.to_ascii_lowercase() });
    }
    kebab
}

/// Resolves dot segments and drops empty ones, as Litestream does; nothing leads above the bucket.
pub(crate) fn clean_path(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    segments.join("/")
}

pub(crate) fn boolean(name: &str, value: &str) -> Result<bool, Error> {
    match value {
        "true" | "1" | "t" | "TRUE" | "True" => Ok(true),
        "false" | "0" | "f" | "FALSE" | "False" => Ok(false),
        _ => Err(wrong(name, "this is neither true nor false", "write true or false")),
    }
}

/// Reads `5242880`, `5MiB`, `5 MB`, `1.5GiB`.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut size = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    if !fraction.is_empty() && fraction.len() <= 6 {
        let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        size = size.checked_add(fraction.parse::<u64>().ok()?.checked_mul(factor)? / scale)?;
    } else if number.contains('.') {
        return None;
    }
    Some(size)
}

pub(crate) fn decode(text: &str, shown: &str) -> Result<String, Error> {
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) if !decoded.chars().any(char::is_control) => Ok(decoded.into_owned()),
        _ => Err(wrong(shown, "it holds bytes that are not text", "check the characters after each `%`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_bucket() {
        for (given, cleaned) in [
            ("/a/b/", "a/b"),
            ("a//b", "a/b"),
            ("a/./b", "a/b"),
            ("a/../b", "b"),
            ("../../a", "a"),
            ("/", ""),
            ("", ""),
        ] {
            assert_eq!(clean_path(given), cleaned, "{given}");
        }
    }
}
