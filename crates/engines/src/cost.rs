//! What a day of protecting one SQLite database with the default settings costs at a store: requests and bytes, and money
//! where the provider's price list is known. Computed from facts alone.
//!
//! The numbers of requests follow from the intervals, as `docs/performance.md` has them measured. Bytes are a bound: each
//! level is taken to hold all that the level below holds, although pages that change often are merged into one.

use std::time::Duration;

use seawall_sqlite::Upkeep;
use seawall_vault::{Policy, Scheme, VaultUrl};

/// Seconds of a day.
const DAY: u64 = 24 * 3600;

/// While changes keep coming, at most one object is made in this time: the default of `sync-interval`.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Keys of a page of a listing.
const PAGE: u64 = 1000;

/// A listing of more objects than this takes a few more requests.
const LONG_LISTING: u64 = 4000;

/// How many more.
const OF_LONG_LISTING: u64 = 10;

/// A database, and what is written to it all day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Bytes of a complete copy in the vault.
    pub base_bytes: u64,
    /// Commits a second; 0 for a database at rest, of which no complete copy is made either.
    pub commits_per_second: u64,
    /// The size of one object of level 0, in bytes.
    pub capture_bytes: u64,
}

impl Load {
    /// A database at rest.
    pub const IDLE: Self = Self { base_bytes: 100 << 20, commits_per_second: 0, capture_bytes: 0 };

    /// A database with a commit each second, each of which changes one page of 4 KiB.
    pub const BUSY: Self = Self { base_bytes: 100 << 20, commits_per_second: 1, capture_bytes: 4 << 10 };
}

/// Requests and bytes of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Day {
    /// Objects written, and requests for parts of large ones.
    pub put: u64,
    /// Objects read.
    pub get: u64,
    /// Pages of listings.
    pub list: u64,
    /// Requests to delete.
    pub delete: u64,
    /// Bytes written.
    pub bytes_up: u64,
    /// Bytes read.
    pub bytes_down: u64,
}

/// The price list of a provider: dollars, without what it gives for free each month.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// The provider, and the offer.
    pub provider: &'static str,
    /// 1,000 requests that write.
    pub put: f64,
    /// 1,000 requests that read.
    pub get: f64,
    /// 1,000 pages of listings.
    pub list: f64,
    /// A GB that leaves the provider for the internet.
    pub egress: f64,
    /// A GB kept for a month.
    pub storage: f64,
    /// Where the list is published.
    pub source: &'static str,
    /// When it was read, as year and month.
    pub read: &'static str,
}

const AMAZON: Prices = Prices {
    provider: "Amazon S3 Standard in us-east-1",
    put: 0.005,
    get: 0.0004,
    list: 0.005,
    egress: 0.09,
    storage: 0.023,
    source: "https://aws.amazon.com/s3/pricing/",
    read: "2026-11",
};

const GOOGLE: Prices = Prices {
    provider: "Google Cloud Storage Standard in a region",
    put: 0.005,
    get: 0.0004,
    list: 0.005,
    egress: 0.12,
    storage: 0.020,
    source: "https://cloud.google.com/storage/pricing",
    read: "2026-11",
};

const BACKBLAZE: Prices = Prices {
    provider: "Backblaze B2",
    put: 0.0,
    get: 0.0004,
    list: 0.004,
    egress: 0.01,
    storage: 0.006,
    source: "https://www.backblaze.com/cloud-storage/transaction-pricing",
    read: "2026-11",
};

const CLOUDFLARE: Prices = Prices {
    provider: "Cloudflare R2",
    put: 0.0045,
    get: 0.000_36,
    list: 0.0045,
    egress: 0.0,
    storage: 0.015,
    source: "https://developers.cloudflare.com/r2/pricing/",
    read: "2026-11",
};

const TIGRIS: Prices = Prices {
    provider: "Tigris",
    put: 0.005,
    get: 0.0005,
    list: 0.005,
    egress: 0.0,
    storage: 0.02,
    source: "https://www.tigrisdata.com/pricing/",
    read: "2026-11",
};

const WASABI: Prices = Prices {
    provider: "Wasabi (each object is paid for 90 days, and 1 TB at least)",
    put: 0.0,
    get: 0.0,
    list: 0.0,
    egress: 0.0,
    storage: 0.007_99,
    source: "https://wasabi.com/pricing",
    read: "2026-11",
};

/// The price lists that are known, by the ends of the hosts of their endpoints.
const BY_HOST: [(&str, &Prices); 7] = [
    ("amazonaws.com", &AMAZON),
    ("storage.googleapis.com", &GOOGLE),
    ("backblazeb2.com", &BACKBLAZE),
    ("r2.cloudflarestorage.com", &CLOUDFLARE),
    ("fly.storage.tigris.dev", &TIGRIS),
    ("t3.storage.dev", &TIGRIS),
    ("wasabisys.com", &WASABI),
];

