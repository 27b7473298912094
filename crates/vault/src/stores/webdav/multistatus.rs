//! Reads the answer to PROPFIND piece by piece: a few properties of each resource, and nothing else.
//!
//! The text comes from the network (I11). Memory is bounded by one element, and nesting by a number. A document type, and so
//! every entity of its own, is refused. Names of elements count without their namespaces, whose prefixes each server chooses.

use std::time::UNIX_EPOCH;

use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};
use seawall_core::Moment;

/// The most bytes of one element, or of one piece of text.
const LARGEST: usize = 64 << 10;

/// The deepest nesting.
const DEEPEST: usize = 32;

/// What an answer tells of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Found {
    /// Its address, as the server writes it.
    pub(super) href: String,
    /// Whether it is a folder.
    pub(super) folder: bool,
    /// Bytes.
    pub(super) size: Option<u64>,
    /// When it was changed.
    pub(super) modified: Option<Moment>,
    /// Its version, if a strong one is told.
    pub(super) tag: Option<String>,
    /// A status that the server gives of the resource itself.
    pub(super) status: Option<u16>,
}

/// An element that means something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Element {
    Multistatus,
    Response,
    Propstat,
    Prop,
    Href,
    Status,
    ResourceType,
    Collection,
    Length,
    Modified,
    Tag,
    Other,
}

impl Element {
    fn named(name: &str) -> Self {
        match name {
            "multistatus" => Self::Multistatus,
            "response" => Self::Response,
            "propstat" => Self::Propstat,
            "prop" => Self::Prop,
            "href" => Self::Href,
            "status" => Self::Status,
            "resourcetype" => Self::ResourceType,
            "collection" => Self::Collection,
            "getcontentlength" => Self::Length,
            "getlastmodified" => Self::Modified,
            "getetag" => Self::Tag,
            _ => Self::Other,
        }
    }
}

/// An answer that is being read.
#[derive(Debug, Default)]
pub(super) struct Multistatus {
    /// Bytes that end in the middle of an element.
    pending: Vec<u8>,
    open: Vec<Element>,
    text: String,
    current: Found,
    complete: bool,
}

impl Multistatus {
    /// Takes the next bytes, and hands each resource that ended in them to `found`.
    ///
    /// # Errors
    /// Why these bytes are no answer to PROPFIND.
    pub(super) fn feed(&mut self, bytes: &[u8], mut found: impl FnMut(Found)) -> Result<(), &'static str> {
        self.pending.extend_from_slice(bytes);
        let Some(end) = self.pending.iter().rposition(|byte| *byte == b'>') else {
            return if self.pending.len() > LARGEST { Err("an element is too long") } else { Ok(()) };
        };
        let pending = std::mem::take(&mut self.pending);
        let (ready, rest) = pending.split_at(end + 1);
        let ready = std::str::from_utf8(ready).map_err(|_| "the answer is no UTF-8")?;
        let consumed = self.read(ready, &mut found)?;
        let left = ready.as_bytes().get(consumed..).unwrap_or_default();
        if left.len() + rest.len() > LARGEST {
            return Err("the answer is no XML, or an element is too long");
        }
        self.pending = [left, rest].concat();
        Ok(())
    }

    /// Whether the whole answer came.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Reads what is complete, and returns how many bytes that was.
    fn read(&mut self, text: &str, found: &mut impl FnMut(Found)) -> Result<usize, &'static str> {
        let mut reader = Reader::from_str(text);
        let config = reader.config_mut();
        // A piece doesn't hold the beginnings of all its elements.
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        let mut consumed = 0;
        loop {
            // An element that ends behind this piece is an error here, and is read again with the next piece.
            let Ok(event) = reader.read_event() else { return Ok(consumed) };
            match event {
                Event::Eof => return Ok(consumed),
                Event::Start(element) => self.begin(Element::named(element.local_name().into_inner()))?,
                Event::Empty(element) => {
                    self.begin(Element::named(element.local_name().into_inner()))?;
                    self.end(found);
                }
                Event::End(_) => self.end(found),
                Event::Text(text) => self.append(&text)?,
                Event::CData(text) => self.append(&text)?,
                Event::GeneralRef(reference) => self.append(character(&reference)?.encode_utf8(&mut [0; 4]))?,
                Event::DocType(_) => return Err("the answer declares a document type"),
                Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            }
            consumed = usize::try_from(reader.buffer_position()).map_err(|_| "the answer is too long")?;
        }
    }

    fn begin(&mut self, element: Element) -> Result<(), &'static str> {
        if self.open.len() >= DEEPEST {
            return Err("elements are nested too deeply");
        }
        if self.open.is_empty() && (element != Element::Multistatus || self.complete) {
            return Err("the answer is no answer of WebDAV");
        }
        if element == Element::Response {
            self.current = Found::default();
        }
        if (element, self.open.last()) == (Element::Collection, Some(&Element::ResourceType)) {
            self.current.folder = true;
        }
        self.text.clear();
        self.open.push(element);
        Ok(())
    }

    fn append(&mut self, text: &str) -> Result<(), &'static str> {
        if self.text.len() + text.len() > LARGEST {
            return Err("a text is too long");
        }
        self.text.push_str(text);
        Ok(())
    }

    fn end(&mut self, found: &mut impl FnMut(Found)) {
        let text = std::mem::take(&mut self.text);
        let text = text.trim();
        let Some(element) = self.open.pop() else { return };
        match (self.open.last(), element) {
            (Some(Element::Response), Element::Href) => text.clone_into(&mut self.current.href),
            (Some(Element::Response), Element::Status) => self.current.status = status(text),
            // A property that a resource lacks comes without a value.
            (Some(Element::Prop), Element::Length) => self.current.size = text.parse().ok().or(self.current.size),
            (Some(Element::Prop), Element::Modified) => {
                self.current.modified = moment(text).or(self.current.modified);
            }
            (Some(Element::Prop), Element::Tag) => {
                self.current.tag = strong(text).map(str::to_owned).or(self.current.tag.take());
            }
            (_, Element::Response) => found(std::mem::take(&mut self.current)),
            (None, _) => self.complete = true,
            _ => {}
        }
    }
}

