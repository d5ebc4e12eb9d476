//! Escapes strings for the server, which can store every character except U+0000.

use std::borrow::Cow;

/// The start of an escape sequence. This is "substitute", a control character that is rare in
/// practice.
const ESCAPE: char = '\u{1a}';

/// Escapes U+0000 in a string. [`load`] reverses this. Most strings stay unchanged.
pub(super) fn store(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut stored = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\0' => stored.extend([ESCAPE, '0']),
            ESCAPE => stored.extend([ESCAPE, '1']),
            other => stored.push(other),
        }
    }
    Cow::Owned(stored)
}

/// Reverses [`store`]. Returns `None` if the string contains an invalid escape sequence.
pub(super) fn load(stored: String) -> Option<String> {
    if !stored.contains(ESCAPE) {
        return Some(stored);
    }
    let mut text = String::with_capacity(stored.len());
    let mut characters = stored.chars();
    while let Some(character) = characters.next() {
        text.push(match character {
            ESCAPE => match characters.next()? {
                '0' => '\0',
                '1' => ESCAPE,
                _ => return None,
            },
            other => other,
        });
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back() {
        for text in ["", "a", "a\0b", "\0\0", "\u{1a}0", "\u{1a}\0\u{1a}", "Größe 🜛\n"] {
            let stored = store(text);
            assert!(!stored.contains('\0'));
            assert_eq!(load(stored.into_owned()).as_deref(), Some(text));
        }
        assert_eq!(load("\u{1a}".to_owned()), None);
        assert_eq!(load("\u{1a}2".to_owned()), None);
    }
}
