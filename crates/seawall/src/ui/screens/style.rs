//! How texts look: colours where they are wanted, and never a character that a terminal obeys.

use std::borrow::Cow;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use seawall_core::is_visible;

use crate::output::shown;
use crate::ui::model::Standing;

/// Which styles a terminal gets. Without colours, bold, dim and reversed text says the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ui) struct Theme {
    /// Whether there are colours.
    pub(in crate::ui) colours: bool,
}

impl Theme {
    fn coloured(self, colour: Color, otherwise: Modifier) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new().add_modifier(otherwise) }
    }

    /// What is wrong.
    pub(super) fn bad(self) -> Style {
        self.coloured(Color::Red, Modifier::BOLD).add_modifier(Modifier::BOLD)
    }

    /// What will be wrong.
    pub(super) fn warning(self) -> Style {
        self.coloured(Color::Yellow, Modifier::BOLD)
    }

    /// What is well.
    pub(super) fn good(self) -> Style {
        self.coloured(Color::Green, Modifier::empty())
    }

    /// Headings and labels.
    pub(super) fn label(self) -> Style {
        self.coloured(Color::Cyan, Modifier::DIM)
    }

    /// The bars at the top and at the bottom.
    pub(super) fn bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The row that is chosen.
    pub(super) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The style of a standing, and the mark that says it without a style.
    pub(super) fn standing(self, standing: Standing) -> (Style, &'static str) {
        match standing {
            Standing::Critical => (self.bad(), "!"),
            Standing::Warning => (self.warning(), "~"),
            Standing::Fine => (self.good(), " "),
        }
    }
}

/// A text of others in one line: what a terminal would obey, or show elsewhere, is escaped.
pub(super) fn safe(text: &str) -> String {
    let text = shown(text);
    if text.contains(['\n', '\t']) { text.replace('\n', "\\n").replace('\t', "\\t") } else { text.into_owned() }
}

/// Whether every character of a cell is seen in its place.
pub(super) fn is_safe(symbol: &str) -> bool {
    symbol.chars().all(is_visible)
}

/// A text cut to a width; the cut is marked.
pub(super) fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if Span::raw(text).width() <= width {
        return Cow::Borrowed(text);
    }
    let mut end = String::new();
    for c in text.chars() {
        if Span::raw(format!("{end}{c}")).width() + 1 > width {
            break;
        }
        end.push(c);
    }
    if width > 0 {
        end.push('~')
    }
    Cow::Owned(end)
}

/// A text in lines of a width. Words that are longer are broken.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let (width, text) = (width.max(8), safe(text));
    let wide = |text: &str| Span::raw(text).width();
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && wide(&line) + 1 + wide(word) <= width {
            line.push(' ');
            line.push_str(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        for c in word.chars() {
            if wide(&line) + wide(c.encode_utf8(&mut [0; 4])) > width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines
}

/// How wide labels are.
const LABEL: usize = 15;

/// A label and its value, in as many lines as the value needs.
pub(super) fn labelled(label: &str, value: &str, style: Style, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let label = safe(label);
    let lines = wrapped(value, width.saturating_sub(LABEL + 1));
    let line = |(index, value): (usize, String)| {
        let label = if index == 0 { cut(&label, LABEL).into_owned() } else { String::new() };
        Line::from(vec![Span::styled(format!("{label:LABEL$} "), theme.label()), Span::styled(value, style)])
    };
    lines.into_iter().enumerate().map(line).collect()
}

/// A text in lines, after an indent.
pub(super) fn paragraph(text: &str, indent: usize, style: Style, width: usize) -> Vec<Line<'static>> {
    let lines = wrapped(text, width.saturating_sub(indent));
    lines.into_iter().map(|line| Line::styled(format!("{:indent$}{line}", ""), style)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_are_escaped() {
        assert_eq!(safe("a\u{1b}[2J\n\tb\u{202e}"), "a\\u{1b}[2J\\n\\tb\\u{202e}");
        assert!(is_safe("\u{e4}") && !is_safe("\u{7}") && !is_safe("\u{200b}"));
    }

    #[test]
    fn lines_of_a_width() {
        for (text, width, expected) in [
            ("", 10, vec![""]),
            ("one two three", 10, vec!["one two", "three"]),
            ("abcdefghijklmnop qr", 8, vec!["abcdefgh", "ijklmnop", "qr"]),
            ("\u{65e5}\u{672c}\u{8a9e}\u{65e5}\u{672c}", 8, vec!["\u{65e5}\u{672c}\u{8a9e}\u{65e5}", "\u{672c}"]),
        ] {
            assert_eq!(wrapped(text, width), expected, "{text}");
        }
        for (text, width, expected) in
            [("abc", 3, "abc"), ("abcd", 3, "ab~"), ("\u{65e5}\u{672c}", 3, "\u{65e5}~"), ("abc", 0, "")]
        {
            assert_eq!(cut(text, width), expected);
        }
    }
}
