//! A dialog that ends in work: what is asked for, the preview, the typed confirmation, and what came of it.

use seawall_core::{Failure, Point, Underway, is_visible};

use super::Key;
use super::edit::Field;

/// What a person can have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ui) enum Verb {
    /// A file beside the original is restored.
    Restore,
    /// The process ships what is committed; of a server it makes a backup.
    Ship,
    /// A restore into a throw-away place is done and checked.
    Prove,
}

impl Verb {
    /// The verb in titles and in the log.
    pub(in crate::ui) fn name(self) -> &'static str {
        match self {
            Self::Restore => "restore",
            Self::Ship => "backup",
            Self::Prove => "proof",
        }
    }
}

/// What is to be done with which database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ui) struct Wish {
    pub(in crate::ui) verb: Verb,
    /// The database's key.
    pub(in crate::ui) key: String,
    /// The moment to restore, as `--at` takes it.
    pub(in crate::ui) at: String,
    /// The file to make; empty for the one beside the original.
    pub(in crate::ui) into: String,
}

/// What would be done, found out without doing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ui) struct Preview {
    /// The command that does the same in a shell.
    pub(in crate::ui) command: String,
    /// Its words. They are what is carried out.
    pub(in crate::ui) words: Vec<String>,
    /// The point that it reaches.
    pub(in crate::ui) point: Option<Point>,
    /// How many objects it reads, and their bytes.
    pub(in crate::ui) read: Option<(u64, u64)>,
    /// What else a person should know before.
    pub(in crate::ui) notes: Vec<String>,
    /// Whether it can be done from here. If not, the notes say how else.
    pub(in crate::ui) is_offered: bool,
}

/// How far the dialog is.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::ui) enum Step {
    /// The moment and the file are typed; the index of the field that gets keys.
    Form { at: Field, into: Field, focus: usize },
    /// The preview is being made.
    Planning,
    /// The preview is shown, and the confirmation is typed.
    Preview { preview: Preview, typed: Field },
    /// The work is done.
    Running { command: String, underway: Option<Underway> },
    /// The work ended.
    Ended(Result<Vec<String>, Failure>),
}

/// A dialog.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::ui) struct Order {
    /// The number of its newest request.
    pub(in crate::ui) id: u64,
    pub(in crate::ui) wish: Wish,
    /// The database's name.
    pub(in crate::ui) name: String,
    /// What has to be typed to confirm.
    pub(in crate::ui) word: String,
    pub(in crate::ui) step: Step,
}

/// What a key does in a dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing but what the dialog shows.
    Stay,
    /// The dialog is left.
    Leave,
    /// A preview is wanted.
    Plan,
    /// The words are to be carried out.
    Carry(Vec<String>),
    /// The work is to be given up.
    GiveUp,
}

/// The longest name that a person is asked to type.
const LONGEST: usize = 40;

/// What confirms: the database's name, or the verb where a name can't be typed or is too long for it.
pub(in crate::ui) fn word_of(name: &str, verb: Verb) -> String {
    let is_typable = !name.is_empty()
        && name.chars().count() <= LONGEST
        && name.trim() == name
        && name.chars().all(|c| is_visible(c) && (c.is_alphanumeric() || c.is_ascii_punctuation() || c == ' '));
    if is_typable { name.to_owned() } else { verb.name().to_owned() }
}

impl Order {
    /// A dialog for a wish. A restore begins with its form, the others with the preview.
    pub(super) fn new(id: u64, wish: Wish, name: &str) -> Self {
        let word = word_of(name, wish.verb);
        let step = match wish.verb {
            Verb::Restore => Step::Form { at: Field::of(&wish.at), into: Field::of(&wish.into), focus: 0 },
            Verb::Ship | Verb::Prove => Step::Planning,
        };
        Self { id, wish, name: name.to_owned(), word, step }
    }

    /// Whether the work is being done.
    pub(in crate::ui) fn is_running(&self) -> bool {
        matches!(self.step, Step::Running { .. })
    }

    /// What a key does.
    pub(super) fn press(&mut self, key: Key) -> Decision {
        match &mut self.step {
            Step::Form { at, into, focus } => match key {
                Key::Escape => Decision::Leave,
                Key::Tab | Key::Up | Key::Down => {
                    *focus = 1 - *focus;
                    Decision::Stay
                }
                Key::Enter => {
                    (self.wish.at, self.wish.into) = (at.text().trim().to_owned(), into.text().trim().to_owned());
                    if self.wish.at.is_empty() {
                        self.wish.at = "latest".to_owned();
                    }
                    self.step = Step::Planning;
                    Decision::Plan
                }
                key => {
                    let field = if *focus == 0 { at } else { into };
                    field.press(key);
                    Decision::Stay
                }
            },
            Step::Planning => match key {
                Key::Escape => Decision::Leave,
                _ => Decision::Stay,
            },
            Step::Preview { preview, typed } => match key {
                Key::Escape => Decision::Leave,
                Key::Enter if preview.is_offered && typed.text() == self.word => Decision::Carry(preview.words.clone()),
                key if preview.is_offered => {
                    typed.press(key);
                    Decision::Stay
                }
                _ => Decision::Stay,
            },
            Step::Running { .. } => match key {
                Key::Char('x') => Decision::GiveUp,
                // The work goes on, and the dialog can be opened again.
                Key::Escape | Key::Char('q') => Decision::Leave,
                _ => Decision::Stay,
            },
            Step::Ended(_) => match key {
                Key::Enter | Key::Escape | Key::Char('q') => Decision::Leave,
                _ => Decision::Stay,
            },
        }
    }
}
