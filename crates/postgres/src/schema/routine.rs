//! How is a function of a set made without a superuser's rights? Pure: from the statement of `pg_dump` to statements of less.
//!
//! PostgreSQL reads the defaults of arguments, and a body that is statements, while it makes a function. A constant there is
//! read by its type, and a type may have checks, which are functions of users. So the plain role reads them.
//! A superuser only says what superusers alone may say, of a function that is there; or makes one in a language that is a
//! superuser's, without its defaults, which are then copied from a function that the plain role has made.

use crate::schema::bare::bare;

/// A statement that makes a function or a procedure, in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Routine {
    /// `FUNCTION` or `PROCEDURE`.
    kind: &'static str,
    /// With its schema, as SQL.
    name: Vec<u8>,
    arguments: Vec<Argument>,
    /// What it returns.
    result: Vec<u8>,
    /// As SQL.
    language: Vec<u8>,
    /// Other properties.
    options: Vec<u8>,
    /// Properties that a superuser may have to say.
    said: Vec<u8>,
    /// `AS` and its text, or statements.
    body: Vec<u8>,
}

/// An argument: its mode, name and type, and its default.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Argument {
    text: Vec<u8>,
    default: Option<Vec<u8>>,
}

const LANGUAGE: &str = "\n    LANGUAGE ";
const DEFAULT: &str = " DEFAULT ";

impl Routine {
    /// The parts of a statement, if it is one as `pg_dump` writes it.
    pub(crate) fn parse(statement: &[u8]) -> Option<Self> {
        let bare = bare(statement);
        let of =
            |kind: &'static str| Some((kind, bare.strip_prefix("CREATE ")?.strip_prefix(kind)?.strip_prefix(' ')?));
        let (kind, rest) = of("FUNCTION").or_else(|| of("PROCEDURE"))?;
        let (from, open) = (bare.len() - rest.len(), bare.find('(')?);
        let close = end_of_list(&bare, open)?;
        let lines = close + bare[close..].find(LANGUAGE)?;
        let (first, rest) = (lines + LANGUAGE.len(), &bare[lines + LANGUAGE.len()..]);
        let line_end = first + rest.find('\n')?;
        let name_end = first + rest.find([' ', '\n'])?;
        let (mut options, mut said) = (Vec::new(), Vec::new());
        let mut words = bare[name_end..line_end].split_inclusive(' ').scan(name_end, |at, word| {
            let from = *at;
            *at += word.len();
            Some((word.trim(), &statement[from..*at]))
        });
        while let Some((word, text)) = words.next() {
            match word {
                "LEAKPROOF" => said.extend_from_slice(b" LEAKPROOF"),
                "SUPPORT" => said.extend_from_slice(&[b" SUPPORT ", words.next()?.1.trim_ascii()].concat()),
                _ => options.extend_from_slice(text),
            }
        }
        let mut at = line_end;
        while bare[at..].starts_with("\n    SET ") {
            let end = at + 1 + bare[at + 1..].find('\n')?;
            said.extend_from_slice(&statement[at..end]);
            at = end;
        }
        Some(Self {
            kind,
            name: statement[from..open].to_vec(),
            arguments: arguments(statement, &bare, open + 1, close - 1),
            result: statement[close..lines].to_vec(),
            language: statement[first..name_end].to_vec(),
            options: options.trim_ascii_end().to_vec(),
            said,
            body: statement[at..].to_vec(),
        })
    }

    /// The statement for the plain role: all of it, but for what a superuser may have to say.
    pub(crate) fn plain(&self) -> Vec<u8> {
        let default = |argument: &Argument| match &argument.default {
            Some(default) => [&argument.text, DEFAULT.as_bytes(), default].concat(),
            None => argument.text.clone(),
        };
        self.made(&self.arguments.iter().map(default).collect::<Vec<_>>(), b"")
    }

    /// What a superuser says of it when it is there: names of types, and nothing that is evaluated.
    pub(crate) fn said(&self) -> Option<Vec<u8>> {
        if self.said.is_empty() {
            return None;
        }
        let arguments = self.texts().join(&b", "[..]);
        let alter = format!("ALTER {} ", self.kind);
        Some([alter.as_bytes(), &self.name, b"(", &arguments, b")", &self.said].concat())
    }

    /// The statement for a superuser, in a language that is a superuser's: without defaults. `None` where anything else in it
    /// might be evaluated.
    pub(crate) fn without_defaults(&self) -> Option<Vec<u8>> {
        let names_alone = |text: &Vec<u8>| {
            let is_name = |c: char| c.is_ascii_alphanumeric() || " _.,()[]%\"".contains(c);
            bare(text).chars().all(is_name)
        };
        let texts = self.texts();
        let is_plain = texts.iter().all(names_alone) && names_alone(&self.result) && names_alone(&self.options);
        (is_plain && bare(&self.body).starts_with("\n    AS ")).then(|| self.made(&texts, &self.said))
    }

