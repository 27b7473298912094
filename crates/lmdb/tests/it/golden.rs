//! Against files that a real Lightning Stream wrote and read (`tests/golden/lightningstream`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use seawall_lmdb::snapshot::{Entry, Item, Limits, SnapshotName, SnapshotReader};
use seawall_lmdb::{Env, Flags, Local, Schema, Settings, Stamp};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Dump, NOW, assert_same, author, dump, open, options, put, schema, snapshot};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/lightningstream")
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn hex(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap();
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// A dump as the original's tools made it.
fn expected(value: &Value) -> Dump {
    let dbi = |(name, dbi): (&String, &Value)| {
        let pairs = dbi["entries"].as_array().unwrap().iter().map(|pair| (hex(&pair[0]), hex(&pair[1])));
        (name.as_bytes().to_vec(), (dbi["flags"].as_u64().unwrap() as u16, pairs.collect()))
    };
    value.as_object().unwrap().iter().map(dbi).collect()
}

/// The schema that a case's configuration asks for.
fn schema_of(case: &Path) -> Schema {
    let text = std::fs::read_to_string(case.join("config.yaml")).unwrap();
    let mut schema = schema(text.contains("schema_tracks_changes: true"), text.contains("dupsort_hack: true"));
    schema.padding = text.contains("header_extra_padding_block: true");
    schema
}

/// A copy of an environment of a case; an empty one where there is none.
fn environment(case: &Path, name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let data = case.join(name).join("data.mdb");
    if data.exists() {
        std::fs::copy(data, folder.path().join("data.mdb")).unwrap();
    }
    folder
}

/// The newest snapshot of each instance of the database `main`.
fn newest(case: &Path) -> BTreeMap<String, PathBuf> {
    let mut newest = BTreeMap::new();
    let mut files: Vec<_> =
        std::fs::read_dir(case.join("snapshots")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    for file in files {
        let name = SnapshotName::parse(file.file_name().unwrap().to_str().unwrap());
        if let Some(name) = name.filter(|name| name.database == "main") {
            newest.insert(name.instance, file);
        }
    }
    newest
}

fn load(local: &mut Local, file: &Path, cutoff: Stamp) -> Result<(), seawall_lmdb::Error> {
    local.load(&file.display().to_string(), std::fs::File::open(file).unwrap(), cutoff, NOW).map(drop)
}

type Entries = Vec<(Vec<u8>, Vec<u8>, u64, bool)>;

/// DBIs with names, flags and transforms.
type Databases = Vec<(Vec<u8>, u64, String, Entries)>;

/// A snapshot, decoded by our own reader.
fn decode(bytes: &[u8]) -> (Value, Databases) {
    let mut reader = SnapshotReader::new(bytes, Limits::default());
    let mut databases: Databases = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        match item {
            Item::Database(_, d) => {
                databases.push((d.name.clone(), d.flags.bits().into(), d.transform.clone(), vec![]));
            }
            Item::Entry(_, Entry { key, value, stamp, deleted }) => {
                databases.last_mut().unwrap().3.push((key.to_vec(), value.to_vec(), stamp.0, deleted));
            }
        }
    }
    let p = reader.preamble();
    let meta = serde_json::json!({
        "formatVersion": p.format, "compatVersion": p.compat, "generationID": p.meta.generation,
        "instanceID": p.meta.instance, "hostname": p.meta.hostname, "databaseName": p.meta.database,
        "lmdbTxnID": p.meta.transaction,
    });
    (meta, databases)
}

fn decoded(value: &Value) -> (Value, Databases) {
    let m = &value["meta"];
    let meta = serde_json::json!({
        "formatVersion": value["formatVersion"], "compatVersion": value["compatVersion"],
        "generationID": m["generationID"], "instanceID": m["instanceID"], "hostname": m["hostname"],
        "databaseName": m["databaseName"], "lmdbTxnID": m["lmdbTxnID"],
    });
    let entry = |e: &Value| {
        let deleted = e["flags"].as_u64().unwrap() & 1 != 0;
        // A deleted key has no value, whatever its writer left there.
        let value = if deleted { vec![] } else { hex(&e["value"]) };
        (hex(&e["key"]), value, e["ts"].as_u64().unwrap(), deleted)
    };
    let database = |d: &Value| {
        let entries = d["entries"].as_array().unwrap().iter().map(entry).collect();
        let (name, transform) = (d["name"].as_str().unwrap(), d["transform"].as_str().unwrap());
        (name.as_bytes().to_vec(), d["flags"].as_u64().unwrap(), transform.to_owned(), entries)
    };
    (meta, value["databases"].as_array().unwrap().iter().map(database).collect())
}

/// The key of a live value that is empty, which the original deletes once it merged its own snapshot.
const LIVE_EMPTY: &[u8] = b"empty";

/// What the original can't do in shadow mode and we can: keep a live value that is empty.
fn without_live_empty(mut dump: Dump, schema: &Schema) -> Dump {
    for (name, (flags, pairs)) in &mut dump {
        if !schema.native && !name.starts_with(b"_sync") && *flags & 0x04 == 0 {
            pairs.retain(|(_, value)| !value.is_empty());
        }
    }
    dump
}

/// Hides what depends on the clock or on how many transactions it took: times and transactions of shadows.
fn without_times(mut dump: Dump, schema: &Schema) -> Dump {
    for (name, (_, pairs)) in &mut dump {
        if !schema.native && name.starts_with(b"_sync") {
            pairs.iter_mut().for_each(|(_, value)| value[..16].fill(0));
        }
    }
    dump
}

const WRITTEN: [&str; 7] = [
    "native-basic",
    "native-update-delete",
    "native-integerkey",
    "native-reversekey",
    "native-padding-block",
    "shadow-basic",
    "shadow-dupsort",
];

const MERGED: [&str; 11] = [
    "merge-conflicts",
    "merge-dbi-twice",
    "merge-format1",
    "merge-format2",
    "merge-format9-compat1",
    "merge-multimember",
    "merge-names",
    "merge-private-dbi",
    "merge-stale-deletes",
    "merge-three-instances",
    "merge-unsorted",
];

const REFUSED: [&str; 6] = [
    "native-dupsort-refused",
    "native-bad-header",
    "native-bad-version",
    "shadow-dupsort-no-hack",
    "shadow-dupsort-long-key",
    "shadow-dupsort-ambiguous",
];

/// Where the original ends, or destroys something.
const BETTER: [&str; 3] = ["shadow-integerkey-zero", "shadow-reversekey", "shadow-merge"];

#[test]
fn no_case_is_left_out() {
    let all = std::fs::read_dir(golden()).unwrap().map(|entry| entry.unwrap());
    let cases = all.filter(|entry| entry.path().join("config.yaml").exists() && entry.file_name() != "corrupt");
    let mut found: Vec<_> = cases.map(|case| case.file_name().into_string().unwrap()).collect();
    let mut tried = [&WRITTEN[..], &MERGED, &REFUSED, &BETTER].concat();
    found.sort();
    tried.sort();
    assert_eq!(found, tried);
}

/// Our snapshot of each case's first environment.
fn first_snapshot(name: &str) -> Vec<u8> {
    let (case, schema) = (golden().join(name), schema_of(&golden().join(name)));
    let folder = environment(&case, "source0");
    let mut local = open(folder.path(), &schema);
    local.begin(NOW).unwrap();
    snapshot(&mut local, "a", NOW)
}

/// Decoded by a codec that shares nothing with ours: `tests/golden/tools/lssnap.py`.
#[test]
fn another_codec_finds_in_our_snapshots_what_it_finds_in_those_of_the_original() {
    let folder = tempfile::tempdir().unwrap();
    for name in WRITTEN {
        let file = folder.path().join(name);
        std::fs::write(&file, first_snapshot(name)).unwrap();
        let program = "import json, sys; sys.path.insert(0, sys.argv[1]); import lssnap; \
            print(json.dumps(lssnap.decode(open(sys.argv[2], 'rb').read())))";
        let mut python = std::process::Command::new("python3");
        let output = python.args(["-c", program]).arg(golden().join("../tools")).arg(&file).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let wanted = json(&golden().join(name).join("snapshot0.json"));
        assert_eq!(found["meta"]["timestampNano"], NOW.0, "{name}");
        assert_eq!(decoded(&found), decoded(&wanted), "{name}");
    }
}

#[test]
fn what_we_write_is_what_the_original_wrote() {
    for name in WRITTEN {
        let (case, schema) = (golden().join(name), schema_of(&golden().join(name)));
        for step in 0.. {
            if !case.join(format!("source{step}")).exists() {
                assert!(step > 0, "{name}");
                break;
            }
            let folder = environment(&case, &format!("source{step}"));
            let mut local = open(folder.path(), &schema);
            local.begin(NOW).unwrap();
            let bytes = snapshot(&mut local, "a", NOW);
            let (mut meta, mut databases) = decode(&bytes);
            let (mut wanted_meta, mut wanted) = decoded(&json(&case.join(format!("snapshot{step}.json"))));
            if !schema.native && step > 0 {
                // What changed while nobody watched has the time of the file with us, and 1 ns with the original. The
                // number of transactions differs where it merges its own last snapshot first.
                for entries in databases.iter_mut().chain(&mut wanted).map(|database| &mut database.3) {
                    entries.iter_mut().for_each(|entry| entry.2 = 0);
                    entries.retain(|entry| entry.0 != LIVE_EMPTY);
                }
                meta["lmdbTxnID"] = 0.into();
                wanted_meta["lmdbTxnID"] = 0.into();
            }
            assert_eq!(meta, wanted_meta, "{name} {step}");
            assert_eq!(databases, wanted, "{name} {step}");
            let (mut ours, mut wanted) =
                (dump(local.env()), expected(&json(&case.join(format!("source{step}_after.json")))));
            for (_, pairs) in ours.values_mut().chain(wanted.values_mut()).filter(|_| !schema.native && step > 0) {
                pairs.retain(|(key, _)| key != LIVE_EMPTY);
            }
            assert_same(&without_times(ours, &schema), &without_times(wanted, &schema), &format!("{name} {step}"));
        }
    }
}

#[test]
fn what_the_original_wrote_is_loaded_as_it_loads_it() {
    for name in WRITTEN {
        let (case, schema) = (golden().join(name), schema_of(&golden().join(name)));
        let folder = tempfile::tempdir().unwrap();
        let mut local = open(folder.path(), &schema);
        load(&mut local, &newest(&case)["a"], Stamp(0)).unwrap();
        let wanted = without_live_empty(expected(&json(&case.join("loaded.json"))), &schema);
        assert_same(&without_live_empty(dump(local.env()), &schema), &wanted, name);
        assert!(!local.is_pending().unwrap(), "{name}: what was received isn't sent again");
    }
}

#[test]
fn snapshots_are_merged_as_the_original_merges_them() {
    for name in MERGED {
        let (case, schema) = (golden().join(name), schema_of(&golden().join(name)));
        let folder = environment(&case, "target");
        let mut local = open(folder.path(), &schema);
        // A retention of a day, less a hundredth, before the moment at which the original merged this.
        let made = 1_795_289_760_000_000_000;
        let cutoff = if name == "merge-stale-deletes" { Stamp(made - 85_536_000_000_000) } else { Stamp(0) };
        for file in newest(&case).values() {
            load(&mut local, file, cutoff).unwrap();
        }
        let numbers = |mut dump: Dump| {
            // In which of the merges a key was written depends on their order, which the original draws.
            dump.values_mut().flat_map(|(_, pairs)| pairs).for_each(|(_, value)| value[8..16].fill(0));
            dump
        };
        let mut wanted = expected(&json(&case.join("target_after.json")));
        for (_, pairs) in wanted.values_mut() {
            // The tie that the original leaves open: a deletion against an empty value of the same time.
            let tie = pairs.iter_mut().find(|(key, _)| key == b"eq-ts-empty-vs-del");
            tie.into_iter().for_each(|(_, value)| value[17] = 1);
        }
        assert_same(&numbers(dump(local.env())), &numbers(wanted), name);
        assert!(!seek_again(&mut local, &case, cutoff), "{name}: merging again changes nothing");
    }
}

/// Whether merging everything again writes anything.
fn seek_again(local: &mut Local, case: &Path, cutoff: Stamp) -> bool {
    let before = local.info().unwrap().last_transaction;
    for file in newest(case).values() {
        load(local, file, cutoff).unwrap();
    }
    local.info().unwrap().last_transaction != before
}

#[test]
fn a_shadow_merge_keeps_live_empty_values() {
    let (case, schema) = (golden().join("shadow-merge"), schema(false, false));
    let folder = environment(&case, "target");
    let mut local = open(folder.path(), &schema);
    local.begin(NOW).unwrap();
    load(&mut local, &newest(&case)["b"], Stamp(0)).unwrap();
    let ours = dump(local.env());
    let empty = (b"empty-live".to_vec(), vec![]);
    assert!(ours[&b"d".to_vec()].1.contains(&empty), "the original removes it, and spreads the deletion");
    let without = |mut dump: Dump| {
        dump.values_mut().for_each(|(_, pairs)| pairs.retain(|(key, _)| key != b"empty-live"));
        dump
    };
    let wanted = expected(&json(&case.join("target_after.json")));
    assert_same(&without(ours), &without(wanted), "shadow-merge");
}

#[test]
fn what_does_not_fit_the_schema_is_refused() {
    for name in REFUSED {
        let (case, schema) = (golden().join(name), schema_of(&golden().join(name)));
        let folder = environment(&case, "source0");
        let mut local = open(folder.path(), &schema);
        let before = dump(local.env());
        let result = local.begin(NOW).and_then(|_| local.snapshot(&author("a"), &|| NOW).map(drop));
        let failure = seawall_core::Failure::from(result.expect_err(name));
        assert_eq!(failure.code, "lmdb.schema", "{name}");
        assert_eq!(dump(local.env()), before, "{name}");
    }
}

#[test]
fn integer_key_zero_and_reversed_keys_work_with_shadows() {
    for name in &BETTER[..2] {
        let (case, schema) = (golden().join(name), schema_of(&golden().join(name)));
        let (from, to) = (environment(&case, "source0"), tempfile::tempdir().unwrap());
        let mut writer = open(from.path(), &schema);
        let before = dump(writer.env());
        writer.begin(NOW).unwrap();
        let bytes = snapshot(&mut writer, "a", NOW);
        let mut reader = open(to.path(), &schema);
        reader.load("x", &bytes[..], Stamp(0), NOW).unwrap();
        let application =
            |env: &Env| -> Dump { dump(env).into_iter().filter(|(name, _)| !name.starts_with(b"_sync")).collect() };
        assert_eq!(application(reader.env()), before, "{name}");
        assert_eq!(application(writer.env()), before, "{name}");
        assert!(!before.is_empty());
    }
}

/// Damaged snapshots that we treat in another way than the original, and why.
const DIFFERENT: [(&str, &str); 4] = [
    ("dbi-unknown-bytes", "an unknown field is no damage; the original skips it wrongly"),
    ("dbi-unknown-bytes-first", "an unknown field is no damage; the original skips it wrongly"),
    ("flags-integerkey-odd-size", "liblmdb reads past the end of such keys"),
    ("flags-integerkey-mixed-size", "liblmdb reads past the end of such keys"),
];

#[test]
fn a_damaged_snapshot_is_merged_whole_or_not_at_all() {
    let folder = golden().join("corrupt");
    let cases = json(&folder.join("expected.json"));
    let local_value = hex(&"18493fba64ef000000000000000000010000000000000000756e746f7563686564".into());
    let (mut loaded, mut refused) = (0, 0);
    for (name, case) in cases.as_object().unwrap() {
        let place = tempfile::tempdir().unwrap();
        let mut settings = Settings::new(schema(true, false));
        settings.limits.entry = 1 << 20;
        let mut local = Local::open(place.path(), &options(), settings).unwrap();
        put(local.env(), "d", Flags::default(), b"local", &local_value);
        let before = dump(local.env());
        let result = load(&mut local, &folder.join(format!("{name}.pb.gz")), Stamp(0));
        let after = dump(local.env());
        let different = DIFFERENT.iter().any(|(known, _)| known == name);
        match result {
            Ok(()) => {
                loaded += 1;
                assert_eq!(case["outcome"] == "loaded", !different, "{name}");
                let counts = case["entries_after"].as_object().unwrap().iter();
                let counts: BTreeMap<_, _> = counts.map(|(dbi, n)| (dbi.as_bytes(), n.as_u64().unwrap())).collect();
                let found = after.iter().map(|(dbi, (_, pairs))| (dbi.as_slice(), pairs.len() as u64)).collect();
                assert!(different || counts == found, "{name}");
                if case["lmdb_after"].is_object() && !different {
                    assert_eq!(after, expected(&case["lmdb_after"]), "{name}");
                }
            }
            Err(error) => {
                refused += 1;
                assert!(error.is_bad_snapshot(), "{name}: {error}");
                assert_eq!(case["outcome"] != "loaded", !different, "{name}: {error}");
                assert_eq!(after, before, "{name}");
            }
        }
    }
    assert_eq!((loaded, refused), (14, 45));
}
