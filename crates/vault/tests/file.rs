//! Properties of a folder beyond the suite: leftovers of crashes, modes, links, unusual files.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use bytes::Bytes;
use seawall_core::Moment;
use seawall_vault::{Created, Environment, Error, FileStore, ObjectKey, Policy, Prefix, Store, Vault, VaultUrl};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).expect("a sound name")
}

async fn open(folder: &Path) -> Vault {
    let url = VaultUrl::parse(folder.to_str().expect("text")).expect("a URL");
    let policy = Policy { part_size: 1 << 16, seed: 1, ..Policy::default() };
    Vault::open(&url, &Environment::empty(), policy).await.expect("open")
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn leftovers_of_a_crash_are_neither_listed_nor_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let level = folder.path().join("ltx/0");
    std::fs::create_dir_all(&level).expect("a level");
    std::fs::write(level.join(".1-0.tmp"), b"half").expect("write");
    std::fs::write(level.join("x.ltx.tmp"), b"another program's").expect("write");
    std::fs::write(level.join(".other.tmp"), b"another program's").expect("write");
    let vault = open(folder.path()).await;
    assert!(vault.list(&Prefix::all(), None).await.expect("list").is_empty());
    vault.create(&key("ltx/0/a"), Bytes::from_static(b"n"), None).await.expect("create");
    assert_eq!(names(&level), [".other.tmp", "a", "x.ltx.tmp"], "ours is gone, others' stay");
}

#[tokio::test]
async fn a_live_upload_is_no_leftover() {
    let folder = tempfile::tempdir().expect("a folder");
    // Two stores as in two processes; the second one's first write into the folder sweeps it.
    let mut upload = open(folder.path()).await.upload(&key("x/streamed"), Some(Moment::from_millis(5000)));
    upload.write(Bytes::from(vec![1; 1 << 20])).await.expect("write");
    assert_eq!(names(&folder.path().join("x")).len(), 1, "a .tmp file");
    let link = folder.path().join("same");
    symlink(folder.path(), &link).expect("another name, so that the sweep isn't known to be done");
    open(&link).await.create(&key("x/other"), Bytes::from_static(b"n"), None).await.expect("create");
    assert_eq!(upload.finish().await, Ok(Created::Fresh));
    assert_eq!(names(&folder.path().join("x")), ["other", "streamed"]);
}

#[tokio::test]
async fn dropped_and_failed_uploads_leave_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let vault = open(folder.path()).await;
    vault.create(&key("x/taken"), Bytes::from_static(b"n"), None).await.expect("create");
    for name in ["x/taken", "x/dropped"] {
        let mut upload = vault.upload(&key(name), None);
        upload.write(Bytes::from(vec![1; 1 << 20])).await.expect("write");
        match name {
            "x/taken" => assert!(matches!(upload.finish().await, Err(Error::AlreadyExists { .. }))),
            _ => upload.abort().await.expect("abort"),
        }
    }
    assert_eq!(names(&folder.path().join("x")), ["taken"]);
}

#[tokio::test]
async fn what_we_make_is_as_private_as_its_root() {
    let folder = tempfile::tempdir().expect("a folder");
    let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
    let fresh = folder.path().join("fresh");
    open(&fresh).await.create(&key("a/b/c"), Bytes::from_static(b"n"), None).await.expect("create");
    assert_eq!((mode(&fresh), mode(&fresh.join("a/b")), mode(&fresh.join("a/b/c"))), (0o700, 0o700, 0o600));
    let shared = folder.path().join("shared");
    std::fs::create_dir(&shared).expect("a folder");
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o750)).expect("a mode");
    open(&shared).await.create(&key("a/c"), Bytes::from_static(b"n"), None).await.expect("create");
    assert_eq!((mode(&shared.join("a")), mode(&shared.join("a/c"))), (0o750, 0o640));
}

#[tokio::test]
async fn links_lead_nowhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, b"hidden").expect("write");
    let root = folder.path().join("vault");
    std::fs::create_dir(&root).expect("a folder");
    symlink(&secret, root.join("link")).expect("a link");
    symlink(folder.path(), root.join("up")).expect("a link");
    let store = FileStore::new(&root);
    assert!(matches!(store.head(&key("link")).await, Err(Error::NotFound { .. })));
    assert!(matches!(store.get(&key("link"), None).await, Err(Error::NotFound { .. })));
    assert!(store.list(&Prefix::all(), None, 10).await.expect("list").entries.is_empty());
}

