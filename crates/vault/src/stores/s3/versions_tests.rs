use super::*;

/// A version of `name`, stored at this second.
fn version(name: &str, id: &str, at: i64, is_object: bool) -> Version {
    let object = is_object.then_some((1, None));
    Version { name: name.into(), id: id.into(), stored: Moment::from_millis(at * 1000), object }
}

#[test]
fn the_version_of_a_moment() {
    let (put, del) = (true, false);
    // The versions of one name, newest first; the moment; the version that was current.
    for (versions, at, expected) in [
        (&[("1", 10, put)][..], 10, Some("1")),
        (&[("1", 10, put)][..], 9, None),
        (&[("1", 10, put)][..], 99, Some("1")),
        // Written over after the moment.
        (&[("2", 20, put), ("1", 10, put)][..], 19, Some("1")),
        (&[("2", 20, put), ("1", 10, put)][..], 20, Some("2")),
        // Deleted after the moment, or before it.
        (&[("d", 20, del), ("1", 10, put)][..], 15, Some("1")),
        (&[("d", 20, del), ("1", 10, put)][..], 20, None),
        (&[("2", 30, put), ("d", 20, del), ("1", 10, put)][..], 25, None),
        (&[("2", 30, put), ("d", 20, del), ("1", 10, put)][..], 30, Some("2")),
        // Within one moment of the server's clock, the first of the listing is newer.
        (&[("d", 10, del), ("1", 10, put)][..], 10, None),
        (&[("2", 10, put), ("d", 10, del)][..], 10, Some("2")),
        // An upload in parts has the time at which it began.
        (&[("2", 5, put), ("1", 10, put)][..], 12, Some("1")),
        (&[][..], 12, None),
    ] {
        let mut chooser = Chooser::new(Moment::from_millis(at * 1000));
        for (id, stored, is_object) in versions {
            assert_eq!(chooser.push(version("a", id, *stored, *is_object)), None, "one name");
        }
        let found = chooser.finish().and_then(|(_, found)| found);
        assert_eq!(found.as_ref().map(|found| found.id.as_str()), expected, "{versions:?} at {at}");
    }
}

#[test]
fn a_name_is_complete_with_the_next_one() {
    let mut chooser = Chooser::new(Moment::from_millis(15_000));
    assert_eq!(chooser.push(version("a", "2", 20, true)), None);
    assert_eq!(chooser.push(version("a", "1", 10, true)), None);
    assert_eq!(chooser.push(version("b", "3", 20, true)), Some(("a".into(), Some(version("a", "1", 10, true)))));
    assert_eq!(chooser.push(version("c", "4", 20, false)), Some(("b".into(), None)));
    assert_eq!(chooser.finish(), Some(("c".into(), None)));
    assert_eq!(chooser.finish(), None);
}

#[test]
fn times_of_versions_with_ulids() {
    let version = |is_object: bool, stored: &str| {
        let text = |text: &str| Some(text.to_owned());
        let fields = Fields {
            name: text("a"),
            id: text("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
            stored: text(stored),
            size: text("1"),
            tag: None,
        };
        fields.version(is_object).expect("a version").stored
    };
    let (made, before, after) =
        (Moment::from_millis(1_469_922_850_259), "2016-07-30T23:54:09Z", "2016-07-30T23:59:59Z");
    assert_eq!(version(true, after), made, "written over later");
    assert_eq!(version(true, before), Moment::from_millis(1_469_922_849_000), "an upload in parts began before");
    for stored in [before, after] {
        assert_eq!(version(false, stored), made, "a delete marker has the time of the object that it hides");
    }
}

#[test]
fn an_answer() {
    let xml = "<?xml version=\"1.0\"?><ListVersionsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>\
        <NextKeyMarker>p/a%2Bb+c</NextKeyMarker><NextVersionIdMarker>9</NextVersionIdMarker>\
        <IsTruncated>true</IsTruncated><EncodingType>url</EncodingType>\
        <DeleteMarker><Key>p/b</Key><VersionId>2</VersionId><IsLatest>true</IsLatest>\
        <LastModified>1970-01-01T00:00:20.000Z</LastModified><Owner><ID>x</ID></Owner></DeleteMarker>\
        <Version><ETag>&quot;e&#34;</ETag><Key>p/b</Key><VersionId>1</VersionId><IsLatest>false</IsLatest>\
        <LastModified>1970-01-01T00:00:10Z</LastModified><Size>7</Size></Version>\
        <Version><Key>p/a%2Bb+c</Key><VersionId>1</VersionId>\
        <LastModified>1970-01-01T00:00:10Z</LastModified><Size>8</Size></Version></ListVersionsResult>";
    let page = parse(xml.as_bytes()).expect("an answer");
    assert_eq!(page.next, Some(("p/a+b c".into(), "9".into())));
    let expected = [
        Version { object: Some((8, None)), ..version("p/a+b c", "1", 10, true) },
        version("p/b", "2", 20, false),
        Version { object: Some((7, Some(Tag::new("\"e\"")))), ..version("p/b", "1", 10, true) },
    ];
    assert_eq!(page.versions, expected);
}

#[test]
fn answers_that_are_none() {
    let version = |inner: &str| format!("<L><Version>{inner}</Version></L>");
    let sound = "<Key>a</Key><VersionId>1</VersionId><LastModified>1970-01-01T00:00:10Z</LastModified><Size>7</Size>";
    assert_eq!(parse(version(sound).as_bytes()).expect("sound").versions.len(), 1);
    for bad in [
        version(&sound.replace("<Size>7</Size>", "")),
        version(&sound.replace('7', "-7")),
        version(&sound.replace('7', "99999999999999999999999")),
        version(&sound.replace("1970-01", "x")),
        version(&sound.replace("<Key>a</Key>", "")),
        version(&sound.replace("<Key>a</Key>", "<Key>&nonsense;</Key>")),
        "<L><IsTruncated>true</IsTruncated></L>".to_owned(),
        "<L><Version>".to_owned(),
        "</L>".to_owned(),
    ] {
        assert!(parse(bad.as_bytes()).is_err(), "{bad}");
    }
    assert_eq!(parse(b"<L></L>"), Ok(VersionPage::default()));
}

#[test]
fn times_in_ids() {
    for (id, expected) in [
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", Some(1_469_922_850_259)),
        ("00000000000000000000000000", Some(0)),
        ("7ZZZZZZZZZZZZZZZZZZZZZZZZZ", Some((1 << 48) - 1)),
        ("8ZZZZZZZZZZZZZZZZZZZZZZZZZ", None),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAI", None),
        ("01arz3ndektsv4rrffq69g5fav", None),
        ("3HL4kqtJvjVBH40Nrjfkd", None),
        ("null", None),
    ] {
        assert_eq!(ulid_time(id), expected.map(Moment::from_millis), "{id}");
    }
}
