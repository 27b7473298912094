//! Which tables are read in binary? Pure: from the types of their columns to the form of each.
//!
//! A table goes in binary where every column's type has a binary form that means the same in every server: PostgreSQL's own
//! types, enums (their label is sent), domains over such, ranges and multiranges of such, and arrays of PostgreSQL's own
//! types. Everything else stays text. What holds numbers of objects that another server numbers otherwise (`regclass` and
//! its like, composite types, arrays of users' types) would be read back as something else, and compare as different.
//!
//! Between two forms nothing converts. Eight bytes of a `bigint` are eight bytes of a `double precision`, and no server
//! notices; so the form of each column is kept with the rows, and compared with the table that takes them.

use std::collections::BTreeMap;

use crate::catalog::inventory::Table;

/// PostgreSQL's own types whose binary form means the same everywhere: the type's number, its array's, and its name.
///
/// Not among them: `regclass` and its like (numbers of objects), `xml` (it is read in the encoding that it declares itself, whatever
/// the client's is), and what no table can hold.
const BUILT_IN: [(u32, u32, &str); 60] = [
    (16, 1000, "bool"),
    (17, 1001, "bytea"),
    (18, 1002, "char"),
    (19, 1003, "name"),
    (20, 1016, "int8"),
    (21, 1005, "int2"),
    (23, 1007, "int4"),
    (25, 1009, "text"),
    (26, 1028, "oid"),
    (27, 1010, "tid"),
    (28, 1011, "xid"),
    (29, 1012, "cid"),
    (114, 199, "json"),
    (600, 1017, "point"),
    (601, 1018, "lseg"),
    (602, 1019, "path"),
    (603, 1020, "box"),
    (604, 1027, "polygon"),
    (628, 629, "line"),
    (650, 651, "cidr"),
    (700, 1021, "float4"),
    (701, 1022, "float8"),
    (718, 719, "circle"),
    (774, 775, "macaddr8"),
    (790, 791, "money"),
    (829, 1040, "macaddr"),
    (869, 1041, "inet"),
    (1042, 1014, "bpchar"),
    (1043, 1015, "varchar"),
    (1082, 1182, "date"),
    (1083, 1183, "time"),
    (1114, 1115, "timestamp"),
    (1184, 1185, "timestamptz"),
    (1186, 1187, "interval"),
    (1266, 1270, "timetz"),
    (1560, 1561, "bit"),
    (1562, 1563, "varbit"),
    (1700, 1231, "numeric"),
    (1790, 2201, "refcursor"),
    (2950, 2951, "uuid"),
    (2970, 2949, "txid_snapshot"),
    (3220, 3221, "pg_lsn"),
    (3614, 3643, "tsvector"),
    (3615, 3645, "tsquery"),
    (3802, 3807, "jsonb"),
    (3904, 3905, "int4range"),
    (3906, 3907, "numrange"),
    (3908, 3909, "tsrange"),
    (3910, 3911, "tstzrange"),
    (3912, 3913, "daterange"),
    (3926, 3927, "int8range"),
    (4072, 4073, "jsonpath"),
    (4451, 6150, "int4multirange"),
    (4532, 6151, "nummultirange"),
    (4533, 6152, "tsmultirange"),
    (4534, 6153, "tstzmultirange"),
    (4535, 6155, "datemultirange"),
    (4536, 6157, "int8multirange"),
    (5038, 5039, "pg_snapshot"),
    (5069, 271, "xid8"),
];

/// How deep types may be made of types.
const DEEPEST: u32 = 16;

/// What a user's type is made of, by the number of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Enum,
    Domain(u32),
    Range(u32),
    Multirange(u32),
}

/// Users' types, by their numbers; those of other kinds aren't among them.
pub(crate) type Kinds = BTreeMap<u32, Kind>;

/// The form of each column of a table whose rows can be read in binary.
///
/// # Errors
/// The first column whose type has no such form, by its place; `None` for a table without columns, which has nothing to gain.
pub(crate) fn forms(types: &[u32], kinds: &Kinds) -> Result<Vec<String>, Option<usize>> {
    let forms = types.iter().enumerate().map(|(place, number)| form(*number, kinds, 0).ok_or(Some(place)));
    match types {
        [] => Err(None),
        _ => forms.collect(),
    }
}

/// The form of a type's values, if it means the same everywhere.
fn form(number: u32, kinds: &Kinds, depth: u32) -> Option<String> {
    if let Some((scalar, _, name)) = BUILT_IN.iter().find(|(scalar, array, _)| number == *scalar || number == *array) {
        return Some(match (*name, number == *scalar) {
            // Alike to the byte. Arrays of them aren't: those say what they are of.
            ("varchar" | "bpchar", true) => "text".to_owned(),
            (name, true) => name.to_owned(),
            (name, false) => format!("{name}[]"),
        });
    }
    if depth == DEEPEST {
        return None;
    }
    let of = |number| form(number, kinds, depth + 1);
    match *kinds.get(&number)? {
        Kind::Enum => Some("enum".to_owned()),
        Kind::Domain(base) => of(base),
        Kind::Range(bound) => of(bound).filter(|form| !is_array(form)).map(|form| format!("range({form})")),
        Kind::Multirange(bound) => of(bound).filter(|form| !is_array(form)).map(|form| format!("multirange({form})")),
    }
}

