//! `seawall ltx dump`: prints the whole content of a file for reading.

use std::io::{self, BufWriter, Write};

use seawall_core::{Failure, Moment};
use seawall_ltx::file::{FileError, Verified, read_pages};
use seawall_ltx::{Generation, Header, PageNo};
use serde_json::json;

use super::{failure, info, input};
use crate::arguments::ltx::DumpArguments;
use crate::edge::Edge;
use crate::output::Output;
use crate::table::hex;

/// Runs the command. The content before a defect is printed too.
pub(super) fn run(arguments: &DumpArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    let input = input::one(&arguments.file, edge, json)?;
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout());
    let mut frames = Vec::new();
    let mut count = 0;
    let begin =
        |header_: &Header, generation| if json { Ok(()) } else { header(&mut io::stdout(), header_, generation) };
    let read = read_pages(input.path(), begin, |page, data| {
        count += 1;
        if json {
            frames.push(json!({ "page": page.0, "data": hex(data) }));
            return Ok(());
        }
        frame(&mut out, count - 1, page, data)
    });
    let flushed = out.flush();
    let verified = match (read, flushed) {
        (Err(FileError::Output(error)), _) | (_, Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return Ok(Output::done("", &json!(null)));
        }
        (Err(error), _) => return Err(failure::among(&error, std::slice::from_ref(&input))),
        (_, Err(error)) => return Err(failure::io(input.path(), error)),
        (Ok(verified), Ok(())) => verified,
    };
    let mut document = info::document(&input.shown, &verified);
    if let Some(fields) = document.as_object_mut() {
        fields.insert("frames".into(), json!(frames));
    }
    Ok(Output::done(trailer(&verified), &document))
}

fn header(out: &mut impl Write, header: &Header, generation: Option<Generation>) -> io::Result<()> {
    let version = generation.map_or("3".to_owned(), |generation| generation.to_string());
    let flags = if header.no_checksum { 2 } else { 0 };
    let time = shortest(&Moment::from_millis(header.timestamp_ms).to_string());
    let (min, max) = (header.min_txid, header.max_txid);
    write!(
        out,
        "# HEADER\nVersion:   {version}\nFlags:     {flags:#010x}\nPage size: {}\nCommit:    {}\n\
         Min TXID:  {min} ({})\nMax TXID:  {max} ({})\nTimestamp: {time} ({})\nPre-apply: {}\n\
         WAL offset: {}\nWAL size:   {}\nWAL salt:   {:08x} {:08x}\n\n# PAGE DATA\n",
        header.page_size,
        header.commit,
        min.0,
        max.0,
        header.timestamp_ms,
        header.pre_apply,
        header.wal_offset,
        header.wal_size,
        header.wal_salt1,
        header.wal_salt2,
    )
}

fn trailer(verified: &Verified) -> String {
    let trailer = verified.summary.trailer;
    format!("\n# TRAILER\nPost-apply:    {}\nFile Checksum: {}\n\n", trailer.post_apply, trailer.file)
}

/// A moment without the zeros at the end of its fraction.
fn shortest(moment: &str) -> String {
    let text = moment.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
    // Without a fraction, zeros of the seconds were taken too.
    if text.contains('.') { format!("{text}Z") } else { moment.replace(".000Z", "Z") }
}

/// A page as rows of 16 bytes. Rows equal to the one before are left out and shown as one `***`. The last row is always
/// printed.
fn frame(out: &mut impl Write, number: u64, page: PageNo, data: &[u8]) -> io::Result<()> {
    writeln!(out, "Frame #{number}: pgno={page}")?;
    let mut last: Option<&[u8]> = None;
    let mut hidden = false;
    for (row, offset) in data.chunks(16).zip((0_usize..).step_by(16)) {
        if last == Some(row) && offset + 16 < data.len() {
            if !hidden {
                writeln!(out, "***")?;
            }
            hidden = true;
            continue;
        }
        (last, hidden) = (Some(row), false);
        write!(out, "{offset:08x} ")?;
        for (at, byte) in row.iter().enumerate() {
            write!(out, "{} {byte:02x}", if at == 8 { " " } else { "" })?;
        }
        let text: String =
            row.iter().map(|byte| if (32..127).contains(byte) { char::from(*byte) } else { '.' }).collect();
        writeln!(out, "  |{text}|")?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_short_as_can_be() {
        for (long, short) in [
            ("2009-02-13T23:31:30.123Z", "2009-02-13T23:31:30.123Z"),
            ("2009-02-13T23:31:30.120Z", "2009-02-13T23:31:30.12Z"),
            ("2009-02-13T23:31:30.000Z", "2009-02-13T23:31:30Z"),
            ("2009-02-13T23:30:00.000Z", "2009-02-13T23:30:00Z"),
        ] {
            assert_eq!(shortest(long), short);
        }
    }

    #[test]
    fn equal_rows_are_told_once_and_the_last_row_is_shown() {
        let mut out = Vec::new();
        frame(&mut out, 0, PageNo(7), &[0x41; 64]).expect("memory");
        let row = "41 41 41 41 41 41 41 41  41 41 41 41 41 41 41 41  |AAAAAAAAAAAAAAAA|";
        let text = format!("Frame #0: pgno=7\n00000000  {row}\n***\n00000030  {row}\n\n");
        assert_eq!(String::from_utf8(out), Ok(text));
    }
}
