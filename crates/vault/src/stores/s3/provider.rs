//! Facts about S3 providers, found by host name: pure tables, in one place.

/// How a provider differs from AWS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Provider {
    /// Tigris: objects must be asked for consistently, by a header of its own, and are deleted one by one, because a
    /// batch has an MD5.
    pub(crate) tigris: bool,
    /// It refuses checksums of objects and parts, or is known to have refused them.
    pub(crate) without_checksums: bool,
    /// The size of parts that it copes with best.
    pub(crate) part_size: Option<usize>,
    /// The parts in flight that it copes with best.
    pub(crate) concurrency: Option<usize>,
    /// The region to sign for where none is given.
    pub(crate) region: Option<String>,
}

/// Providers by the ends of their hosts, with where the region is in them.
const PROVIDERS: [(&str, Region); 14] = [
    ("r2.cloudflarestorage.com", Region::Fixed("auto")),
    ("storage.googleapis.com", Region::Fixed("auto")),
    ("filebase.com", Region::Fixed("us-east-1")),
    ("supabase.co", Region::Fixed("us-east-1")),
    ("neon.tech", Region::Label(1)),
    ("backblazeb2.com", Region::Label(0)),
    ("scw.cloud", Region::Label(0)),
    ("digitaloceanspaces.com", Region::Label(0)),
    ("your-objectstorage.com", Region::Label(0)),
    ("wasabisys.com", Region::Label(0)),
    ("io.cloud.ovh.net", Region::Label(0)),
    ("perf.cloud.ovh.net", Region::Label(0)),
    ("linodeobjects.com", Region::Label(0)),
    ("vultrobjects.com", Region::Label(0)),
];

/// Where a provider's region stands.
#[derive(Debug, Clone, Copy)]
enum Region {
    /// It has only this one.
    Fixed(&'static str),
    /// In the host's name: in the label with this number, counted from the end of the part before the provider's domain.
    Label(usize),
}

/// Looks a custom endpoint's host up.
pub(crate) fn provider(host: &str) -> Provider {
    let host = host.to_ascii_lowercase();
    if host == "fly.storage.tigris.dev" || host == "t3.storage.dev" {
        let region = Some("auto".to_owned());
        let (part_size, concurrency) = (Some(16 << 20), Some(2));
        return Provider { tigris: true, without_checksums: true, part_size, concurrency, region };
    }
    for (domain, region) in PROVIDERS {
        let Some(labels) = host.strip_suffix(domain) else { continue };
        if !labels.is_empty() && !labels.ends_with('.') {
            continue;
        }
        let region = match region {
            Region::Fixed(region) => Some(region),
            // Wasabi's first region has a host without one.
            Region::Label(at) => {
                labels.trim_end_matches('.').rsplit('.').nth(at).filter(|label| !label.is_empty() && *label != "s3")
            }
        };
        return Provider {
            without_checksums: true,
            concurrency: (domain == "r2.cloudflarestorage.com").then_some(2),
            region: Some(region.unwrap_or("us-east-1").to_owned()),
            ..Provider::default()
        };
    }
    Provider { region: Some("us-east-1".to_owned()), ..Provider::default() }
}

/// AWS's server of a region.
pub(crate) fn amazon_server(region: &str) -> String {
    let china = if region.starts_with("cn-") { ".cn" } else { "" };
    format!("https://s3.{region}.amazonaws.com{china}")
}

/// A bucket and its server, read from the host part of an `s3://` URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BucketAddress {
    pub(crate) bucket: String,
    pub(crate) endpoint: Option<String>,
    pub(crate) region: Option<String>,
    /// Whether the bucket must be in the path or in the host name; `None` if both work.
    pub(crate) path_style: Option<bool>,
}

impl BucketAddress {
    fn bucket(bucket: &str) -> Self {
        Self { bucket: bucket.to_owned(), endpoint: None, region: None, path_style: None }
    }
}

/// Reads `bucket`, `bucket.s3.region.amazonaws.com`, `bucket.<provider's host>` or `bucket.host:port`.
pub(crate) fn place(authority: &str) -> Option<BucketAddress> {
    if let Some((host, _port)) = authority.rsplit_once(':') {
        let (bucket, server) = host.split_once('.')?;
        let port = authority.get(host.len()..)?;
        return Some(BucketAddress {
            bucket: bucket.to_owned(),
            endpoint: Some(format!("http://{server}{port}")),
            region: Some("us-east-1".to_owned()),
            path_style: Some(true),
        });
    }
    let known = amazon(authority)
        .or_else(|| hosted(authority, "backblazeb2.com", "s3", 1, true))
        .or_else(|| hosted(authority, "scw.cloud", "s3", 1, false))
        .or_else(|| hosted(authority, "filebase.com", "s3", 0, true))
        .or_else(|| labelled(authority, "digitaloceanspaces.com"))
        .or_else(|| labelled(authority, "your-objectstorage.com"))
        .or_else(|| hosted(authority, "wasabisys.com", "s3", 1, false))
        .or_else(|| neon(authority));
    Some(known.unwrap_or_else(|| BucketAddress::bucket(authority)))
}

