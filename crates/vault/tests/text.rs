//! Texts from elsewhere: no text causes a panic, shows a secret, or leads out of its place as a name.

use proptest::prelude::*;
use seawall_core::Failure;
use seawall_vault::{ObjectKey, Prefix, VaultUrl};

/// URLs put together from sound and unsound pieces, so that most get past the first check.
fn urls() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "s3",
        "file",
        "gs",
        "S3",
        ":",
        "://",
        "/",
        "//",
        "?",
        "&",
        "=",
        "@",
        ".",
        "..",
        "%",
        "%2e",
        "%00",
        "%ff",
        "arn:aws:s3:",
        "eu-west-1",
        ":123:accesspoint",
        "bucket",
        "b.s3.",
        "amazonaws.com",
        "localhost",
        ":9000",
        ":0",
        "[::1]",
        "path",
        "endpoint",
        "partSize",
        "part-size",
        "5MiB",
        "99999999999999999999",
        "forcePathStyle",
        "true",
        "region",
        "secretAccessKey",
        "access-key-id",
        "é",
        "\u{0}",
        " ",
        "+",
        "br-x.storage.y.r.z.neon.tech",
        "sseCustomerKey",
    ]);
    prop::collection::vec(pieces, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_is_a_place_or_an_error(text in urls()) {
        let _ = VaultUrl::parse(&text);
    }

    #[test]
    fn any_characters_are_a_place_or_an_error(text in any::<String>()) {
        let _ = VaultUrl::parse(&text);
        let _ = VaultUrl::parse(&format!("s3://{text}"));
        let _ = VaultUrl::parse(&format!("s3://b/p?{text}"));
    }

    #[test]
    fn what_is_shown_names_the_same_place(text in urls()) {
        if let Ok(url) = VaultUrl::parse(&text) && let VaultUrl::S3(settings) = &url {
            prop_assert!(!settings.bucket.contains('/'));
            let is_name = |segment: &str| segment != ".." && !segment.is_empty();
            // The whole bucket has no path.
            prop_assert!(settings.path.is_empty() || settings.path.split('/').all(is_name));
        }
    }

    #[test]
    fn secrets_stay_hidden(before in urls(), after in urls()) {
        const SECRET: &str = "hunter2zzz";
        for text in [
            format!("s3://id:{SECRET}@{before}{after}"),
            format!("s3://b/p?{}secretAccessKey={SECRET}&{}", before.replace('?', ""), after),
        ] {
            match VaultUrl::parse(&text) {
                Ok(url) => {
                    // In the right place it is a secret; text that makes it part of a path or region does not count.
                    let VaultUrl::S3(settings) = &url else { continue };
                    if settings.secret_access_key.is_some() && !settings.path.contains(SECRET) {
                        prop_assert!(!url.to_string().contains(SECRET), "{url}");
                    }
                }
                Err(error) => {
                    let failure = Failure::from(error.clone());
                    let in_query = text.contains('?') && text.find('?') < text.find(SECRET);
                    if in_query {
                        prop_assert!(!format!("{error:?} {failure:?}").contains(SECRET), "{text}: {error:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn keys_never_lead_out(text in "[a-z./\\\\\u{0}é]{0,12}") {
        if let Ok(key) = ObjectKey::new(&text) {
            prop_assert_eq!(key.as_str(), text.as_str());
            prop_assert!(key.as_str().split('/').all(|segment| !matches!(segment, "" | "." | "..")));
        }
        if let Ok(prefix) = Prefix::new(&text) {
            prop_assert!(prefix.as_str().is_empty() || prefix.as_str().ends_with('/'));
        }
    }
}
