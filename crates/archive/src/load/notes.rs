//! What a journal of a restore says: the steps that are done, each as a text. Pure.
//!
//! The journal is in the target, and the engine writes each note in the transaction of its step. It says what is done, never
//! what is planned: a resume may have other settings. The first note is the title of the restore ([`super::Identity`]).

use std::collections::BTreeSet;

/// What the notes of chunks begin with.
const CHUNK: &str = "chunk ";

/// What the notes begin with of what was left out. Behind its name follows a newline and the reason.
const LEFT_OUT: &str = "left out ";

/// The steps that a journal has, for the whole restore or a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notes {
    /// What steps of this part begin with. A chunk is loaded once in each part, with other tables.
    part: String,
    done: BTreeSet<String>,
}

impl Notes {
    /// What a journal holds: all of its notes, of every part.
    pub fn new(done: BTreeSet<String>) -> Self {
        Self { part: String::new(), done }
    }

    /// Whether it is the journal of the restore of this title.
    pub fn is_of(&self, title: &str) -> bool {
        self.done.contains(title)
    }

    /// Whether an earlier run has done anything beside beginning.
    pub fn is_resumed(&self) -> bool {
        self.done.len() > 1
    }

    /// The same for a part of the restore, whose steps have names of their own.
    #[must_use]
    pub fn part(&self, part: &str) -> Self {
        Self { part: format!("{}{part}: ", self.part), done: self.done.clone() }
    }

    /// The same part of all that the journal holds by now.
    #[must_use]
    pub fn anew(&self, done: BTreeSet<String>) -> Self {
        Self { part: self.part.clone(), done }
    }

    /// Whether a step of this part is done.
    pub fn has(&self, step: &str) -> bool {
        self.done.contains(&self.step(step))
    }

    /// What follows the name of a step of this part that is done.
    pub fn said(&self, step: &str) -> Option<&str> {
        self.steps().find_map(|done| done.strip_prefix(step)?.strip_prefix(' '))
    }

    /// What earlier runs have left out in this part, and why.
    pub fn left_out(&self) -> Vec<(String, String)> {
        let notes = self.steps().filter_map(|step| step.strip_prefix(LEFT_OUT)?.split_once('\n'));
        notes.map(|(what, why)| (what.to_owned(), why.to_owned())).collect()
    }

    /// The chunks that are loaded in this part.
    pub fn chunks(&self) -> BTreeSet<u32> {
        self.steps().filter_map(chunk).collect()
    }

    /// The text that notes a step of this part as done.
    pub fn step(&self, step: &str) -> String {
        format!("{}{step}", self.part)
    }

    /// The text that notes a chunk as loaded in this part.
    pub fn chunk(&self, number: u32) -> String {
        self.step(&format!("{CHUNK}{number}"))
    }

    /// The text that notes what was left out, and why, so that a resume tells it again.
    pub fn omission(&self, what: &str, cause: &str) -> String {
        self.step(&format!("{LEFT_OUT}{what}\n{cause}"))
    }

    /// The steps of this part.
    fn steps(&self) -> impl Iterator<Item = &str> {
        self.done.iter().filter_map(|step| step.strip_prefix(&*self.part))
    }
}

/// The chunk that a step has loaded.
fn chunk(step: &str) -> Option<u32> {
    step.strip_prefix(CHUNK)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_among_the_steps() {
        for (step, number) in [("chunk 7", Some(7)), ("chunk ", None), ("schema", None), ("set of a chunk 7", None)] {
            assert_eq!(chunk(step), number, "{step}");
        }
    }

    #[test]
    fn each_part_has_its_own_steps() {
        let notes = |texts: &[String]| Notes::new(texts.iter().cloned().collect());
        let none = notes(&["set 1".to_owned()]);
        assert!(none.is_of("set 1") && !none.is_of("set 2") && !none.is_resumed());
        let (later, round) = (none.part("later"), none.part("later").part("round 1"));
        let all = notes(&[
            "set 1".to_owned(),
            none.step("schema"),
            none.chunk(1),
            later.chunk(2),
            round.chunk(3),
            round.step("waits for all"),
            later.omission("extension e", "the server\nrefused it"),
        ]);
        assert!(all.is_resumed() && all.has("schema") && !all.part("later").has("schema"));
        assert_eq!(all.chunks(), BTreeSet::from([1]));
        assert_eq!(all.part("later").chunks(), BTreeSet::from([2]));
        let round = all.part("later").part("round 1");
        assert_eq!((round.chunks(), round.said("waits")), (BTreeSet::from([3]), Some("for all")));
        assert_eq!(all.said("waits"), None);
        let omitted = ("extension e".to_owned(), "the server\nrefused it".to_owned());
        assert_eq!((all.left_out(), all.part("later").left_out()), (Vec::new(), vec![omitted]));
    }
}