/// `bucket.s3.amazonaws.com`, `bucket.s3.region.amazonaws.com`, `bucket.s3-region.amazonaws.com`, and `.cn`.
fn amazon(authority: &str) -> Option<BucketAddress> {
    let rest = authority.strip_suffix(".amazonaws.com.cn").or_else(|| authority.strip_suffix(".amazonaws.com"))?;
    let (bucket, region) = if let Some(bucket) = rest.strip_suffix(".s3") {
        (bucket, None)
    } else if let Some((bucket, region)) = rest.rsplit_once(".s3.") {
        (bucket, Some(region))
    } else {
        let (bucket, region) = rest.rsplit_once(".s3-")?;
        (bucket, Some(region))
    };
    if bucket.is_empty() || region.is_some_and(|region| region.is_empty() || region.contains('.')) {
        return None;
    }
    Some(BucketAddress { region: region.map(str::to_owned), ..BucketAddress::bucket(bucket) })
}

/// `bucket.<label>[.region].<domain>`.
fn hosted(authority: &str, domain: &str, label: &str, regions: usize, path_style: bool) -> Option<BucketAddress> {
    let rest = authority.strip_suffix(domain)?.strip_suffix('.')?;
    let (rest, region) = if regions == 0 {
        (rest, None)
    } else {
        let (rest, region) = rest.rsplit_once('.')?;
        (rest, Some(region))
    };
    let bucket = rest.strip_suffix(label)?.strip_suffix('.')?;
    let server = authority.get(bucket.len() + 1..)?;
    (!bucket.is_empty()).then(|| BucketAddress {
        bucket: bucket.to_owned(),
        endpoint: Some(format!("https://{server}")),
        region: region.map(str::to_owned),
        path_style: path_style.then_some(true),
    })
}

/// `bucket.region.<domain>`, such as `bucket.nyc3.digitaloceanspaces.com`.
fn labelled(authority: &str, domain: &str) -> Option<BucketAddress> {
    let rest = authority.strip_suffix(domain)?.strip_suffix('.')?;
    let (bucket, region) = rest.rsplit_once('.')?;
    (!bucket.is_empty() && !region.is_empty()).then(|| BucketAddress {
        bucket: bucket.to_owned(),
        endpoint: Some(format!("https://{region}.{domain}")),
        region: Some(region.to_owned()),
        path_style: None,
    })
}

/// `bucket.br-x.storage.y.region.z.neon.tech`.
fn neon(authority: &str) -> Option<BucketAddress> {
    let rest = authority.strip_suffix(".neon.tech")?;
    let labels: Vec<&str> = rest.split('.').collect();
    let at = labels.iter().position(|label| label.starts_with("br-"))?;
    let [_, "storage", _, region, _] = labels.get(at..)? else { return None };
    let bucket = labels.get(..at)?.join(".");
    let server = authority.get(bucket.len() + 1..)?;
    (!bucket.is_empty()).then(|| BucketAddress {
        bucket,
        endpoint: Some(format!("https://{server}")),
        region: Some((*region).to_owned()),
        path_style: Some(true),
    })
}

