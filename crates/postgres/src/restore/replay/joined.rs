//! The files of a directory of `pg_dump`, on their way out of a set, as the one archive that `pg_restore` reads from a pipe.
//! What the files are and where they stand is `directory`'s.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use seawall_archive::SetReader;

use crate::Error;
use crate::artefact::directory::{self, CONTENTS, Directory, Int};
use crate::restore::set;

/// The most bytes of a table of contents, and of a list of large objects.
const LARGEST: u64 = 1 << 30;

/// What comes next in the archive.
enum Step {
    /// These bytes.
    Bytes(Vec<u8>),
    /// All of a file, in blocks.
    File(u32),
    /// The large objects of a list.
    Objects(u32),
}

/// An archive being written.
struct Joined {
    reader: Arc<SetReader>,
    int: Int,
    /// Where each file is among the items, of those that are still to come.
    files: BTreeMap<String, u32>,
    steps: VecDeque<Step>,
    content: BoxStream<'static, Result<(u32, Vec<u8>), Error>>,
    /// A frame that has come too early for the step at hand, and how much of the step's file has come.
    ahead: Option<(u32, Vec<u8>)>,
    come: u64,
}

/// The archive that the files `items` of a set come to.
///
/// # Errors
/// What is wrong with them.
pub(crate) async fn archive(
    reader: &Arc<SetReader>,
    items: &[u32],
) -> Result<impl Stream<Item = Result<Vec<u8>, Error>> + Send + use<>, Error> {
    let name = |item: &u32| reader.index().items.get(*item as usize).map(|found| (found.name.clone(), *item));
    let mut files: BTreeMap<String, u32> = items.iter().filter_map(name).collect();
    let Some(contents) = files.remove(CONTENTS) else {
        return Err(set::corrupt(reader, format!("it is a directory without {CONTENTS}")));
    };
    let contents = reader.file(contents, LARGEST).await?;
    let directory =
        Directory::read(&contents).map_err(|cause| set::corrupt(reader, format!("its table of contents: {cause}")))?;
    let content = reader.contents(files.values().copied().collect()).map_err(Error::from).boxed();
    let Directory { contents, parts, int } = directory;
    let mut steps = VecDeque::from([Step::Bytes(contents)]);
    let reader = Arc::clone(reader);
    let mut joined = Joined { reader, int, files, steps: VecDeque::new(), content, ahead: None, come: 0 };
    for part in parts {
        let item = joined.file(&part.file)?;
        steps.push_back(Step::Bytes(part.header));
        match part.objects {
            true => steps.push_back(Step::Objects(item)),
            false => steps.extend([Step::File(item), Step::Bytes(joined.int.number(0))]),
        }
    }
    joined.steps = steps;
    Ok(stream::try_unfold(joined, |mut joined| async move { Ok(joined.next().await?.map(|bytes| (bytes, joined))) }))
}

impl Joined {
    /// The item of a file that is named, once.
    fn file(&mut self, name: &str) -> Result<u32, Error> {
        let item = self.files.remove(name);
        item.ok_or_else(|| set::corrupt(&self.reader, format!("its file {name:?} is missing, or named twice")))
    }

    /// What comes next; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            match self.steps.pop_front() {
                Some(Step::Bytes(bytes)) => return Ok(Some(bytes)),
                Some(Step::File(item)) => {
                    let Some(raw) = self.frame(item).await? else { continue };
                    let size = u32::try_from(raw.len());
                    let size = size.map_err(|_| set::corrupt(&self.reader, "a frame is too large"))?;
                    self.steps.push_front(Step::File(item));
                    if size > 0 {
                        self.steps.push_front(Step::Bytes(raw));
                        return Ok(Some(self.int.number(size)));
                    }
                }
                Some(Step::Objects(item)) => self.objects(item).await?,
                None => return self.end().await,
            }
        }
    }

    /// The next frame of a file, which must come before those of any other; `None` when all of it has come.
    async fn frame(&mut self, item: u32) -> Result<Option<Vec<u8>>, Error> {
        if self.ahead.is_none() {
            self.ahead = self.content.try_next().await?;
        }
        if let Some((_, raw)) = self.ahead.take_if(|(of, _)| *of == item) {
            self.come = self.come.saturating_add(raw.len() as u64);
            return Ok(Some(raw));
        }
        match std::mem::take(&mut self.come) == self.reader.size(item) {
            true => Ok(None),
            false => Err(set::corrupt(&self.reader, "its files are not in the order of their table of contents")),
        }
    }

    /// Puts the large objects of a list before what comes behind them.
    async fn objects(&mut self, list: u32) -> Result<(), Error> {
        if self.reader.size(list) > LARGEST {
            return Err(set::corrupt(&self.reader, "a list of large objects is too large"));
        }
        let mut text = Vec::new();
        while let Some(raw) = self.frame(list).await? {
            text.extend_from_slice(&raw);
        }
        let objects = directory::objects(&text).map_err(|cause| set::corrupt(&self.reader, cause))?;
        let mut steps = VecDeque::new();
        for (oid, file) in objects {
            let item = self.file(&file)?;
            let number = |value| Step::Bytes(self.int.number(value));
            steps.extend([number(oid), Step::File(item), number(0)]);
        }
        steps.push_back(Step::Bytes(self.int.number(0)));
        steps.append(&mut self.steps);
        self.steps = steps;
        Ok(())
    }

    /// Everything has come: a file that is left is one that nothing names.
    async fn end(&mut self) -> Result<Option<Vec<u8>>, Error> {
        match self.files.first_key_value() {
            Some((name, _)) => Err(set::corrupt(&self.reader, format!("nothing names its file {name:?}"))),
            None => Ok(None),
        }
    }
}