/// The character that a reference stands for. Only those of XML itself and numbers are known.
fn character(reference: &BytesRef<'_>) -> Result<char, &'static str> {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return Ok(character);
    }
    match &**reference {
        "amp" => Ok('&'),
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        _ => Err("the answer holds an unknown entity"),
    }
}

fn status(line: &str) -> Option<u16> {
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// A date of HTTP.
pub(super) fn moment(text: &str) -> Option<Moment> {
    let time = httpdate::parse_http_date(text).ok()?;
    let millis = time.duration_since(UNIX_EPOCH).ok()?.as_millis();
    i64::try_from(millis).ok().map(Moment::from_millis)
}

/// A strong version without its quotes, which some servers leave out. A weak version may be that of other bytes.
pub(super) fn strong(text: &str) -> Option<&str> {
    let text = text.trim();
    let is_weak = text.starts_with("W/");
    let plain = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    (!is_weak && !plain.is_empty() && plain.len() <= 200 && !plain.chars().any(char::is_control)).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"<?xml version="1.0" encoding="utf-8" ?>
<D:multistatus xmlns:D="DAV:"><!-- a > comment --><D:response><D:href>/a/</D:href><D:propstat><D:prop>
<D:resourcetype><D:collection/></D:resourcetype><D:getlastmodified>Wed, 25 Nov 2026 10:25:13 GMT</D:getlastmodified>
</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat><D:propstat><D:prop><D:getcontentlength/><D:getetag/></D:prop>
<D:status>HTTP/1.1 404 Not Found</D:status></D:propstat></D:response>
<D:response><D:href>/a/x%20&amp;&#x41;&gt;</D:href><D:propstat><D:prop><D:resourcetype/>
<D:getcontentlength>5</D:getcontentlength><D:getetag>&quot;1-2&quot;</D:getetag>
<D:owner><D:href>/someone</D:href></D:owner></D:prop></D:propstat></D:response>
<D:response><D:href><![CDATA[/a/y]]></D:href><D:status>HTTP/1.1 403 Forbidden</D:status></D:response></D:multistatus>"#;

    fn read(text: &str, piece: usize) -> Result<(Vec<Found>, bool), &'static str> {
        let (mut answer, mut all) = (Multistatus::default(), Vec::new());
        for bytes in text.as_bytes().chunks(piece) {
            answer.feed(bytes, |found| all.push(found))?;
        }
        Ok((all, answer.is_complete()))
    }

    #[test]
    fn an_answer_in_pieces_of_any_size() {
        let modified = moment("Wed, 25 Nov 2026 10:25:13 GMT");
        assert!(modified.is_some());
        let expected = vec![
            Found { href: "/a/".into(), folder: true, modified, ..Found::default() },
            Found { href: "/a/x%20&A>".into(), size: Some(5), tag: Some("1-2".into()), ..Found::default() },
            Found { href: "/a/y".into(), status: Some(403), ..Found::default() },
        ];
        for piece in [1, 2, 3, 7, 64, ANSWER.len()] {
            assert_eq!(read(ANSWER, piece), Ok((expected.clone(), true)), "pieces of {piece}");
        }
        let cut = read(&ANSWER[..ANSWER.len() - 5], 50).expect("so far it is one");
        assert!(!cut.1, "an answer that was cut isn't complete");
    }

    #[test]
    fn hostile_answers() {
        let deep = format!("<multistatus>{}", "<a>".repeat(40));
        let long = format!("<multistatus><response><href>{}", "x>".repeat(40_000));
        let endless = format!("<multistatus {}", "x".repeat(70_000));
        let bomb = "<!DOCTYPE m [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><multistatus>&b;</multistatus>";
        for text in [
            &*deep,
            &long,
            &endless,
            bomb,
            "<html></html>",
            "<multistatus>&b;</multistatus>",
            "<multistatus/><multistatus/>",
        ] {
            for piece in [100, 5000, text.len()] {
                assert!(read(text, piece).is_err(), "{} by {piece}", &text[..40.min(text.len())]);
            }
        }
        let plain = Multistatus::default().feed(b"\xff\xfe>", drop);
        assert!(plain.is_err());
        for text in ["", "no xml", "<"] {
            assert!(!read(text, 10).expect("nothing yet").1, "{text}");
        }
    }

    #[test]
    fn versions() {
        for (text, expected) in
            [("\"a-b\"", Some("a-b")), ("a-b", Some("a-b")), ("W/\"a\"", None), ("\"\"", None), ("", None)]
        {
            assert_eq!(strong(text), expected, "{text}");
        }
    }
}
