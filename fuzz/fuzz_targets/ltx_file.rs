//! Files by their paths: no panic, the verdict of the same bytes in memory, and a database that a bad file leaves alone.
#![no_main]

use std::num::NonZeroUsize;
use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use seawall_ltx::decode_any;
use seawall_ltx::file::{ApplyOptions, FileError, Work, apply, compact, decode, describe, verify};

fuzz_target!(|bytes: &[u8]| {
    let path = |name: &str| std::env::temp_dir().join(format!("seawall-fuzz-{}-{name}", std::process::id()));
    let (file, database, output): (PathBuf, PathBuf, PathBuf) = (path("file"), path("database"), path("output"));
    std::fs::write(&file, bytes).expect("a file");
    let work = Work::new().with_jobs(NonZeroUsize::new(2).expect("not 0"));
    let in_memory = decode_any(bytes, |_, _| ());
    match (verify(&file, work), &in_memory) {
        (Ok(found), Ok(expected)) => assert_eq!(found.summary, *expected),
        (Err(FileError::Format { source, .. }), Err(expected)) => assert_eq!(source, *expected),
        other => panic!("{other:?}"),
    }
    let _ends_alone = describe(&file);
    for done in [
        decode(&file, &output, work).map(drop),
        compact(std::slice::from_ref(&file), &output, work).map(drop),
    ] {
        assert!(in_memory.is_ok() || done.is_err());
    }
    std::fs::write(&database, b"not a database").expect("a file");
    if apply(&database, &[file], ApplyOptions::default(), work).is_err() {
        assert_eq!(std::fs::read(&database).expect("the file"), b"not a database");
    }
});
