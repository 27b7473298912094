//! Rows out of a script, as lines. Statements are never run.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, TryStreamExt as _};
use seawall_archive::SetReader;
use seawall_archive::compare::{self, Sum};

use super::values::Lines;
use super::{Script, Section};
use crate::Error;

/// A script that is read from its beginning to its end.
pub(crate) struct Reading<'a> {
    script: &'a Script,
    content: Pin<Box<dyn Stream<Item = Result<Vec<u8>, seawall_archive::Error>> + Send>>,
    /// Bytes that were read, and how many of them are used.
    piece: Vec<u8>,
    used: usize,
    /// Where in the script the next byte is.
    position: u64,
    object: String,
}

/// The rows of one table of a script.
pub(crate) struct Rows<'r, 'a> {
    reading: &'r mut Reading<'a>,
    section: &'a Section,
    lines: Lines,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(script: &'a Script, reader: &Arc<SetReader>) -> Self {
        let content = Box::pin(reader.content(script.item));
        let object = format!("set {}", reader.manifest().id);
        Self { script, content, piece: Vec::new(), used: 0, position: 0, object }
    }

    /// The rows of a table. Tables are asked for in the order of the script.
    pub(crate) async fn rows(&mut self, section: &'a Section) -> Result<Rows<'_, 'a>, Error> {
        while self.position < section.start {
            self.bytes(section.start).await?;
        }
        let lines = Lines::new(&section.table, &section.columns, self.script.mariadb);
        Ok(Rows { reading: self, section, lines })
    }

    /// The next bytes before `end`, at least one.
    async fn bytes(&mut self, end: u64) -> Result<&[u8], Error> {
        if self.used == self.piece.len() {
            let next = self.content.try_next().await?;
            self.piece = next.ok_or_else(|| self.strange("its script is shorter than it says"))?;
            self.used = 0;
        }
        let rest = self.piece.len() - self.used;
        let taken = usize::try_from(end - self.position).unwrap_or(rest).min(rest);
        let start = self.used;
        self.used += taken;
        self.position += taken as u64;
        Ok(self.piece.get(start..self.used).unwrap_or_default())
    }

    fn strange(&self, cause: &str) -> Error {
        Error::Different { object: self.object.clone(), cause: cause.to_owned() }
    }
}

impl Rows<'_, '_> {
    /// Appends the next rows to `lines`; false behind the last one. Pieces may begin and end within a row.
    pub(crate) async fn read(&mut self, lines: &mut Vec<u8>) -> Result<bool, Error> {
        let (section, about) = (self.section, format!("the rows of {}", self.section.table));
        if self.reading.position >= section.end {
            let rows = self.lines.end().map_err(|cause| self.reading.strange(&format!("{about}: {cause}")))?;
            if rows != section.rows {
                let cause = format!("{about} are {rows}, and {} were written", section.rows);
                return Err(self.reading.strange(&cause));
            }
            return Ok(false);
        }
        let object = self.reading.object.clone();
        let bytes = self.reading.bytes(section.end).await?;
        let taken = self.lines.take(bytes, lines);
        taken.map_err(|cause| Error::Different { object, cause: format!("{about}: {cause}") })?;
        Ok(true)
    }
}

/// The sum of the rows of each table, in the order of the script.
pub(crate) async fn sums(script: &Script, reader: &Arc<SetReader>) -> Result<BTreeMap<String, Sum>, Error> {
    let mut reading = Reading::new(script, reader);
    let mut sums = BTreeMap::new();
    let mut buffer = Vec::new();
    for section in &script.sections {
        let (mut rows, mut lines) = (reading.rows(section).await?, compare::Lines::default());
        while rows.read(&mut buffer).await? {
            lines.take(&buffer);
            buffer.clear();
        }
        sums.insert(section.table.clone(), lines.end());
    }
    Ok(sums)
}
