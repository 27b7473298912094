//! PowerDNS: a stand-in that makes its two LMDB files, with the header before each value that PowerDNS writes since 4.8. (The recipe
//! was tried by hand with PowerDNS 5.1 and `pdnsutil`.)

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use seawall_lmdb::{Env, EnvOptions, Flags};

use super::page::Page;
use super::{check, host::Host, local};

const MAIN: (&str, &[u8]) = ("/var/lib/powerdns/pdns.lmdb", b"domains_v5");
const SHARD: (&str, &[u8]) = ("/var/lib/powerdns/pdns.lmdb-0", b"records_v5");

fn with<T>(path: &Path, act: impl FnOnce(&Env) -> T) -> T {
    let options = EnvOptions { no_subdir: true, create: true, map_size: Some(64 << 20), ..EnvOptions::default() };
    act(&Env::open(path, &options).unwrap())
}

/// Commits one value, or a deletion, as `lmdb-lightning-stream` does: time, transaction, version, flags, reserved bytes.
fn put(host: &Host, (path, dbi): (&str, &[u8]), key: &str, value: Option<&str>) {
    let now = u64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap();
    let mut bytes = now.to_be_bytes().to_vec();
    bytes.extend_from_slice(&1_u64.to_be_bytes());
    bytes.extend_from_slice(&[0, u8::from(value.is_none()), 0, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(value.unwrap_or_default().as_bytes());
    with(&host.path(path), |env| {
        let mut txn = env.write().unwrap();
        let dbi = txn.create(dbi, Flags::default()).unwrap();
        txn.put(dbi, key.as_bytes(), &bytes).unwrap();
        txn.commit().unwrap();
    });
}

/// The keys that aren't deleted, with their values.
fn all(host: &Host, (path, dbi): (&str, &[u8]), keys: &[&str]) -> BTreeMap<String, String> {
    with(&host.path(path), |env| {
        let mut txn = env.read().unwrap();
        let dbi = txn.open(dbi).unwrap().unwrap();
        let mut found = BTreeMap::new();
        for key in keys {
            let Some(bytes) = txn.get(dbi, key.as_bytes()).unwrap() else { continue };
            if bytes[17] & 1 == 0 {
                found.insert((*key).to_owned(), String::from_utf8(bytes[24..].to_vec()).unwrap());
            }
        }
        found
    })
}

#[test]
fn powerdns_comes_back_and_goes_back_with_what_was_deleted() {
    let page = Page::read("powerdns");
    check(&page);
    let mut host = Host::with(&page);
    fs::create_dir_all(host.path("/var/lib/powerdns")).unwrap();
    let keys = ["example.org", "example.net", "www", "mail", "later"];
    let state = |host: &Host| [all(host, MAIN, &keys), all(host, SHARD, &keys)];
    put(&host, MAIN, "example.org", Some("zone 1"));
    put(&host, SHARD, "www", Some("192.0.2.7"));
    host.carry_all_out(&local(&page.commands("Start")[0]));
    put(&host, MAIN, "example.net", Some("zone 2"));
    put(&host, SHARD, "mail", Some("192.0.2.8"));
    host.settle(&["main", "shard"]);
    let (earlier, moment) = (state(&host), host.moment.clone());
    assert_eq!(earlier.each_ref().map(BTreeMap::len), [2, 2]);
    put(&host, SHARD, "later", Some("192.0.2.9"));
    put(&host, SHARD, "www", None);
    put(&host, MAIN, "example.net", None);
    host.settle(&["main", "shard"]);
    let newest = state(&host);
    assert_eq!(newest.each_ref().map(BTreeMap::len), [1, 2]);

    host.lose(&["/var/lib/powerdns"]);
    let blocks = page.commands("Restore");
    let block = local(&blocks[0]);
    let (start, before) = block.split_last().unwrap();
    host.carry_all_out(before);
    assert_eq!(state(&host), newest);
    host.carry_all_out(std::slice::from_ref(start));
    assert_eq!(state(&host), newest, "nothing comes back from the vault");

    host.moment = moment;
    host.carry_all_out(&local(&blocks[1]));
    assert_eq!(state(&host), earlier);
    // The rollback wins over what is in the vault.
    host.settle(&["main", "shard"]);
    assert_eq!(state(&host), earlier);
}
