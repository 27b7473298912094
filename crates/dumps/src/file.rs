//! A backup that is a file, or the folder into which one was unpacked: looked at, and opened.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use seawall_core::{Failure, Kind};
use tokio::sync::mpsc::Sender;
use tokio::task::spawn_blocking;

use crate::key::Key;
use crate::layers::{self, Content, Digest, Digested, Fronted, Marked, Source, failure, unreadable};
use crate::members::has_dumps;
use crate::pieces::{Event, PIECE, Pieces};
use crate::recognise::{Form, Wrap};
use crate::sidecar::{Checked, Sidecar};
use crate::unsealed::Unsealed;

/// The file in a whole server's backup that has what belongs to no database.
pub(crate) const GLOBALS: &str = "globals.sql";

/// The folder in a whole server's backup that has a file for each database.
pub(crate) const DUMPS: &str = "dumps";

/// A backup of one database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Single {
    /// What it is: an archive or a script.
    pub form: Form,
    /// How it is compressed.
    pub wrap: Wrap,
}

/// What a backup has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// One database.
    Single(Single),
    /// The databases of a server, in a tar.
    Tar(Wrap),
    /// The same, unpacked into a folder.
    Folder,
}

/// A backup that another program left.
#[derive(Debug, Clone)]
pub struct Dump {
    /// The file or folder.
    pub path: PathBuf,
    /// What it has.
    pub shape: Shape,
    /// What is written beside it.
    pub sidecar: Sidecar,
    /// The bytes of the file; 0 of a folder.
    pub size: u64,
    /// The key, if it is encrypted.
    pub(crate) key: Option<Key>,
    pub(crate) id: String,
}

/// A file that is being read, with the digests of what was read.
pub(crate) struct Open {
    pub(crate) source: Source<'static>,
    file: Digest,
    opened: Option<Digest>,
}

impl Dump {
    /// Looks at a path. `None`: it is no backup of another program. A file that nothing says to be encrypted is tried with `key` only
    /// if `is_sealed`. Blocks.
    ///
    /// # Errors
    /// It can't be read; it is encrypted, and `key` is missing or wrong; it is a backup in a form that isn't read.
    pub fn look(path: &Path, key: Option<&Key>, is_sealed: bool) -> Result<Option<Self>, Failure> {
        let object = path.display().to_string();
        // A text that is no path of a file may be a name of the configuration.
        let Ok(facts) = fs::metadata(path) else { return Ok(None) };
        let id = id(&object, &facts);
        if facts.is_dir() {
            let is_one = path.join(GLOBALS).is_file() || has_dumps(path);
            let (shape, sidecar) = (Shape::Folder, Sidecar::default());
            return Ok(is_one.then(|| Self { path: path.to_owned(), shape, sidecar, size: 0, key: None, id }));
        }
        if !facts.is_file() {
            return Ok(None);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_named_so = name.ends_with(".enc");
        let file = match File::open(path) {
            // The path may stand for a database of the configuration, whose vault can be read.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied && !is_named_as_backup(&name) => {
                return Ok(None);
            }
            opened => opened.map_err(|error| unreadable(&object, &error))?,
        };
        let front = Fronted::new(Box::new(file)).map_err(|error| unreadable(&object, &error))?.front;
        let known_by = if is_named_so { "" } else { &name };
        let is_plain = Wrap::of(&front) != Wrap::Plain || Form::of(&front, known_by).is_some();
        let may_be_sealed = is_named_so || is_sealed;
        // Any other file is none of ours, whatever is beside it.
        if !is_plain && !may_be_sealed && !Sidecar::read(path).is_ok_and(|sidecar| sidecar.encrypted) {
            match (is_named_as_backup(&name), key) {
                (false, _) => return Ok(None),
                // dbbackup 3 gives an encrypted file no other name.
                (true, Some(_)) => {}
                (true, None) => return Err(unknown(&object)),
            }
        }
        let (shape, sidecar) = (Shape::Folder, Sidecar::read(path)?);
        let mut dump = Self { path: path.to_owned(), shape, sidecar, size: facts.len(), key: None, id };
        if !is_plain {
            dump.key = match key {
                Some(key) => Some(key.clone()),
                None => {
                    let next = "give the key file with which it was made: --encryption-key-file FILE";
                    return Err(Failure::new(
                        Kind::Denied,
                        "dump.key",
                        object,
                        "it is encrypted, and no key is given",
                        next,
                    ));
                }
            };
        }
        let content = Content::open(dump.open()?.source, &name).map_err(|error| failure(error, &object))?;
        dump.shape = match content.form(&object)? {
            Some(Form::Tar) => Shape::Tar(content.wrap),
            Some(form @ (Form::Archive | Form::Script(_))) => Shape::Single(Single { form, wrap: content.wrap }),
            Some(Form::OtherArchive) => return Err(other_archive(&object)),
            None => return Err(unknown(&object)),
        };
        Ok(Some(dump))
    }

