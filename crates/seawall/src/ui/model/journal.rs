//! What happened in this session: what was asked for, what came of it, and what changed meanwhile.

use std::collections::VecDeque;

use seawall_core::{Moment, Phase};

use super::Entry;

/// Lines that are kept.
const KEPT: usize = 500;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ui) struct Said {
    pub(in crate::ui) at: Moment,
    pub(in crate::ui) text: String,
    pub(in crate::ui) is_bad: bool,
}

/// The lines, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::ui) struct Journal(VecDeque<Said>);

impl Journal {
    /// Adds a line.
    pub(super) fn say(&mut self, at: Moment, text: String, is_bad: bool) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Said { at, text, is_bad });
    }

    /// The lines, oldest first.
    pub(in crate::ui) fn lines(&self) -> impl DoubleEndedIterator<Item = &Said> {
        self.0.iter()
    }

    /// The newest line.
    pub(in crate::ui) fn last(&self) -> Option<&Said> {
        self.0.back()
    }

    /// Says what is different between two looks: databases that came or went, states, and alarms.
    pub(super) fn compare(&mut self, at: Moment, before: &[Entry], after: &[Entry]) {
        for entry in after {
            let Some(known) = before.iter().find(|known| known.key == entry.key) else {
                self.say(at, format!("{}: is there now", entry.name), false);
                continue;
            };
            if let (Some(old), Some(new)) = (known.phase, entry.phase)
                && old != new
            {
                let is_bad = matches!(new, Phase::Failing | Phase::Halted);
                self.say(at, format!("{}: {} now, {} before", entry.name, new.name(), old.name()), is_bad);
            }
            for alarm in &entry.alarms {
                if !known.alarms.iter().any(|old| old.code == alarm.code) {
                    let text = format!("{}: {}[{}]: {}", entry.name, alarm.severity.name(), alarm.code, alarm.cause);
                    self.say(at, text, true);
                }
            }
            for alarm in &known.alarms {
                if !entry.alarms.iter().any(|new| new.code == alarm.code) {
                    self.say(at, format!("{}: {} is over", entry.name, alarm.code), false);
                }
            }
        }
        for known in before {
            if !after.iter().any(|entry| entry.key == known.key) {
                self.say(at, format!("{}: isn't there any more", known.name), true);
            }
        }
    }
}
