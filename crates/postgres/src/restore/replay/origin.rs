//! Where the bytes of an artefact come from: a set in a vault, or a file that another program left.

use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use seawall_archive::{Artefact as Kept, SetReader};
use seawall_core::{Failure, Kind};

use crate::Error;
use crate::restore::replay::joined;
use crate::restore::set;

/// The error of a script without a statement: its program failed before it wrote any.
pub(super) fn empty(object: &str) -> Error {
    let next = "take another backup: the program that was to write this one has failed";
    Error::File(Box::new(Failure::new(Kind::Corrupt, "dump.cut-off", object, "no statement is in it", next)))
}

/// The content of an artefact, in pieces.
pub(crate) type Content = BoxStream<'static, Result<Vec<u8>, Error>>;

/// Where an artefact is.
pub(crate) enum Origin {
    Set {
        reader: Arc<SetReader>,
        /// Its items.
        what: Kept,
    },
    File {
        /// Its path.
        object: String,
        /// A text that stands for its content.
        id: String,
        /// Its bytes.
        size: u64,
        /// Its content, which can be taken once.
        content: Mutex<Option<Content>>,
    },
}

impl Origin {
    /// The artefact, for messages.
    pub(crate) fn object(&self) -> String {
        match self {
            Self::Set { reader, .. } => format!("set {}", reader.manifest().id),
            Self::File { object, .. } => object.clone(),
        }
    }

    /// What no other artefact is called.
    pub(crate) fn id(&self) -> String {
        match self {
            Self::Set { .. } => self.object(),
            Self::File { id, .. } => format!("file {id}"),
        }
    }

    /// Its bytes; of a file as it is stored.
    pub(crate) fn raw(&self) -> u64 {
        match self {
            Self::Set { reader, .. } => reader.manifest().totals.raw,
            Self::File { size, .. } => *size,
        }
    }

    /// What is wrong with it.
    pub(crate) fn corrupt(&self, cause: impl Into<String>) -> Error {
        match self {
            Self::Set { reader, .. } => set::corrupt(reader, cause),
            Self::File { object, .. } => {
                let next = "take another copy of the backup, or another backup";
                Error::File(Box::new(Failure::new(Kind::Corrupt, "dump.damaged", object, cause, next)))
            }
        }
    }

    /// Whether it is a file that another program left.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Self::File { .. })
    }

    /// The error of a script without a statement.
    pub(crate) fn empty(&self) -> Error {
        empty(&self.object())
    }

    /// What to do about a line that is no SQL.
    pub(crate) fn look_at_the_line(&self) -> &'static str {
        match self {
            Self::Set { .. } => "don't give it to psql; get the file with -o FILE, and look at that line",
            Self::File { .. } => "don't give it to psql; look at that line",
        }
    }

    /// The artefact as one archive, or as a script.
    pub(crate) async fn content(&self) -> Result<Content, Error> {
        match self {
            Self::Set { reader, what: Kept::File(item) } => Ok(reader.content(*item).map_err(Error::from).boxed()),
            Self::Set { reader, what: Kept::Directory(items) } => Ok(joined::archive(reader, items).await?.boxed()),
            Self::File { content, .. } => {
                let taken = content.lock().unwrap_or_else(PoisonError::into_inner).take();
                taken.ok_or_else(|| Error::Internal("a file is read twice".to_owned()))
            }
        }
    }
}