    /// The path, for messages.
    pub fn object(&self) -> String {
        self.path.display().to_string()
    }

    /// What it is, in a word: `archive`, `script`, `tar` or `folder`.
    pub fn kind(&self) -> &'static str {
        match &self.shape {
            Shape::Single(Single { form: Form::Archive, .. }) => "archive",
            Shape::Single(_) => "script",
            Shape::Tar(_) => "tar",
            Shape::Folder => "folder",
        }
    }

    /// How the file is compressed.
    pub fn compression(&self) -> Wrap {
        match &self.shape {
            Shape::Single(single) => single.wrap,
            Shape::Tar(wrap) => *wrap,
            Shape::Folder => Wrap::Plain,
        }
    }

    /// What a file that is read to its end is compared with: `sha256`, `beginning` (the SHA-256 of a beginning of it), or nothing.
    pub fn checksum(&self) -> Option<&'static str> {
        if self.sidecar.recorded.is_empty() {
            return None;
        }
        Some(if self.sidecar.beginning(self.size).is_some() { "beginning" } else { "sha256" })
    }

    /// The bytes that a checksum of a beginning covers.
    pub fn checked_bytes(&self) -> Option<u64> {
        self.sidecar.beginning(self.size)
    }

    /// Whether it is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.key.is_some()
    }

    /// The content of a backup of one database. A thread of the runtime reads it.
    pub fn pieces(&self) -> Pieces {
        let (pieces, sender) = Pieces::new(&self.object(), &self.id, self.size);
        let dump = self.clone();
        spawn_blocking(move || {
            let _ = match dump.put(&sender) {
                Ok(()) => sender.blocking_send(Event::End),
                Err(failure) => sender.blocking_send(Event::Failed(failure)),
            };
        });
        pieces
    }

    fn put(&self, sender: &Sender<Event>) -> Result<(), Failure> {
        let object = self.object();
        let Open { source, file, opened } = self.open()?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let content = Content::open(source, &name).map_err(|error| failure(error, &object))?;
        let form = content.form(&object)?.ok_or_else(|| unknown(&object))?;
        let (wrap, Some(is_marked)) = (content.wrap, put(content.bytes, &form, sender, &object)?) else {
            return Ok(());
        };
        proved(is_marked, wrap, self.judge(&file, opened.as_ref())?, &object)
    }

    /// Opens the file and its encryption. It must be the file that was looked at.
    pub(crate) fn open(&self) -> Result<Open, Failure> {
        let digest = Digest::new(self.sidecar.beginning(self.size));
        let file = open(&self.path)?;
        let facts = file.metadata().map_err(|error| unreadable(&self.object(), &error))?;
        if id(&self.object(), &facts) != self.id {
            return Err(layers::damaged(&self.object(), "it isn't the file any more that was looked at"));
        }
        let file = Digested { inner: file, digest: digest.clone() };
        let Some(key) = &self.key else {
            return Ok(Open { source: Box::new(file), file: digest, opened: None });
        };
        let opened = Digest::new(None);
        let inner = Unsealed::new(std::io::BufReader::new(file), key, &self.object())?;
        let source = Box::new(Digested { inner, digest: opened.clone() });
        Ok(Open { source, file: digest, opened: Some(opened) })
    }

    /// Whether a file that was read to its end is what is written beside it.
    pub(crate) fn judge(&self, file: &Digest, opened: Option<&Digest>) -> Result<Checked, Failure> {
        let digests = layers::digests(file, opened);
        if digests.size != self.size {
            let cause =
                format!("it had {} bytes when it was looked at, and {} when it was read", self.size, digests.size);
            return Err(layers::damaged(&self.object(), cause));
        }
        self.sidecar.judge(&digests, &self.object())
    }
}

