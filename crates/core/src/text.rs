//! Which characters of a text does a reader see where they are?

/// Whether a character is shown in its place and does nothing else. Control characters move the cursor of a terminal;
/// format characters (Unicode's category Cf) and the separators of lines and paragraphs are invisible, or change the order of the
/// letters around them, so that two texts look alike or one looks like another.
pub fn is_visible(c: char) -> bool {
    if c.is_control() {
        return false;
    }
    !matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0001}' | '\u{e0020}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_where_it_is() {
        for c in ['a', ' ', '\u{e4}', '\u{3c9}', '\u{1f600}', '\u{2026}', '\u{a0}'] {
            assert!(is_visible(c), "{c:?}");
        }
        for c in [
            '\n',
            '\u{1b}',
            '\u{7f}',
            '\u{9b}',
            '\u{ad}',
            '\u{200b}',
            '\u{202e}',
            '\u{2029}',
            '\u{2066}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            assert!(!is_visible(c), "{c:?}");
        }
    }
}
