//! The extension is a file of its own, which SQLite finds by its name and by the names of its functions. What it does is
//! tested in `tests/it/view.rs`, in other programs' SQLite.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]

#[test]
fn the_library_has_the_names_that_sqlite_looks_for() {
    let test = std::env::current_exe().expect("a test knows its own path");
    let folder = test.parent().expect("a folder");
    let library = [folder.join("libseawall_vfs.so"), folder.join("../libseawall_vfs.so")];
    let library = library.iter().find(|file| file.is_file()).expect("cargo built it for this test");
    let bytes = std::fs::read(library).expect("read");
    for name in ["sqlite3_seawallvfs_init\0", "sqlite3_extension_init\0"] {
        let found = bytes.windows(name.len()).any(|window| window == name.as_bytes());
        assert!(found, "{name} isn't in {}", library.display());
    }
}