/// A text that changes when a file does.
fn id(object: &str, facts: &fs::Metadata) -> String {
    format!("{object}|{}|{}.{}|{}", facts.len(), facts.mtime(), facts.mtime_nsec(), facts.ino())
}

/// Whether a file's name says that it is a backup.
fn is_named_as_backup(name: &str) -> bool {
    [".dump", ".sql", ".tar", ".gz", ".zst", ".enc"].iter().any(|end| name.ends_with(end))
}

impl Open {
    /// Its parts: what is read, and what tells of it afterwards.
    pub(crate) fn parts(self) -> (Source<'static>, Digest, Option<Digest>) {
        (self.source, self.file, self.opened)
    }
}

/// Opens a file to read.
pub(crate) fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| unreadable(&path.display().to_string(), &error))
}

/// Puts the content of a backup into a stream, to its end. Returns whether a mark proves the end; `None` if the reader has closed the stream.
pub(crate) fn put(
    mut bytes: impl Read,
    form: &Form,
    sender: &Sender<Event>,
    object: &str,
) -> Result<Option<bool>, Failure> {
    let mut marked = Marked::new(form);
    loop {
        let mut piece = Vec::with_capacity(PIECE);
        let read = (&mut bytes).take(PIECE as u64).read_to_end(&mut piece);
        // What came before an error is of no use without the rest.
        read.map_err(|error| failure(error, object))?;
        if piece.is_empty() {
            return marked.end(object).map(Some);
        }
        marked.take(&piece);
        if sender.blocking_send(Event::Bytes(piece)).is_err() {
            return Ok(None);
        }
    }
}

/// A file that is compressed or encrypted, and has nothing that is known.
pub(crate) fn unknown(object: &str) -> Failure {
    let cause = "it is neither a script of SQL, nor an archive of pg_dump, nor a tar of such";
    let next = "name a backup of dbbackup, pg_dump, mysqldump or mariadb-dump; a script's name ends in .sql, .sql.gz or .sql.zst; \
                if it is encrypted, give --encryption-key-file FILE";
    Failure::new(Kind::Refused, "dump.unknown", object, cause, next)
}

/// An archive that only `pg_restore` reads, from a file or a folder.
pub(crate) fn other_archive(object: &str) -> Failure {
    let cause = "it is what pg_dump writes with --format=tar or --format=directory, which isn't read here";
    let next = "restore it with pg_restore";
    Failure::new(Kind::Refused, "dump.unknown", object, cause, next)
}

/// Refuses a script whose end nothing proves: behind its last statement, and behind a chunk of its encryption, nothing tells that there
/// is more. A checksum of a beginning doesn't prove the end.
pub(crate) fn proved(is_marked: bool, wrap: Wrap, checked: Checked, object: &str) -> Result<(), Failure> {
    match is_marked || wrap != Wrap::Plain || checked == Checked::Sha256 {
        true => Ok(()),
        false => Err(unproved(object)),
    }
}