impl Prices {
    /// The price list of a place; `None` where the provider isn't known.
    pub fn of(place: &VaultUrl) -> Option<&'static Self> {
        let endpoint = place.settings().and_then(|settings| settings.endpoint());
        Self::known(place.scheme(), endpoint)
    }

    fn known(scheme: Scheme, endpoint: Option<&str>) -> Option<&'static Self> {
        let Some(endpoint) = endpoint else {
            return match scheme {
                Scheme::S3 => Some(&AMAZON),
                Scheme::Gs => Some(&GOOGLE),
                Scheme::B2 => Some(&BACKBLAZE),
                _ => None,
            };
        };
        let server = endpoint.split_once("://").map_or(endpoint, |(_, server)| server);
        let host = server.split(['/', ':']).next().unwrap_or_default().to_ascii_lowercase();
        let is_below =
            |domain: &str| host.strip_suffix(domain).is_some_and(|labels| labels.is_empty() || labels.ends_with('.'));
        BY_HOST.iter().find(|(domain, _)| is_below(domain)).map(|(_, prices)| *prices)
    }

    /// Dollars for these requests and bytes. What is kept isn't counted.
    pub fn of_day(&self, day: &Day) -> f64 {
        let thousands = |count: u64, price: f64| count as f64 / 1000.0 * price;
        thousands(day.put, self.put)
            + thousands(day.get, self.get)
            + thousands(day.list, self.list)
            + day.bytes_down as f64 / 1e9 * self.egress
    }
}

/// Requests and bytes of a day under the default settings, once the vault is as full as its retention lets it be.
pub fn day(load: &Load, delete_batch: u64) -> Day {
    of_upkeep(&Upkeep::default(), SYNC_INTERVAL, load, delete_batch)
}

fn of_upkeep(upkeep: &Upkeep, sync_interval: Duration, load: &Load, delete_batch: u64) -> Day {
    let validations = upkeep.validation_interval.map_or(0, times);
    if load.commits_per_second == 0 {
        return Day { list: validations, ..Day::default() };
    }
    let captures = times(sync_interval).min(load.commits_per_second.saturating_mul(DAY));
    // Objects that are made in a day, by level from 1 on.
    let merged: Vec<u64> = upkeep.levels.iter().map(|level| times(level.interval).min(captures)).collect();
    let bases = upkeep.base_interval.map_or(0, times);
    let captured = captures.saturating_mul(load.capture_bytes);
    let levels = merged.len() as u64;
    // Level 1 is made from memory. Each other level reads all of the one below, and a base the last level and the base
    // before.
    let read: u64 = merged.iter().sum::<u64>() + bases;
    let days = upkeep.retention.window.map_or(DAY, |window| window.as_secs()).div_ceil(DAY);
    let kept = merged.iter().sum::<u64>().saturating_mul(days)
        + bases.saturating_mul(days + 1)
        + upkeep.retention.l0.map_or(captures, |stays| stays.as_secs() * captures / DAY);
    let looks = upkeep.sight_interval.map_or(0, times).saturating_mul(levels + 2);
    let made = captures + merged.iter().sum::<u64>() + bases;
    Day {
        put: captures + merged.iter().sum::<u64>() + bases.saturating_mul(parts(load.base_bytes)),
        get: read,
        list: looks + validations.saturating_mul(pages(kept)),
        delete: made.div_ceil(delete_batch.max(1)).max(made.min(times(upkeep.retention.check_interval))),
        bytes_up: captured.saturating_mul(levels + 1) + bases.saturating_mul(load.base_bytes),
        bytes_down: captured.saturating_mul(levels) + bases.saturating_mul(load.base_bytes),
    }
}

/// How often something happens in a day.
fn times(interval: Duration) -> u64 {
    u64::try_from(u128::from(DAY) * 1000 / interval.as_millis().max(1)).unwrap_or(u64::MAX)
}

/// Requests that write an object of this size: one, or one for each part and two around them.
fn parts(bytes: u64) -> u64 {
    let size = Policy::default().part_size as u64;
    if bytes <= size { 1 } else { bytes.div_ceil(size) + 2 }
}

