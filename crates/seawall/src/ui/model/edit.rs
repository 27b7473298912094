//! A line that a person types.

use seawall_core::is_visible;

use super::Key;

/// The longest text of a line.
const LONGEST: usize = 1024;

/// A text with the end as its only place to type at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::ui) struct Field(String);

impl Field {
    /// A line that holds a text already.
    pub(super) fn of(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// What it holds.
    pub(in crate::ui) fn text(&self) -> &str {
        &self.0
    }

    /// What a key does to it. Returns whether the text is another one now.
    pub(super) fn press(&mut self, key: Key) -> bool {
        match key {
            Key::Char(c) if is_visible(c) && self.0.len() < LONGEST => {
                self.0.push(c);
                true
            }
            Key::Backspace => self.0.pop().is_some(),
            Key::Clear => {
                let is_other = !self.0.is_empty();
                self.0.clear();
                is_other
            }
            _ => false,
        }
    }
}