/// A script whose end nothing proves.
fn unproved(object: &str) -> Failure {
    let cause = "nothing says whether it is whole: no program that is known wrote it, it isn't compressed, and no checksum is beside it";
    let next =
        format!("if you know that it is whole, write its checksum beside it: sha256sum '{object}' > '{object}.sha256'");
    Failure::new(Kind::Refused, "dump.unproved", object, cause, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_databases_are_none_of_ours_whatever_is_beside_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let key = Key::of([1; 32]);
        let database = at("app.db");
        fs::write(&database, [&b"SQLite format 3\0"[..], &[0xa5; 5000]].concat()).expect("written");
        fs::write(at("app.db.sha256"), "not a digest").expect("written");
        fs::write(at("app.db.meta.json"), "[").expect("written");
        assert!(matches!(Dump::look(&database, None, false), Ok(None)));
        assert!(matches!(Dump::look(&database, Some(&key), false), Ok(None)));
        assert!(matches!(Dump::look(&at("missing"), Some(&key), true), Ok(None)));
        assert!(matches!(Dump::look(folder.path(), None, false), Ok(None)));
        // The vault of a database that is called so is no backup of another program.
        fs::create_dir_all(at("dumps/0000")).expect("a folder");
        fs::write(at("dumps/manifest.json"), "{}").expect("written");
        assert!(matches!(Dump::look(folder.path(), None, false), Ok(None)));
        fs::write(at("dumps/shop.sql.gz"), "").expect("written");
        assert!(matches!(Dump::look(folder.path(), None, false), Ok(Some(_))));
        let code =
            |found: Result<Option<Dump>, Failure>| found.map(|found| found.is_some()).map_err(|failure| failure.code);
        let script = at("shop.sql");
        fs::write(&script, "CREATE TABLE t (a int);\n").expect("written");
        assert_eq!(code(Dump::look(&script, None, false)), Ok(true));
        fs::write(at("shop.sql.sha256"), "not a digest").expect("written");
        assert_eq!(code(Dump::look(&script, None, false)), Err("dump.sidecar"));
        let sealed = at("sealed");
        fs::write(&sealed, crate::unsealed::seal(b"PGDMP\x01\x0e\0\x04\x08\x01", &key, [3; 12], 1000))
            .expect("written");
        assert_eq!(code(Dump::look(&sealed, Some(&key), false)), Ok(false));
        assert_eq!(code(Dump::look(&sealed, Some(&key), true)), Ok(true));
        fs::write(at("sealed.meta.json"), r#"{"encrypted": true}"#).expect("written");
        assert_eq!(code(Dump::look(&sealed, Some(&key), false)), Ok(true));
        assert_eq!(code(Dump::look(&sealed, None, false)), Err("dump.key"));
        // An encrypted file, or a damaged one, that is called as a backup.
        fs::copy(&sealed, at("db_x.dump")).expect("copied");
        assert_eq!(code(Dump::look(&at("db_x.dump"), Some(&key), false)), Ok(true));
        assert_eq!(code(Dump::look(&at("db_x.dump"), None, false)), Err("dump.unknown"));
        assert_eq!(code(Dump::look(&at("app.db/x"), None, false)), Ok(false));
    }

    #[test]
    fn only_a_mark_a_compression_or_a_checksum_of_all_proves_an_end() {
        for (is_marked, wrap, checked, is_proved) in [
            (true, Wrap::Plain, Checked::Nothing, true),
            (false, Wrap::Gzip, Checked::Nothing, true),
            (false, Wrap::Plain, Checked::Sha256, true),
            (false, Wrap::Plain, Checked::Beginning, false),
            (false, Wrap::Plain, Checked::Nothing, false),
        ] {
            assert_eq!(proved(is_marked, wrap, checked, "f").is_ok(), is_proved, "{is_marked} {wrap:?} {checked:?}");
        }
    }
}
