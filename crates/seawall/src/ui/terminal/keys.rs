//! Which key is it that the terminal sent? Pure.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::ui::model::{Input, Key};

/// What an event means; `None` if nothing is bound to it.
pub(super) fn input(event: Event) -> Option<Input> {
    match event {
        Event::Key(event) if event.kind != KeyEventKind::Release => key(event).map(Input::Key),
        Event::Paste(text) => Some(Input::Paste(text)),
        _ => None,
    }
}

fn key(event: KeyEvent) -> Option<Key> {
    if event.modifiers.contains(KeyModifiers::CONTROL) {
        return match event.code {
            KeyCode::Char('c') => Some(Key::Interrupt),
            KeyCode::Char('z') => Some(Key::Suspend),
            KeyCode::Char('l') => Some(Key::Redraw),
            KeyCode::Char('u') => Some(Key::Clear),
            KeyCode::Char('h') => Some(Key::Backspace),
            _ => None,
        };
    }
    Some(match event.code {
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab | KeyCode::BackTab => Key::Tab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keys_mean() {
        let control = KeyModifiers::CONTROL;
        for (code, modifiers, expected) in [
            (KeyCode::Char('q'), KeyModifiers::NONE, Some(Key::Char('q'))),
            (KeyCode::Char('G'), KeyModifiers::SHIFT, Some(Key::Char('G'))),
            (KeyCode::Char('c'), control, Some(Key::Interrupt)),
            (KeyCode::Char('z'), control, Some(Key::Suspend)),
            (KeyCode::Char('x'), control, None),
            (KeyCode::BackTab, KeyModifiers::SHIFT, Some(Key::Tab)),
            (KeyCode::F(1), KeyModifiers::NONE, None),
        ] {
            assert_eq!(key(KeyEvent::new(code, modifiers)), expected, "{code:?}");
        }
        let released = KeyEvent::new_with_kind(KeyCode::Enter, KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(input(Event::Key(released)), None);
        assert_eq!(input(Event::Paste("a\n".into())), Some(Input::Paste("a\n".into())));
        assert_eq!(input(Event::Resize(80, 24)), None);
    }
}
