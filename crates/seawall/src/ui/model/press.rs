//! What does a key do on each screen?

use super::order::Decision;
use super::{Effect, Entry, Field, History, Key, Kind, Model, Order, Screen, Step, Verb, Wish};

/// How many rows a page has for the keys. Screens have other heights, and each key moves by a known number of rows.
const PAGE: usize = 10;

impl Model {
    /// Does what a key asks for.
    pub(super) fn press(&mut self, key: Key) -> Vec<Effect> {
        match key {
            Key::Suspend => return vec![Effect::Suspend],
            Key::Redraw => return vec![Effect::Redraw],
            Key::Interrupt => return self.quit(),
            _ => {}
        }
        if self.is_filtering {
            self.press_filter(key);
            return Vec::new();
        }
        if self.screen() == Screen::Order && self.order.is_some() {
            return self.press_order(key);
        }
        match key {
            Key::Char('q') if self.screen() == Screen::Fleet => return self.quit(),
            Key::Char('q') | Key::Escape | Key::Backspace => self.back(),
            Key::Char('?') => self.open(Screen::Help),
            Key::Char('l') => self.open(Screen::Log),
            Key::Char('w') if self.order.is_some() => self.open(Screen::Order),
            key => {
                self.is_leaving = false;
                return match self.screen() {
                    Screen::Fleet => self.press_fleet(key),
                    Screen::Database => self.press_database(key),
                    Screen::Timeline => self.press_timeline(key),
                    Screen::Log | Screen::Help | Screen::Order => {
                        self.move_page(key);
                        Vec::new()
                    }
                };
            }
        }
        Vec::new()
    }

    /// A character that was pasted goes to the line that is typed, and nowhere else.
    pub(super) fn paste(&mut self, c: char) -> bool {
        if self.is_filtering {
            self.press_filter(Key::Char(c));
            return true;
        }
        let Some(order) = self.order.as_mut().filter(|_| self.screens.last() == Some(&Screen::Order)) else {
            return false;
        };
        // A confirmation is typed by a person, key by key.
        matches!(order.step, Step::Form { .. }) && order.press(Key::Char(c)) == Decision::Stay
    }

    fn quit(&mut self) -> Vec<Effect> {
        let is_busy = self.order.as_ref().is_some_and(Order::is_running);
        if is_busy && !self.is_leaving {
            self.is_leaving = true;
            return Vec::new();
        }
        vec![Effect::Quit]
    }

    fn open(&mut self, screen: Screen) {
        if self.screen() != screen {
            self.screens.retain(|open| *open != screen);
            self.screens.push(screen);
            self.scroll = (0, 0);
        }
    }

    fn back(&mut self) {
        if self.screens.len() > 1 {
            self.screens.pop();
            self.scroll = (0, 0);
        } else if !self.filter.text().is_empty() {
            self.filter = Field::default();
        }
        self.is_leaving = false;
        self.choose_again();
    }

    fn press_filter(&mut self, key: Key) {
        match key {
            Key::Enter => self.is_filtering = false,
            Key::Escape => (self.is_filtering, self.filter) = (false, Field::default()),
            key => {
                self.filter.press(key);
            }
        }
        self.choose_again();
    }

    fn press_fleet(&mut self, key: Key) -> Vec<Effect> {
        match key {
            Key::Char('/') => {
                self.is_filtering = true;
                Vec::new()
            }
            Key::Enter if self.entry().is_some() => {
                self.open(Screen::Database);
                Vec::new()
            }
            Key::Char('u') if self.kind == Kind::Vault && !self.is_refreshing => {
                self.is_refreshing = true;
                vec![Effect::Refresh]
            }
            key => match moved(key, self.index(), self.shown().len()) {
                Some(index) => {
                    self.chosen = self.shown().get(index).map(|entry| entry.key.clone());
                    Vec::new()
                }
                None => self.press_entry(key),
            },
        }
    }

    fn press_database(&mut self, key: Key) -> Vec<Effect> {
        if self.move_page(key) { Vec::new() } else { self.press_entry(key) }
    }

    /// What can be done with the chosen database.
    fn press_entry(&mut self, key: Key) -> Vec<Effect> {
        let Some(entry) = self.entry().cloned() else { return Vec::new() };
        let is_of_process = self.kind == Kind::Process;
        match key {
            Key::Char('t') => self.look(entry),
            Key::Char('r') => self.ask(Verb::Restore, entry, "latest"),
            Key::Char('b') if is_of_process => self.ask(Verb::Ship, entry, ""),
            Key::Char('p') if is_of_process => self.ask(Verb::Prove, entry, "latest"),
            _ => Vec::new(),
        }
    }

