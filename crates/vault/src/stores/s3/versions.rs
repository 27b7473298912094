//! Which version of an object was current at a moment? From a listing of versions to one version for each name.
//!
//! A listing has the versions of a name together, the newest first; a page may end between two of them. A delete marker is a
//! version that says that the name had no object. The server's clock tells when each of them was stored.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;
use seawall_core::Moment;

use crate::Tag;

/// One version of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    /// The object's name in the bucket.
    pub(super) name: String,
    /// The version's id.
    pub(super) id: String,
    /// When the server stored it.
    pub(super) stored: Moment,
    /// Its size and tag; `None` for a delete marker.
    pub(super) object: Option<(u64, Option<Tag>)>,
}

/// A page of a listing of versions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct VersionPage {
    pub(super) versions: Vec<Version>,
    /// The name and the version's id that the next page begins behind.
    pub(super) next: Option<(String, String)>,
}

/// Chooses a version for each name, over any number of pages. Holds one version at a time.
#[derive(Debug)]
pub(super) struct Chooser {
    at: Moment,
    /// The name whose versions are coming, and the best of them so far.
    coming: Option<(String, Option<Version>)>,
}

impl Chooser {
    pub(super) fn new(at: Moment) -> Self {
        Self { at, coming: None }
    }

    /// Takes the next version of the listing. Returns the name that is complete by that, with its object at the moment.
    pub(super) fn push(&mut self, version: Version) -> Option<(String, Option<Version>)> {
        let complete = match &self.coming {
            Some((name, _)) if *name == version.name => None,
            _ => self.finish(),
        };
        let (_, best) = self.coming.get_or_insert_with(|| (version.name.clone(), None));
        *best = newer(best.take(), version, self.at);
        complete
    }

    /// The last name, at the end of the listing.
    pub(super) fn finish(&mut self) -> Option<(String, Option<Version>)> {
        self.coming.take().map(|(name, best)| (name, best.filter(|version| version.object.is_some())))
    }
}

/// The one of two versions that was current later, if it was stored by `at`. Of two that were stored in the same moment, the
/// listing has the newer one first.
fn newer(best: Option<Version>, found: Version, at: Moment) -> Option<Version> {
    if found.stored > at || best.as_ref().is_some_and(|best| best.stored >= found.stored) { best } else { Some(found) }
}

/// Reads an answer to `ListObjectVersions`.
pub(super) fn parse(xml: &[u8]) -> Result<VersionPage, String> {
    let mut reader = Reader::from_str(std::str::from_utf8(xml).map_err(|error| error.to_string())?);
    let mut path: Vec<String> = Vec::new();
    let (mut page, mut fields) = (VersionPage::default(), Fields::default());
    let (mut truncated, mut is_encoded, mut next_name, mut next_id) = (false, false, None, None);
    let mut text = String::new();
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Eof => break,
            Event::Start(start) => {
                path.push(start.local_name().as_ref().to_owned());
                text.clear();
                if path.len() == 2 {
                    fields = Fields::default();
                }
            }
            Event::Text(part) => text.push_str(&part),
            Event::CData(part) => text.push_str(&part),
            Event::GeneralRef(reference) => match reference.resolve_char_ref() {
                Ok(Some(character)) => text.push(character),
                _ => text.push_str(resolve_predefined_entity(&reference).ok_or("an unknown entity")?),
            },
            Event::End(_) => {
                let Some(name) = path.pop() else { return Err("an element ends that never began".to_owned()) };
                let value = std::mem::take(&mut text);
                match (path.len(), name.as_str()) {
                    (1, "IsTruncated") => truncated = value.trim() == "true",
                    (1, "EncodingType") => is_encoded = value.trim() == "url",
                    (1, "NextKeyMarker") => next_name = Some(value),
                    (1, "NextVersionIdMarker") => next_id = Some(value),
                    (1, "Version") => page.versions.push(std::mem::take(&mut fields).version(true)?),
                    (1, "DeleteMarker") => page.versions.push(std::mem::take(&mut fields).version(false)?),
                    (2, field) => fields.set(field, value),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    if !path.is_empty() {
        return Err("the answer is cut".to_owned());
    }
    if truncated {
        page.next = Some((next_name.ok_or("there is more, and no name to go on from")?, next_id.unwrap_or_default()));
    }
    if is_encoded {
        page.versions
            .iter_mut()
            .map(|version| &mut version.name)
            .chain(page.next.iter_mut().map(|next| &mut next.0))
            .for_each(|name| *name = decoded(name));
    }
    // Some servers list the delete markers behind the versions. A stable sort leaves the order of a name's versions.
    page.versions.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(page)
}

/// A name as it was before the server encoded it. Bytes that are no text give a name that no object of ours has.
fn decoded(name: &str) -> String {
    percent_encoding::percent_decode_str(&name.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// When a version's id was made, if it is a ULID. versitygw has such ids. It gives a version that was written over the time at
/// which that happened, and a delete marker the time of the object that it hides.
fn ulid_time(id: &str) -> Option<Moment> {
    const DIGITS: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let digit = |byte: u8| DIGITS.iter().position(|digit| *digit == byte).and_then(|digit| i64::try_from(digit).ok());
    let is_ulid = id.len() == 26 && id.bytes().all(|byte| digit(byte).is_some()) && id.as_bytes() <= b"8".as_slice();
    // Ten digits of 5 bits, of which the first is at most 7, are 48 bits of milliseconds.
    is_ulid
        .then(|| id.bytes().take(10).filter_map(digit).fold(0, |time, digit| time << 5 | digit))
        .map(Moment::from_millis)
}

/// The elements of one version.
#[derive(Debug, Default)]
struct Fields {
    name: Option<String>,
    id: Option<String>,
    stored: Option<String>,
    size: Option<String>,
    tag: Option<String>,
}

impl Fields {
    fn set(&mut self, field: &str, value: String) {
        let place = match field {
            "Key" => &mut self.name,
            "VersionId" => &mut self.id,
            "LastModified" => &mut self.stored,
            "Size" => &mut self.size,
            "ETag" => &mut self.tag,
            _ => return,
        };
        *place = Some(value);
    }

    fn version(self, is_object: bool) -> Result<Version, String> {
        let stored = self.stored.ok_or("a version has no time")?;
        let stored =
            stored.trim().parse().map_err(|_| format!("{:?} is no time", stored.escape_debug().to_string()))?;
        let object = match is_object {
            true => {
                let size = self.size.ok_or("a version has no size")?;
                Some((size.trim().parse().map_err(|_| "a version's size is no number")?, self.tag.map(Tag::new)))
            }
            false => None,
        };
        let (name, id) = (self.name.ok_or("a version has no name")?, self.id.ok_or("a version has no id")?);
        // A delete marker of versitygw has the time of the object that it hides.
        let stored = ulid_time(&id).map_or(stored, |made| if is_object { made.min(stored) } else { made });
        Ok(Version { name, id, stored, object })
    }
}

#[cfg(test)]
#[path = "versions_tests.rs"]
mod tests;
