//! Facts about S3 providers, found by host name: pure tables, in one place.

/// How a provider differs from AWS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Provider {
    /// Objects must be asked for consistently, by a header of its own.
    pub(crate) tigris: bool,
    /// The size of parts that it copes with best.
    pub(crate) part_size: Option<usize>,
    /// The parts in flight that it copes with best.
    pub(crate) concurrency: Option<usize>,
    /// The region to sign for where none is given.
    pub(crate) region: Option<&'static str>,
}

/// Looks a custom endpoint's host up.
pub(crate) fn provider(host: &str) -> Provider {
    let host = host.to_ascii_lowercase();
    let below = |domain: &str| host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    let plain = Provider { region: Some("us-east-1"), ..Provider::default() };
    if host == "fly.storage.tigris.dev" || host == "t3.storage.dev" {
        return Provider { tigris: true, part_size: Some(16 << 20), concurrency: Some(2), region: Some("auto") };
    }
    if below("r2.cloudflarestorage.com") {
        return Provider { concurrency: Some(2), region: Some("auto"), ..plain };
    }
    plain
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
        .or_else(|| digitalocean(authority))
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

/// `bucket.region.digitaloceanspaces.com`.
fn digitalocean(authority: &str) -> Option<BucketAddress> {
    let rest = authority.strip_suffix(".digitaloceanspaces.com")?;
    let (bucket, region) = rest.rsplit_once('.')?;
    (!bucket.is_empty() && !region.is_empty()).then(|| BucketAddress {
        bucket: bucket.to_owned(),
        endpoint: Some(format!("https://{region}.digitaloceanspaces.com")),
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
        assert_eq!(provider("acc.r2.cloudflarestorage.com").concurrency, Some(2));
        assert_eq!(provider("evilr2.cloudflarestorage.com"), provider("minio.example.com"), "a whole label");
        assert_eq!(provider("minio.example.com").region, Some("us-east-1"));
    }
}