    fn press_timeline(&mut self, key: Key) -> Vec<Effect> {
        let Some(history) = &mut self.history else { return Vec::new() };
        let count = history.stretches().len();
        if let Some(index) = moved(key, Some(history.chosen), count) {
            history.chosen = index;
            return Vec::new();
        }
        let (key_of, at) = (history.key.clone(), history.at());
        let Some(entry) = self.databases.iter().find(|entry| entry.key == key_of).cloned() else { return Vec::new() };
        match key {
            Key::Enter | Key::Char('r') => match at {
                Some(at) => self.ask(Verb::Restore, entry, &at),
                None => Vec::new(),
            },
            Key::Char('u') => self.look(entry),
            _ => Vec::new(),
        }
    }

    fn press_order(&mut self, key: Key) -> Vec<Effect> {
        let Some(order) = &mut self.order else { return Vec::new() };
        let decision = order.press(key);
        let (id, is_running) = (order.id, order.is_running());
        match decision {
            Decision::Stay => Vec::new(),
            Decision::Leave => {
                let was_planning = order.step == Step::Planning;
                if !is_running {
                    self.order = None;
                }
                self.back();
                if was_planning { vec![Effect::GiveUp(id)] } else { Vec::new() }
            }
            Decision::Plan => {
                let (wish, new) = (order.wish.clone(), self.next());
                self.plan(new, wish)
            }
            Decision::Carry(words) => {
                let (wish, name) = (order.wish.clone(), order.name.clone());
                let Some(entry) = self.databases.iter().find(|entry| entry.key == wish.key).cloned() else {
                    return Vec::new();
                };
                let id = self.next();
                let command = seawall_agent::restoring::in_shell(&words);
                self.journal.say(self.now, format!("asked for: {} of {name}: {command}", wish.verb.name()), false);
                if let Some(order) = &mut self.order {
                    (order.id, order.step) = (id, Step::Running { command, underway: None });
                }
                vec![Effect::Carry(id, wish.verb, words, entry)]
            }
            Decision::GiveUp => {
                let about = format!("{} of {}: given up", order.wish.verb.name(), order.name);
                order.step = Step::Ended(Ok(vec!["given up: nothing half-written counts".to_owned()]));
                self.journal.say(self.now, about, true);
                self.is_leaving = false;
                vec![Effect::GiveUp(id)]
            }
        }
    }

    /// Asks the vault for the timeline of a database.
    fn look(&mut self, entry: Entry) -> Vec<Effect> {
        let id = self.next();
        let before = self.history.take().filter(|history| history.answer.is_none()).map(|history| history.id);
        self.history = Some(History::new(id, entry.key.clone(), entry.name.clone(), self.now));
        self.open(Screen::Timeline);
        before.map(Effect::GiveUp).into_iter().chain([Effect::Timeline(id, entry)]).collect()
    }

    /// Opens a dialog, or the one whose work is under way.
    fn ask(&mut self, verb: Verb, entry: Entry, at: &str) -> Vec<Effect> {
        if self.order.as_ref().is_some_and(Order::is_running) {
            self.open(Screen::Order);
            return Vec::new();
        }
        let id = self.next();
        let wish = Wish { verb, key: entry.key, at: at.to_owned(), into: String::new() };
        self.order = Some(Order::new(id, wish.clone(), &entry.name));
        self.open(Screen::Order);
        if verb == Verb::Restore { Vec::new() } else { self.plan(id, wish) }
    }

    fn plan(&mut self, id: u64, wish: Wish) -> Vec<Effect> {
        let Some(entry) = self.databases.iter().find(|entry| entry.key == wish.key).cloned() else { return Vec::new() };
        if let Some(order) = &mut self.order {
            order.id = id;
        }
        vec![Effect::Plan(id, wish, entry)]
    }

    /// Scrolls. Returns whether the key was one that does.
    fn move_page(&mut self, key: Key) -> bool {
        let (at, most) = self.scroll;
        match moved(key, Some(at), most + 1) {
            Some(at) => {
                self.scroll.0 = at;
                true
            }
            None => false,
        }
    }
}

/// Where a key goes from row `at` of `count` rows; `None` if it isn't one that moves, or if there is no row.
fn moved(key: Key, at: Option<usize>, count: usize) -> Option<usize> {
    let last = count.checked_sub(1)?;
    let at = at.unwrap_or(0);
    Some(match key {
        Key::Up | Key::Char('k') => at.saturating_sub(1),
        Key::Down | Key::Char('j') => at.saturating_add(1).min(last),
        Key::PageUp => at.saturating_sub(PAGE),
        Key::PageDown => at.saturating_add(PAGE).min(last),
        Key::Home | Key::Char('g') => 0,
        Key::End | Key::Char('G') => last,
        _ => return None,
    })
}