/// Pages of any size count each of these names once.
#[tokio::test]
async fn names_that_are_no_objects_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("vault");
    for name in ["a", "c", "d/e", "d/x.tmp", "d/line\nfeed", "f\\g", "z"] {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, b"n").expect("write");
    }
    for link in ["b", "d/0", "d/z", "zz"] {
        symlink(folder.path(), root.join(link)).expect("a link");
    }
    let store = FileStore::new(&root);
    for limit in 1..6 {
        let (mut entries, mut passed_over, mut after) = (Vec::new(), 0, None);
        loop {
            let page = store.list(&Prefix::all(), after.as_ref(), limit).await.expect("list");
            entries.extend(page.entries.into_iter().map(|entry| entry.key.to_string()));
            passed_over += page.passed_over.count;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!((entries, passed_over), (["a", "c", "d/e", "z"].map(str::to_owned).to_vec(), 6), "pages of {limit}");
    }
}

#[tokio::test]
async fn a_file_in_the_way_is_an_error_and_not_a_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, b"x").expect("write");
    let vault = open(&file).await;
    assert!(vault.create(&key("a"), Bytes::from_static(b"n"), None).await.is_err());
    assert_eq!(vault.head(&key("a")).await, Ok(None));
    // It is no empty vault.
    let listed = vault.list(&Prefix::all(), None).await;
    assert!(matches!(listed, Err(Error::Vanished { .. })), "{listed:?}");
    let vault = open(folder.path()).await;
    assert_eq!(vault.list(&Prefix::new("file").expect("a folder"), None).await.expect("list"), []);
    assert!(vault.create(&key("file/a"), Bytes::from_static(b"n"), None).await.is_err());
}

#[tokio::test]
async fn nothing_is_written_below_a_folder_that_took_the_vaults_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let (root, aside) = (folder.path().join("vault"), folder.path().join("aside"));
    let vault = open(&root).await;
    vault.enter().await.expect("to be made");
    let write = async |name: &str| vault.create(&key(name), Bytes::from_static(b"n"), None).await;
    write("x/1").await.expect("written");
    let mut upload = vault.upload(&key("x/streamed"), None);
    upload.write(Bytes::from(vec![1; 1 << 20])).await.expect("write");

    std::fs::rename(&root, &aside).expect("renamed");
    assert!(matches!(write("x/2").await, Err(Error::Vanished { .. })));
    assert!(matches!(vault.list(&Prefix::all(), None).await, Err(Error::Vanished { .. })), "not an empty vault");
    assert!(matches!(vault.check(), Err(Error::Vanished { .. })));
    assert!(!root.exists(), "it isn't made again");

    std::fs::create_dir(&root).expect("made");
    assert!(matches!(upload.finish().await, Err(Error::Replaced { .. })));
    for _ in 0..2 {
        assert!(matches!(write("x/2").await, Err(Error::Replaced { .. })));
        assert!(matches!(vault.head(&key("x/1")).await, Err(Error::Replaced { .. })));
        assert!(matches!(vault.delete(&[key("x/1")]).await, Err(Error::Replaced { .. })));
    }
    assert_eq!(names(&root), Vec::<String>::new());

    std::fs::remove_dir(&root).expect("removed");
    std::fs::rename(&aside, &root).expect("back");
    write("x/2").await.expect("it goes on by itself");
    let whole = |name: &String| !name.starts_with('.');
    let there: Vec<String> = names(&root.join("x")).into_iter().filter(whole).collect();
    assert_eq!(there, ["1", "2"], "beside what is left of an upload, as by a crash");
}

/// A vault that holds nothing is an empty folder, or none. A file in its place isn't.
#[tokio::test]
async fn a_file_in_the_place_of_the_folder_is_no_empty_vault() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("vault");
    std::fs::write(&path, "in the way").expect("written");
    let store = FileStore::new(&path);
    for prefix in [Prefix::all(), Prefix::new("ltx/0").expect("a folder")] {
        let listed = store.list(&prefix, None, 10).await;
        assert!(matches!(listed, Err(Error::Vanished { .. })), "{listed:?}");
    }
}
