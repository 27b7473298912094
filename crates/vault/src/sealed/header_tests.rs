//! Headers by themselves: the length, what is refused, what a seal proves.

use super::*;

const VAULT: Id = Id(0xaa);
const WRITER: Id = Id(0xbb);

fn file(byte: u8) -> FileKey {
    FileKey::new(Box::new([byte; 16]))
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name).expect("a key")
}

fn stanza(body: usize) -> Stanza {
    Stanza { tag: "X25519".into(), args: vec!["share".into()], body: vec![7; body] }
}

fn audience(name: &str) -> Audience {
    Audience::of(&[name.to_owned()])
}

fn seal(name: &str) -> Seal {
    Seal::new(VAULT, WRITER, &SealKey([1; 32]), &key(name), &file(2))
}

fn header(size: usize) -> Option<Vec<u8>> {
    write(&[stanza(32)], &audience("x"), &seal("a"), &file(2), size)
}

#[test]
fn every_length_from_the_shortest_on() {
    for body in [0, 1, 32, 47, 48, 49, 96, 512] {
        let stanzas = [stanza(body), stanza(32)];
        let least = needed(&stanzas, &audience("x"));
        for size in [least, least + 1, least + 2, least + 700] {
            let bytes = write(&stanzas, &audience("x"), &seal("a"), &file(2), size).expect("room");
            assert_eq!(bytes.len(), size);
            let read = Header::parse(&bytes).expect("a header");
            assert_eq!((&read.stanzas[..], read.seal.as_ref()), (&stanzas[..], Some(&seal("a"))));
            assert_eq!(read.audience, Some(audience("x")));
            assert!(read.authentic(&file(2)) && !read.authentic(&file(3)));
        }
        assert_eq!(write(&stanzas, &audience("x"), &seal("a"), &file(2), least - 1), None);
    }
}

#[test]
fn a_seal_is_for_one_name_one_file_and_one_writer() {
    let seal = seal("a");
    let check = |secret, name, of| seal.check(&SealKey([secret; 32]), &key(name), &file(of));
    assert_eq!(check(1, "a", 2), Sealed::Here);
    assert_eq!(check(1, "b", 2), Sealed::Elsewhere);
    assert_eq!(check(1, "a", 3), Sealed::Not);
    assert_eq!(check(9, "a", 2), Sealed::Not);
    let moved = Seal { vault: Id(1), ..seal.clone() };
    assert_eq!(moved.check(&SealKey([1; 32]), &key("a"), &file(2)), Sealed::Not);
}

#[test]
fn any_changed_byte_shows() {
    let good = header(600).expect("room");
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        let believed = Header::parse(&bad).is_ok_and(|read| read.authentic(&file(2)));
        assert!(!believed, "byte {at}");
    }
    for end in 0..good.len() {
        assert!(Header::parse(&good[..end]).is_err(), "{end} bytes");
    }
}

#[test]
fn what_is_no_header() {
    let good = header(600).expect("room");
    let text = String::from_utf8(good.clone()).expect("text");
    let twice = text.replace("--- ", &format!("{}\n--- ", "-> seawall/v1 00000000000000aa 00000000000000bb .\n"));
    for (bytes, expected) in [
        (Vec::new(), NoHeader::Plain),
        (b"SQLite format 3\0".to_vec(), NoHeader::Plain),
        (b"age-encryption.org/v2\n".to_vec(), NoHeader::Plain),
        (INTRO.to_vec(), NoHeader::Broken("its header has no end")),
        ([INTRO, b"x\n"].concat(), NoHeader::Broken("a line of its header is neither a stanza nor the end")),
        ([INTRO, b"->  a\n\n"].concat(), NoHeader::Broken("a stanza of its header has no words")),
        ([INTRO, b"-> a\n"].concat(), NoHeader::Broken("a stanza of its header has no end")),
        ([INTRO, b"-> a\n!\n"].concat(), NoHeader::Broken("a stanza of its header is no base64")),
        ([INTRO, b"-> a\n", &[b'A'; 65], b"\n"].concat(), NoHeader::Broken("a line of its header is too long")),
        ([INTRO, b"--- AAAA\n"].concat(), NoHeader::Broken("its header's MAC is none")),
        ([INTRO, b"-> seawall/v1 x y .\n\n"].concat(), NoHeader::Broken("its seal can't be read")),
        ([INTRO, b"-> seawall/for x\n\n"].concat(), NoHeader::Broken("its list of recipients can't be read")),
        ([&good[..], b"x"].concat(), NoHeader::Length(600)),
        (twice.into_bytes(), NoHeader::Broken("its seal can't be read")),
    ] {
        assert_eq!(Header::parse(&bytes).err(), Some(expected), "{:?}", String::from_utf8_lossy(&bytes));
    }
    let foreign = text.replace("seawall/v1", "seawall/v0");
    assert!(Header::parse(foreign.as_bytes()).expect("an age header").seal.is_none());
}

#[test]
fn identifiers() {
    assert_eq!(Id::parse("00000000000000aa"), Some(VAULT));
    assert_eq!(VAULT.to_string(), "00000000000000aa");
    for bad in ["", "aa", "00000000000000AA", "+0000000000000aa", "00000000000000aaa"] {
        assert_eq!(Id::parse(bad), None, "{bad}");
    }
    assert_eq!(format!("{:?}", SealKey([1; 32])), "[hidden]");
}

#[test]
fn a_list_of_recipients_is_known_by_its_names() {
    let of = |names: &[&str]| Audience::of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    assert_eq!(of(&["a", "b"]), of(&["b", "a"]));
    assert_eq!(of(&["a", "b"]).0.len(), 32);
    for other in [&["a"][..], &["ab"], &["a", "b", "c"]] {
        assert_ne!(of(&["a", "b"]), of(other), "{other:?}");
    }
}

#[test]
fn other_recipients_in_the_same_header() {
    let old = write(&[stanza(32), stanza(48)], &audience("old"), &seal("a"), &file(2), 700).expect("room");
    for (kept, owners, size, expected) in [
        (1, &[32][..], 700, Some(&[32, 32][..])),
        (1, &[32, 47, 0], 700, Some(&[32, 32, 47, 0][..])),
        (1, &[], 700, Some(&[32][..])),
        (2, &[32], 700, Some(&[32, 48, 32][..])),
        (1, &[400], 700, None),
    ] {
        let read = Header::parse(&old).expect("a header");
        let owners: Vec<Stanza> = owners.iter().map(|body| stanza(*body)).collect();
        let new = rewrapped(&read, kept, &owners, &audience("new"), &file(2), size);
        assert_eq!(new.is_some(), expected.is_some(), "{owners:?}");
        let (Some(new), Some(expected)) = (new, expected) else { continue };
        assert_eq!(new.len(), size);
        let read = Header::parse(&new).expect("a header");
        assert!(read.authentic(&file(2)) && !read.authentic(&file(3)));
        assert_eq!(read.stanzas.iter().map(|one| one.body.len()).collect::<Vec<_>>(), expected);
        assert_eq!((read.audience, read.seal), (Some(audience("new")), Some(seal("a"))));
    }
    let text = String::from_utf8(old).expect("text").replace("seawall/v1", "seawall/v0");
    let foreign = Header::parse(text.as_bytes()).expect("an age header");
    assert_eq!(rewrapped(&foreign, 1, &[stanza(32)], &audience("new"), &file(2), 700), None, "it has no seal");
}