    /// The statement of a function called `name` that has the same defaults, and nothing else.
    pub(crate) fn defaults(&self, name: &str) -> Option<Vec<u8>> {
        let first = self.arguments.iter().position(|argument| argument.default.is_some())?;
        let taken = self.arguments[first..].iter().filter_map(|argument| {
            let default = argument.default.as_ref()?;
            let mode = argument.text.get(..6).is_some_and(|mode| mode.eq_ignore_ascii_case(b"INOUT "));
            let text = if mode { &argument.text[6..] } else { &argument.text[..] };
            Some([text, DEFAULT.as_bytes(), default].concat())
        });
        let taken = taken.collect::<Vec<_>>().join(&b", "[..]);
        let begin = format!("CREATE FUNCTION {name}(");
        Some([begin.as_bytes(), &taken, b") RETURNS pg_catalog.void LANGUAGE sql AS ''"].concat())
    }

    /// The name of its language.
    pub(crate) fn language(&self) -> &[u8] {
        &self.language
    }

    /// Its arguments without defaults.
    fn texts(&self) -> Vec<Vec<u8>> {
        self.arguments.iter().map(|argument| argument.text.clone()).collect()
    }

    fn made(&self, arguments: &[Vec<u8>], said: &[u8]) -> Vec<u8> {
        let begin = format!("CREATE {} ", self.kind);
        let arguments = arguments.join(&b", "[..]);
        let language = LANGUAGE.as_bytes();
        let parts: [&[u8]; 10] = [
            begin.as_bytes(),
            &self.name,
            b"(",
            &arguments,
            b")",
            &self.result,
            language,
            &self.language,
            &self.options,
            said,
        ];
        [&parts.concat()[..], &self.body].concat()
    }
}

