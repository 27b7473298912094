//! Takes the tokens of a statement one by one. Pure.

use super::reading::{Read, Token};

/// The place in a statement's tokens.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'t, 'a> {
    tokens: &'t [Read<'a>],
}

impl<'t, 'a> Cursor<'t, 'a> {
    pub(super) fn new(tokens: &'t [Read<'a>]) -> Self {
        Self { tokens }
    }

    pub(super) fn is_done(&self) -> bool {
        self.tokens.is_empty()
    }

    pub(super) fn peek(&self) -> Option<&'t Token<'a>> {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, place: usize) -> Option<&'t Token<'a>> {
        self.tokens.get(place).map(|read| &read.token)
    }

    pub(super) fn next(&mut self) -> Option<&'t Read<'a>> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    /// Whether the word at this place is `wanted`, in any case.
    pub(super) fn is(&self, place: usize, wanted: &str) -> bool {
        matches!(self.peek_at(place), Some(Token::Word(word)) if word.eq_ignore_ascii_case(wanted.as_bytes()))
    }

    /// Takes a word if it is the next.
    pub(super) fn word(&mut self, wanted: &str) -> bool {
        let is = self.is(0, wanted);
        if is {
            self.next();
        }
        is
    }

    /// Takes the words if all of them come next.
    pub(super) fn words(&mut self, wanted: &[&str]) -> bool {
        let are = wanted.iter().enumerate().all(|(place, wanted)| self.is(place, wanted));
        if are {
            self.tokens = self.tokens.get(wanted.len()..).unwrap_or_default();
        }
        are
    }

    /// Takes one of the words if it is the next.
    pub(super) fn one_of<'w>(&mut self, wanted: &[&'w str]) -> Option<&'w str> {
        let found = wanted.iter().find(|wanted| self.is(0, wanted)).copied();
        if found.is_some() {
            self.next();
        }
        found
    }

    pub(super) fn is_sign(&self, place: usize, sign: u8) -> bool {
        self.peek_at(place) == Some(&Token::Sign(sign))
    }

    /// Takes a character if it is the next.
    pub(super) fn sign(&mut self, sign: u8) -> bool {
        let is = self.is_sign(0, sign);
        if is {
            self.next();
        }
        is
    }

    /// Takes a name that no other name belongs to: neither a database before it nor a column behind it.
    pub(super) fn own(&mut self) -> Option<String> {
        let name = match self.peek()? {
            Token::Word(word) => std::str::from_utf8(word).ok()?.to_owned(),
            Token::Name(name) => String::from_utf8(name.clone()).ok()?,
            Token::Text(_) | Token::Sign(_) => return None,
        };
        // Such a name is that of a file, which the server takes as it is.
        if name.is_empty() || name.starts_with("#mysql50#") || self.is_sign(1, b'.') {
            return None;
        }
        self.next();
        Some(name)
    }

    /// Takes `( name, … )`.
    pub(super) fn names(&mut self) -> Option<()> {
        if !self.sign(b'(') {
            return None;
        }
        loop {
            self.own()?;
            if self.sign(b')') {
                return Some(());
            }
            if !self.sign(b',') {
                return None;
            }
        }
    }

    /// Takes a number, with its sign.
    pub(super) fn number(&mut self) -> Option<()> {
        let _ = self.sign(b'-') || self.sign(b'+');
        match &self.next()?.token {
            Token::Word(word) if word.iter().all(u8::is_ascii_digit) => Some(()),
            _ => None,
        }
    }

    /// Takes `IF EXISTS`.
    pub(super) fn if_exists(&mut self) {
        self.words(&["IF", "EXISTS"]);
    }

    /// Takes `IF NOT EXISTS`.
    pub(super) fn if_not_exists(&mut self) {
        self.words(&["IF", "NOT", "EXISTS"]);
    }
}