/// An access point, `arn:aws:s3:region:account:accesspoint/name`: like a bucket `name-account` at a server of its own.
pub(crate) fn access_point(arn: &str, name: &str) -> Option<BucketAddress> {
    let parts: Vec<&str> = arn.split(':').collect();
    let ["arn", partition, "s3", region, account, "accesspoint"] = parts.as_slice() else { return None };
    let domain = match *partition {
        "aws" | "aws-us-gov" => "amazonaws.com",
        "aws-cn" => "amazonaws.com.cn",
        _ => return None,
    };
    let sound = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if ![region, account, name].iter().all(|part| sound(part)) {
        return None;
    }
    Some(BucketAddress {
        bucket: format!("{name}-{account}"),
        endpoint: Some(format!("https://s3-accesspoint.{region}.{domain}")),
        region: Some((*region).to_owned()),
        path_style: Some(false),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        // (authority, bucket, endpoint, region, path style)
        let table = [
            ("b", "b", None, None, None),
            ("my.dotted.bucket", "my.dotted.bucket", None, None, None),
            ("b.s3.amazonaws.com", "b", None, None, None),
            ("b.s3.eu-west-1.amazonaws.com", "b", None, Some("eu-west-1"), None),
            ("my.b.s3.eu-west-1.amazonaws.com", "my.b", None, Some("eu-west-1"), None),
            ("b.s3-us-west-2.amazonaws.com", "b", None, Some("us-west-2"), None),
            ("b.s3.cn-north-1.amazonaws.com.cn", "b", None, Some("cn-north-1"), None),
            ("b.nyc3.digitaloceanspaces.com", "b", Some("https://nyc3.digitaloceanspaces.com"), Some("nyc3"), None),
            (
                "b.s3.us-west-004.backblazeb2.com",
                "b",
                Some("https://s3.us-west-004.backblazeb2.com"),
                Some("us-west-004"),
                Some(true),
            ),
            ("b.fsn1.your-objectstorage.com", "b", Some("https://fsn1.your-objectstorage.com"), Some("fsn1"), None),
            (
                "b.s3.eu-central-1.wasabisys.com",
                "b",
                Some("https://s3.eu-central-1.wasabisys.com"),
                Some("eu-central-1"),
                None,
            ),
            ("b.s3.filebase.com", "b", Some("https://s3.filebase.com"), None, Some(true)),
            ("b.s3.fr-par.scw.cloud", "b", Some("https://s3.fr-par.scw.cloud"), Some("fr-par"), None),
            (
                "b.br-quiet-1.storage.c-2.us-east-2.aws.neon.tech",
                "b",
                Some("https://br-quiet-1.storage.c-2.us-east-2.aws.neon.tech"),
                Some("us-east-2"),
                Some(true),
            ),
            ("b.localhost:9000", "b", Some("http://localhost:9000"), Some("us-east-1"), Some(true)),
            ("b.10.0.0.5:9000", "b", Some("http://10.0.0.5:9000"), Some("us-east-1"), Some(true)),
        ];
        for (authority, bucket, endpoint, region, path_style) in table {
            let expected = BucketAddress {
                bucket: bucket.into(),
                endpoint: endpoint.map(Into::into),
                region: region.map(Into::into),
                path_style,
            };
            assert_eq!(place(authority), Some(expected), "{authority}");
        }
        assert_eq!(place("localhost:9000"), None, "a server without a bucket");
    }

    #[test]
    fn access_points() {
        let found = access_point("arn:aws:s3:us-east-1:123456789012:accesspoint", "backups").expect("an ARN");
        assert_eq!(found.bucket, "backups-123456789012");
        assert_eq!(found.endpoint.as_deref(), Some("https://s3-accesspoint.us-east-1.amazonaws.com"));
        assert_eq!((found.region.as_deref(), found.path_style), (Some("us-east-1"), Some(false)));
        for bad in ["arn:aws:s3:::bucket", "arn:aws:sqs:r:1:accesspoint", "arn:x:s3:r:1:accesspoint", "arn"] {
            assert_eq!(access_point(bad, "n"), None, "{bad}");
        }
        assert_eq!(access_point("arn:aws:s3:r:1:accesspoint", "a.evil.com/"), None);
    }

    #[test]
    fn quirks() {
        let tigris = provider("fly.storage.tigris.dev");
        assert!(tigris.tigris && provider("t3.storage.dev").tigris);
        assert_eq!((tigris.part_size, tigris.concurrency), (Some(16 << 20), Some(2)));
        assert!(!provider("x.fly.storage.tigris.dev").tigris, "exactly these hosts");
        assert_eq!(provider("evilr2.cloudflarestorage.com"), provider("minio.example.com"), "a whole label");
    }

    #[test]
    fn providers() {
        for (host, region, concurrency, without_checksums) in [
            ("t3.storage.dev", "auto", Some(2), true),
            ("acc.r2.cloudflarestorage.com", "auto", Some(2), true),
            ("acc.eu.r2.cloudflarestorage.com", "auto", Some(2), true),
            ("s3.us-west-004.backblazeb2.com", "us-west-004", None, true),
            ("s3.fr-par.scw.cloud", "fr-par", None, true),
            ("s3.filebase.com", "us-east-1", None, true),
            ("nyc3.digitaloceanspaces.com", "nyc3", None, true),
            ("fsn1.your-objectstorage.com", "fsn1", None, true),
            ("ref.supabase.co", "us-east-1", None, true),
            ("ref.storage.supabase.co", "us-east-1", None, true),
            ("br-quiet-1.storage.c-2.us-east-2.aws.neon.tech", "us-east-2", None, true),
            ("s3.wasabisys.com", "us-east-1", None, true),
            ("s3.eu-central-1.wasabisys.com", "eu-central-1", None, true),
            ("s3.gra.io.cloud.ovh.net", "gra", None, true),
            ("storage.googleapis.com", "auto", None, true),
            ("us-east-1.linodeobjects.com", "us-east-1", None, true),
            ("ewr1.vultrobjects.com", "ewr1", None, true),
            ("minio.example.com", "us-east-1", None, false),
            ("127.0.0.1", "us-east-1", None, false),
        ] {
            let found = provider(host);
            assert_eq!(found.region.as_deref(), Some(region), "{host}");
            assert_eq!((found.concurrency, found.without_checksums), (concurrency, without_checksums), "{host}");
        }
    }
}