/// Why a table can't take rows whose `columns` have these forms, if it can't.
pub(crate) fn misfit(columns: &[String], forms: &[String], table: &Table, kinds: &Kinds) -> Option<String> {
    if columns.len() != forms.len() {
        return Some(format!("the set has {} columns of it in binary, and {} forms", columns.len(), forms.len()));
    }
    columns.iter().zip(forms).find_map(|(column, wanted)| {
        let Some(place) = table.columns.iter().position(|name| name == column) else {
            return Some(format!("it has no column {column} that takes values"));
        };
        let found = table.types.get(place).and_then(|number| form(*number, kinds, 0));
        let is_same = found.as_ref() == Some(wanted);
        let found = found.unwrap_or_else(|| "of a type without such a form".to_owned());
        (!is_same).then(|| format!("its column {column} is {found}, and the set has it in binary as {wanted}"))
    })
}

/// Whether values of this form are arrays. Then bytes 4 to 8 of each say whether an element may be NULL, which two arrays
/// that are equal need not agree in.
pub(crate) fn is_array(form: &str) -> bool {
    form.ends_with("[]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_in_binary_if_every_column_can_be() {
        let kinds = Kinds::from([
            (20_000, Kind::Enum),
            (20_001, Kind::Domain(23)),
            (20_002, Kind::Domain(20_001)),
            (20_003, Kind::Range(701)),
            (20_004, Kind::Multirange(701)),
            (20_005, Kind::Domain(1007)),
            (20_006, Kind::Range(1007)),
            (20_007, Kind::Range(20_000)),
            (20_008, Kind::Domain(20_999)),
            (20_009, Kind::Domain(20_009)),
            (20_010, Kind::Range(20_003)),
            (20_011, Kind::Multirange(20_999)),
        ]);
        for (types, expected) in [
            (&[23, 25, 1009][..], Ok(&["int4", "text", "text[]"][..])),
            (&[1043, 1042, 1015, 1014], Ok(&["text", "text", "varchar[]", "bpchar[]"])),
            (&[20_000, 20_001, 20_002], Ok(&["enum", "int4", "int4"])),
            (&[20_003, 20_004, 20_005], Ok(&["range(float8)", "multirange(float8)", "int4[]"])),
            (&[20_007, 20_010, 3905], Ok(&["range(enum)", "range(range(float8))", "int4range[]"])),
            (&[], Err(None)),
            // Of an array; of what isn't known; of itself.
            (&[20_006], Err(Some(0))),
            (&[23, 20_008], Err(Some(1))),
            (&[23, 23, 20_009], Err(Some(2))),
            (&[20_011], Err(Some(0))),
            // An extension's, or a composite type, or an array of a user's.
            (&[25, 20_999, 20_008], Err(Some(1))),
            // regclass, xml, and arrays of them.
            (&[2205], Err(Some(0))),
            (&[2210], Err(Some(0))),
            (&[142], Err(Some(0))),
            (&[143], Err(Some(0))),
            (&[0], Err(Some(0))),
        ] {
            let expected = expected.map(|forms| forms.iter().map(|form| (*form).to_owned()).collect::<Vec<_>>());
            assert_eq!(forms(types, &kinds), expected, "{types:?}");
        }
    }

    #[test]
    fn rows_fit_a_table_whose_columns_have_their_forms() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let kinds = Kinds::from([(20_000, Kind::Domain(20))]);
        let table = Table { columns: names(&["b", "a", "x"]), types: vec![20_000, 1043, 142], ..Table::default() };
        for (columns, forms, expected) in [
            (&["a", "b"][..], &["text", "int8"][..], None),
            (&["b"], &["float8"], Some("its column b is int8, and the set has it in binary as float8")),
            (&["a", "x"], &["text", "text"], Some("its column x is of a type without such a form")),
            (&["a", "gone"], &["text", "text"], Some("it has no column gone")),
            (&["a", "b"], &["text"], Some("the set has 2 columns of it in binary, and 1 forms")),
        ] {
            let found = misfit(&names(columns), &names(forms), &table, &kinds);
            match (found, expected) {
                (None, None) => {}
                (Some(found), Some(expected)) => assert!(found.starts_with(expected), "{found}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn each_type_is_there_once() {
        let mut numbers: Vec<u32> = BUILT_IN.iter().flat_map(|(scalar, array, _)| [*scalar, *array]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 2 * BUILT_IN.len());
        // Those of users begin behind all that PostgreSQL numbers itself.
        assert!(numbers.iter().all(|number| *number < 10_000));
    }
}
