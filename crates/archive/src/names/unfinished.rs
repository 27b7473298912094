//! What is a database called until a restore has made all of it? Pure.
//!
//! The same restore finds the same name again, and goes on in it. A backup of the whole server leaves such a database out, by its
//! name alone: between its creation and the first note in its journal, and between the journal's end and the wanted name,
//! nothing else tells. So the name ends in a digest of what comes before it, and no database that a person has named is
//! taken for one.

use crate::Digest;

/// What the names begin with.
const PREFIX: &str = "seawall-";

/// What the database that is to be called `name` is called meanwhile, by the restore of this title.
pub fn name(title: &str, name: &str) -> String {
    let begins = before(title, name);
    let digest = Digest::of(begins.as_bytes()).to_string();
    format!("{begins}-{}", &digest[..8])
}

/// What older versions of Seawall called it: their names don't tell by themselves.
pub fn before(title: &str, name: &str) -> String {
    let digest = Digest::of(format!("{title}\0{name}").as_bytes()).to_string();
    format!("{PREFIX}{}", &digest[..16])
}

/// Whether a database of this name is one.
pub fn is_one(name: &str) -> bool {
    let Some((begins, digest)) = name.rsplit_once('-') else { return false };
    may_be_of_before(begins) && Digest::of(begins.as_bytes()).to_string().get(..8) == Some(digest)
}

/// Whether an older version may have called one so: only its journal tells.
pub fn may_be_of_before(name: &str) -> bool {
    let digest = name.strip_prefix(PREFIX);
    digest.is_some_and(|digest| {
        digest.len() == 16 && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_what_is_not_done() {
        let ours = name("set 1", "shop");
        assert_eq!(ours, name("set 1", "shop"), "the same restore finds it again");
        assert_ne!(ours, name("set 1", "other"));
        assert!(ours.starts_with(&before("set 1", "shop")) && ours.len() < 64, "{ours}");
        for (name, is_so, may_be) in [
            (ours.as_str(), true, false),
            (&before("set 1", "shop"), false, true),
            (&format!("replaced-by-{ours}"), false, false),
            (&format!("{ours}0"), false, false),
            ("seawall-0123456789abcdef", false, true),
            ("seawall-0123456789abcdef-01234567", false, false),
            ("seawall-0123456789abcdeF", false, false),
            ("seawall-0123456789abcde", false, false),
            ("seawall_0123456789abcdef", false, false),
            ("replaced-by-seawall-0123456789abcdef", false, false),
            ("seawall-", false, false),
            ("", false, false),
        ] {
            assert_eq!((is_one(name), may_be_of_before(name)), (is_so, may_be), "{name}");
        }
    }
}
