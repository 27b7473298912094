//! What the screens know, and what a key or an answer does to it. Pure: no terminal, no clock, no request.
//!
//! - `entry`: a database as the screens show it;
//! - `edit`: a line that a person types;
//! - `order`: a dialog that ends in work;
//! - `history`: the timeline of a database;
//! - `journal`: what happened in this session;
//! - `press`: what a key does on each screen.

mod edit;
mod entry;
mod history;
mod journal;
mod order;
mod press;
#[cfg(test)]
pub(in crate::ui) mod tests;

use seawall_core::{Failure, Moment, Timeline, Underway};

pub(in crate::ui) use self::edit::Field;
pub(in crate::ui) use self::entry::{Entry, Standing};
pub(in crate::ui) use self::history::{History, Stretch};
pub(in crate::ui) use self::journal::{Journal, Said};
pub(in crate::ui) use self::order::{Order, Preview, Step, Verb, Wish};

/// A key, as far as the screens know keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ui) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    /// Ctrl-U: the line is emptied.
    Clear,
    Tab,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-Z.
    Suspend,
    /// Ctrl-L.
    Redraw,
}

/// What tells of the databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ui) enum Kind {
    /// A running process, which is asked every second.
    Process,
    /// A vault, which is asked when a person looks.
    Vault,
}

/// Whether the process or the vault answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ui) enum Contact {
    /// The first answer is waited for.
    Waiting,
    /// The newest answer is of this moment.
    Here(Moment),
    /// No answer came, since this moment.
    Lost(Moment, Failure),
}

/// A screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ui) enum Screen {
    Fleet,
    Database,
    Timeline,
    Order,
    Log,
    Help,
}

/// What comes from outside.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::ui) enum Input {
    Key(Key),
    /// A text that was pasted. Its line breaks are no Enter.
    Paste(String),
    Clock(Moment),
    Told(Told),
}

/// What a source tells.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::ui) enum Told {
    Databases(Result<Vec<Entry>, Failure>),
    Timeline(u64, Result<Timeline, Failure>),
    Preview(u64, Result<Preview, Failure>),
    Underway(u64, Option<Underway>),
    Ended(u64, Result<Vec<String>, Failure>),
}

/// What is to be done outside.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::ui) enum Effect {
    Quit,
    Suspend,
    /// The whole screen is to be drawn again.
    Redraw,
    /// The databases are to be looked at again.
    Refresh,
    Timeline(u64, Entry),
    Plan(u64, Wish, Entry),
    Carry(u64, Verb, Vec<String>, Entry),
    /// The answer to this request isn't wanted any more.
    GiveUp(u64),
}

/// Everything that the screens know.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::ui) struct Model {
    pub(in crate::ui) kind: Kind,
    /// The socket or the prefix.
    pub(in crate::ui) place: String,
    pub(in crate::ui) now: Moment,
    pub(in crate::ui) contact: Contact,
    /// Whether a vault is being looked at again.
    pub(in crate::ui) is_refreshing: bool,
    pub(in crate::ui) databases: Vec<Entry>,
    pub(in crate::ui) filter: Field,
    pub(in crate::ui) is_filtering: bool,
    /// The key of the database that is chosen.
    pub(in crate::ui) chosen: Option<String>,
    /// The screens, the one that is seen last.
    pub(in crate::ui) screens: Vec<Screen>,
    /// How far the screen is scrolled down, and how far it can be.
    pub(in crate::ui) scroll: (usize, usize),
    pub(in crate::ui) history: Option<History>,
    pub(in crate::ui) order: Option<Order>,
    pub(in crate::ui) journal: Journal,
    /// Whether a second Ctrl-C, or `q` in the list, quits although work is under way.
    pub(in crate::ui) is_leaving: bool,
    /// The number of the newest request.
    last: u64,
}

impl Model {
    /// Nothing is known yet.
    pub(in crate::ui) fn new(kind: Kind, place: String, now: Moment) -> Self {
        Self {
            kind,
            place,
            now,
            contact: Contact::Waiting,
            is_refreshing: true,
            databases: Vec::new(),
            filter: Field::default(),
            is_filtering: false,
            chosen: None,
            screens: vec![Screen::Fleet],
            scroll: (0, 0),
            history: None,
            order: None,
            journal: Journal::default(),
            is_leaving: false,
            last: 0,
        }
    }