/// Requests that list all of so many objects.
fn pages(objects: u64) -> u64 {
    objects.div_ceil(PAGE).max(1) + if objects > LONG_LISTING { OF_LONG_LISTING } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_requests() {
        let busy = day(&Load::BUSY, 1000);
        // 86,400 captures, 2,880 + 288 + 24 merges, and a base in 13 parts.
        assert_eq!(busy.put, 86_400 + 2_880 + 288 + 24 + 15);
        assert_eq!(busy.get, 2_880 + 288 + 24 + 1);
        // 144 looks at five levels, and one listing of 22,652 objects.
        assert_eq!(busy.list, 144 * 5 + 23 + 10);
        assert_eq!(busy.delete, 1_440);
        assert_eq!(busy.bytes_up, 4 * 86_400 * 4096 + (100 << 20));
        assert_eq!(busy.bytes_down, 3 * 86_400 * 4096 + (100 << 20));
        assert_eq!(day(&Load::IDLE, 1000), Day { list: 1, ..Day::default() });
        // A store that deletes one by one.
        assert_eq!(day(&Load::BUSY, 1).delete, 86_400 + 2_880 + 288 + 24 + 1);
        // More commits make no more objects.
        let fast = Load { commits_per_second: 500, ..Load::BUSY };
        assert_eq!(day(&fast, 1000).put, busy.put);
    }

    #[test]
    fn a_day_under_other_settings() {
        let quiet = Upkeep {
            levels: Vec::new(),
            base_interval: None,
            validation_interval: None,
            sight_interval: None,
            ..Upkeep::default()
        };
        let day = of_upkeep(&quiet, Duration::from_secs(60), &Load::BUSY, 1000);
        let expected = Day { put: 1_440, delete: 1_440, bytes_up: 1_440 * 4096, ..Day::default() };
        assert_eq!(day, expected);
        assert_eq!(of_upkeep(&quiet, Duration::from_secs(60), &Load::IDLE, 1000), Day::default());
    }

    #[test]
    fn parts_and_pages() {
        for (bytes, requests) in [(0, 1), (8 << 20, 1), ((8 << 20) + 1, 4), (100 << 20, 15)] {
            assert_eq!(parts(bytes), requests, "{bytes}");
        }
        for (objects, requests) in [(0, 1), (1000, 1), (1001, 2), (4000, 4), (4001, 15)] {
            assert_eq!(pages(objects), requests, "{objects}");
        }
    }

    #[test]
    fn the_provider_is_known_by_its_name_or_endpoint() {
        for (scheme, endpoint, provider) in [
            (Scheme::S3, None, Some("Amazon")),
            (Scheme::Gs, None, Some("Google")),
            (Scheme::B2, None, Some("Backblaze")),
            (Scheme::File, None, None),
            (Scheme::Sftp, None, None),
            (Scheme::S3, Some("https://s3.eu-central-1.amazonaws.com"), Some("Amazon")),
            (Scheme::S3, Some("https://acc.eu.r2.cloudflarestorage.com"), Some("Cloudflare")),
            (Scheme::S3, Some("https://s3.us-west-004.backblazeb2.com:443/x"), Some("Backblaze")),
            (Scheme::S3, Some("https://T3.storage.dev"), Some("Tigris")),
            (Scheme::S3, Some("s3.wasabisys.com"), Some("Wasabi")),
            (Scheme::S3, Some("https://storage.googleapis.com"), Some("Google")),
            (Scheme::S3, Some("http://127.0.0.1:9000"), None),
            (Scheme::S3, Some("https://evilr2.cloudflarestorage.com.example.com"), None),
            (Scheme::S3, Some("https://notwasabisys.com"), None),
            (Scheme::Gs, Some("http://127.0.0.1:4443"), None),
        ] {
            let found = Prices::known(scheme, endpoint);
            assert_eq!(found.is_some(), provider.is_some(), "{scheme} {endpoint:?}");
            let named = found.zip(provider).is_none_or(|(prices, name)| prices.provider.starts_with(name));
            assert!(named, "{scheme} {endpoint:?}: {found:?}");
        }
    }

    #[test]
    fn money() {
        for (prices, day, dollars) in [
            (&AMAZON, Day { put: 1000, ..Day::default() }, 0.005),
            (&AMAZON, Day { get: 10_000, list: 2000, ..Day::default() }, 0.014),
            (&AMAZON, Day { bytes_down: 2_000_000_000, bytes_up: u64::MAX, ..Day::default() }, 0.18),
            (&CLOUDFLARE, Day { put: 1_000_000, get: 1_000_000, ..Day::default() }, 4.86),
            (&BACKBLAZE, Day { put: 1_000_000, list: 1000, ..Day::default() }, 0.004),
            (&WASABI, Day { put: 1_000_000, get: 1, list: 1, delete: 1, bytes_up: 1, bytes_down: 1 }, 0.0),
        ] {
            assert!((prices.of_day(&day) - dollars).abs() < 1e-9, "{} {day:?}", prices.provider);
        }
        // What `docs/performance.md` measured: about $0.45 for the requests of a database with a commit a second.
        let requests = Day { bytes_down: 0, ..super::day(&Load::BUSY, 1000) };
        let dollars = AMAZON.of_day(&requests);
        assert!((0.44..0.47).contains(&dollars), "{dollars}");
    }
}