/// The place behind the parenthesis that closes the one at `open`.
fn end_of_list(bare: &str, open: usize) -> Option<usize> {
    let mut depth = 0_u32;
    for (at, byte) in bare.bytes().enumerate().skip(open) {
        depth = deeper(depth, byte);
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

fn deeper(depth: u32, byte: u8) -> u32 {
    match byte {
        b'(' | b'[' => depth.saturating_add(1),
        b')' | b']' => depth.saturating_sub(1),
        _ => depth,
    }
}

/// The arguments that stand between two places.
fn arguments(statement: &[u8], bare: &str, from: usize, to: usize) -> Vec<Argument> {
    let (mut ends, mut depth) = (Vec::new(), 0);
    for (at, byte) in bare.bytes().enumerate().take(to).skip(from) {
        depth = deeper(depth, byte);
        if byte == b',' && depth == 0 {
            ends.push(at);
        }
    }
    ends.push(to);
    let mut begin = from;
    let each = ends.into_iter().map(|end| {
        let (text, words) = (&statement[begin..end], &bare[begin..end]);
        begin = end + 1;
        match words.find(DEFAULT) {
            Some(at) => {
                let (text, default) = (&text[..at], &text[at + DEFAULT.len()..]);
                Argument { text: text.trim_ascii().to_vec(), default: Some(default.to_vec()) }
            }
            None => Argument { text: text.trim_ascii().to_vec(), default: None },
        }
    });
    each.filter(|argument| !argument.text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).expect("text")
    }

    fn routine(statement: &str) -> Routine {
        Routine::parse(statement.as_bytes()).expect("a routine")
    }

    #[test]
    fn a_superuser_reads_no_default_and_no_body() {
        for (statement, plain, said) in [
            (
                "CREATE FUNCTION public.f(a public.d[] DEFAULT '{1}'::public.d[]) RETURNS integer\n    LANGUAGE plpgsql\n    SET work_mem TO '1MB'\n    AS $$x$$",
                "CREATE FUNCTION public.f(a public.d[] DEFAULT '{1}'::public.d[]) RETURNS integer\n    LANGUAGE plpgsql\n    AS $$x$$",
                Some("ALTER FUNCTION public.f(a public.d[])\n    SET work_mem TO '1MB'"),
            ),
            (
                "CREATE FUNCTION public.\"f (\"(a text DEFAULT 'x,'''::text, VARIADIC b integer[] DEFAULT ARRAY[1, (2)], OUT c public.d) RETURNS public.d\n    LANGUAGE sql IMMUTABLE LEAKPROOF COST 3 SUPPORT public.\"s x\" PARALLEL SAFE\n    SET search_path TO 'a', 'b\n    SET x'\n    SET x.y TO '1'\n    BEGIN ATOMIC\n SELECT '{1}'::public.d[];\nEND",
                "CREATE FUNCTION public.\"f (\"(a text DEFAULT 'x,'''::text, VARIADIC b integer[] DEFAULT ARRAY[1, (2)], OUT c public.d) RETURNS public.d\n    LANGUAGE sql IMMUTABLE COST 3 PARALLEL SAFE\n    BEGIN ATOMIC\n SELECT '{1}'::public.d[];\nEND",
                Some(
                    "ALTER FUNCTION public.\"f (\"(a text, VARIADIC b integer[], OUT c public.d) LEAKPROOF SUPPORT public.\"s x\"\n    SET search_path TO 'a', 'b\n    SET x'\n    SET x.y TO '1'",
                ),
            ),
            (
                "CREATE PROCEDURE public.p(IN a integer)\n    LANGUAGE plpgsql SECURITY DEFINER\n    SET log_statement TO 'none'\n    AS 'x'",
                "CREATE PROCEDURE public.p(IN a integer)\n    LANGUAGE plpgsql SECURITY DEFINER\n    AS 'x'",
                Some("ALTER PROCEDURE public.p(IN a integer)\n    SET log_statement TO 'none'"),
            ),
            (
                "CREATE FUNCTION public.f() RETURNS TABLE(a numeric, b text)\n    LANGUAGE sql\n    RETURN 1",
                "CREATE FUNCTION public.f() RETURNS TABLE(a numeric, b text)\n    LANGUAGE sql\n    RETURN 1",
                None,
            ),
        ] {
            let routine = routine(statement);
            assert_eq!(text(routine.plain()), plain);
            assert_eq!(routine.said().map(text).as_deref(), said);
        }
    }

    #[test]
    fn in_a_language_of_superusers_a_function_gets_its_defaults_behind_itself() {
        for (statement, made, defaults) in [
            (
                "CREATE FUNCTION public.f(a integer, INOUT b public.d[] DEFAULT '{1}', OUT c text, VARIADIC d text[] DEFAULT NULL::text[]) RETURNS record\n    LANGUAGE plpython3u LEAKPROOF\n    SET work_mem TO '1MB'\n    AS $$'$$",
                "CREATE FUNCTION public.f(a integer, INOUT b public.d[], OUT c text, VARIADIC d text[]) RETURNS record\n    LANGUAGE plpython3u LEAKPROOF\n    SET work_mem TO '1MB'\n    AS $$'$$",
                Some(
                    "CREATE FUNCTION pg_temp.x(b public.d[] DEFAULT '{1}', VARIADIC d text[] DEFAULT NULL::text[]) RETURNS pg_catalog.void LANGUAGE sql AS ''",
                ),
            ),
            (
                "CREATE FUNCTION public.f() RETURNS integer\n    LANGUAGE c IMMUTABLE\n    AS '$libdir/x', 'f'",
                "CREATE FUNCTION public.f() RETURNS integer\n    LANGUAGE c IMMUTABLE\n    AS '$libdir/x', 'f'",
                None,
            ),
        ] {
            let routine = routine(statement);
            assert_eq!(routine.without_defaults().map(text).as_deref(), Some(made));
            assert_eq!(routine.defaults("pg_temp.x").map(text).as_deref(), defaults);
        }
        // What `pg_dump` doesn't write so is no superuser's.
        for statement in [
            "CREATE FUNCTION public.f(a public.d[] = '{1}') RETURNS integer\n    LANGUAGE c\n    AS 'x'",
            "CREATE FUNCTION public.f(a integer) RETURNS integer\n    LANGUAGE c\n    BEGIN ATOMIC\n SELECT '{1}'::public.d[];\nEND",
            "CREATE FUNCTION public.f(a integer) RETURNS integer BEGIN ATOMIC SELECT '{1}'::d[]; END\n    LANGUAGE c\n    AS 'x'",
        ] {
            assert_eq!(routine(statement).without_defaults(), None, "{statement}");
        }
    }

    #[test]
    fn other_statements_are_no_routines() {
        for statement in [
            "CREATE TABLE public.t (a integer)",
            "CREATE OR REPLACE FUNCTION public.f() RETURNS integer\n    LANGUAGE sql\n    AS 'x'",
            "CREATE FUNCTION public.f() RETURNS integer LANGUAGE sql AS 'x'",
            "CREATE FUNCTION public.f(",
            "CREATE FUNCTION public.f() RETURNS integer\n    LANGUAGE sql",
            "",
        ] {
            assert_eq!(Routine::parse(statement.as_bytes()), None, "{statement}");
        }
    }
}