    /// The screen that is seen.
    pub(in crate::ui) fn screen(&self) -> Screen {
        self.screens.last().copied().unwrap_or(Screen::Fleet)
    }

    /// The databases that the filter leaves.
    pub(in crate::ui) fn shown(&self) -> Vec<&Entry> {
        self.databases.iter().filter(|entry| entry.matches(self.filter.text())).collect()
    }

    /// The database that is chosen, if it is shown.
    pub(in crate::ui) fn entry(&self) -> Option<&Entry> {
        let chosen = self.chosen.as_deref()?;
        self.databases.iter().find(|entry| entry.key == chosen)
    }

    /// Where the chosen database is among those that are shown.
    pub(in crate::ui) fn index(&self) -> Option<usize> {
        let chosen = self.chosen.as_deref()?;
        self.shown().iter().position(|entry| entry.key == chosen)
    }

    /// Notes how far the screen that was drawn can be scrolled.
    pub(in crate::ui) fn can_scroll(&mut self, most: usize) {
        self.scroll = (self.scroll.0.min(most), most);
    }

    /// Takes what comes, and says what is to be done.
    pub(in crate::ui) fn take(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Key(key) => self.press(key),
            Input::Paste(text) => {
                for c in text.chars() {
                    let _ = self.paste(c);
                }
                Vec::new()
            }
            Input::Clock(now) => {
                self.now = now;
                Vec::new()
            }
            Input::Told(told) => {
                self.hear(told);
                Vec::new()
            }
        }
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Databases(answer) => self.hear_databases(answer),
            Told::Timeline(id, answer) => {
                let Some(history) = self.history.as_mut().filter(|history| history.id == id) else { return };
                history.hear(answer, self.now);
            }
            Told::Preview(id, answer) => {
                let Some(order) = self.order.as_mut().filter(|order| order.id == id) else { return };
                order.step = match answer {
                    Ok(preview) => Step::Preview { preview, typed: Field::default() },
                    Err(failure) => Step::Ended(Err(failure)),
                };
            }
            Told::Underway(id, now) => {
                let Some(order) = self.order.as_mut().filter(|order| order.id == id) else { return };
                if let Step::Running { underway, .. } = &mut order.step {
                    *underway = now;
                }
            }
            Told::Ended(id, answer) => self.hear_end(id, answer),
        }
    }

    fn hear_databases(&mut self, answer: Result<Vec<Entry>, Failure>) {
        self.is_refreshing = false;
        match answer {
            Ok(databases) => {
                match &self.contact {
                    Contact::Lost(since, _) => {
                        self.journal.say(self.now, format!("{} answers again, after {since}", self.place), false);
                    }
                    Contact::Waiting => {
                        self.journal.say(self.now, format!("{} answers", self.place), false);
                    }
                    Contact::Here(_) => self.journal.compare(self.now, &self.databases, &databases),
                }
                (self.contact, self.databases) = (Contact::Here(self.now), databases);
                self.choose_again();
            }
            Err(failure) => match &mut self.contact {
                Contact::Lost(_, last) => *last = failure,
                contact => {
                    self.journal.say(self.now, failure.to_string(), true);
                    *contact = Contact::Lost(self.now, failure);
                }
            },
        }
    }

    fn hear_end(&mut self, id: u64, answer: Result<Vec<String>, Failure>) {
        let Some(order) = self.order.as_mut().filter(|order| order.id == id && order.is_running()) else { return };
        let about = format!("{} of {}", order.wish.verb.name(), order.name);
        match &answer {
            Ok(lines) => {
                let first = lines.first().map(String::as_str).unwrap_or("done");
                self.journal.say(self.now, format!("{about}: {first}"), false);
            }
            Err(failure) => self.journal.say(self.now, format!("{about} failed: {failure}"), true),
        }
        order.step = Step::Ended(answer);
        self.is_leaving = false;
    }

    /// Chooses the first database that is shown if none is, or if the chosen one isn't there any more.
    fn choose_again(&mut self) {
        if self.index().is_none() && self.screen() == Screen::Fleet {
            self.chosen = self.shown().first().map(|entry| entry.key.clone());
        }
    }

    /// A number for a request.
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}
