//! Files that other backup programs left: what they are, and their bytes.
//!
//! dbbackup, and scripts around `pg_dump` and `mysqldump`, keep backups as files: a script of SQL or an archive of `pg_dump`,
//! compressed, sometimes encrypted, and of a whole server as a tar. This crate says which of these a file is, decrypts and
//! decompresses it as a stream, checks that it is whole, and says what such a file lacks. It runs nothing, and it knows no
//! server: the engines do the rest.
//!
//! Every file is hostile until checked (I11): lengths, paths and sizes are bounded, and nothing is ever written.
//!
//! - `file`: a file or an unpacked folder, looked at and opened.
//! - `recognise`: which form do these bytes have?
//! - `sidecar`: what the files beside it say of it, and whether that is so.
//! - `key`, `unsealed`: dbbackup's encryption.
//! - `layers`: the bytes of a file, decrypted, decompressed and checked.
//! - `mark`: the line that a whole script ends with.
//! - `tar`: the members of a tar.
//! - `members`: the databases of a whole server's backup.
//! - `pieces`: bytes that a thread reads, as a stream.
//! - `lacks`: what such a backup hasn't.
//! - `settings`: dbbackup's configuration as Seawall's.

mod file;
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod lacks;
mod layers;
mod mark;
mod members;
mod pieces;
mod recognise;
pub mod settings;
mod sidecar;
mod tar;
mod unsealed;

pub use file::{Dump, Shape, Single};
pub use key::Key;
pub use lacks::lacks;
pub use members::{Member, Members, Summary};
pub use pieces::Pieces;
pub use recognise::{Form, Maker, Said, Wrap};
pub use sidecar::{Checked, Sidecar};
