//! Text in a CSV cell: always on one line, and never a formula to a spreadsheet.
//!
//! Quoting does not remove line breaks and formulas, which spreadsheets and programs that split
//! lines at commas misinterpret. [`restored`] inverts [`escaped`] for every string.

use std::borrow::Cow;

/// Prefix that marks the rest of a cell as text.
const TEXT_MARK: char = '\'';

/// Escapes a string for a cell. Line breaks become `\n` and `\r`, and a possible formula gets the
/// prefix `'`. A backslash is doubled only if the cell would otherwise be restored to a different
/// string. Numbers and most other strings stay unchanged.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    let text = match text.contains(['\n', '\r']) || has_escape(text) {
        true => Cow::Owned(text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")),
        false => Cow::Borrowed(text),
    };
    match is_formula(text.trim_start_matches(TEXT_MARK)) {
        true => Cow::Owned(format!("{TEXT_MARK}{text}")),
        false => text,
    }
}

/// Restores the string that [`escaped`] turned into a cell.
#[must_use]
pub fn restored(cell: &str) -> Cow<'_, str> {
    let cell = match cell.strip_prefix(TEXT_MARK) {
        Some(rest) if is_formula(rest.trim_start_matches(TEXT_MARK)) => rest,
        _ => cell,
    };
    if !has_escape(cell) {
        return Cow::Borrowed(cell);
    }
    let mut text = String::with_capacity(cell.len());
    let mut rest = cell.chars();
    while let Some(c) = rest.next() {
        let ahead = rest.clone().next();
        let plain = match (c, ahead) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('r')) => '\r',
            ('\\', Some('\\')) => '\\',
            _ => {
                text.push(c);
                continue;
            }
        };
        text.push(plain);
        rest.next();
    }
    Cow::Owned(text)
}

/// Returns true if a cell contains an escape sequence.
fn has_escape(text: &str) -> bool {
    ["\\n", "\\r", "\\\\"].iter().any(|each| text.contains(each))
}

/// Returns true if a spreadsheet could interpret a cell as an active formula: the cell begins with
/// `=`, `@` or a tab, or it begins with a sign and calls a function or a different program. `-1.5`
/// and `-O2` are harmless.
fn is_formula(text: &str) -> bool {
    match text.chars().next() {
        Some('=' | '@' | '\t') => true,
        Some('+' | '-') => text.contains(['(', '|']),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_line_and_no_formula() {
        for (text, cell) in [
            ("", ""),
            ("-1.5e-3", "-1.5e-3"),
            ("+1", "+1"),
            ("-O2", "-O2"),
            ("C:\\temp", "C:\\temp"),
            ("C:\\new", "C:\\\\new"),
            ("one\ntwo\r\n", "one\\ntwo\\r\\n"),
            ("a \\ b\n", "a \\\\ b\\n"),
            ("=1+1", "'=1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("-2+cmd|' /C calc'!A0", "'-2+cmd|' /C calc'!A0"),
            ("+HYPERLINK(\"http://x\")", "'+HYPERLINK(\"http://x\")"),
            ("'=1", "''=1"),
            ("'quoted'", "'quoted'"),
            ("\tx", "'\tx"),
            ("=a\nb", "'=a\\nb"),
        ] {
            assert_eq!(escaped(text), cell);
            assert_eq!(restored(cell), text);
        }
    }

    /// Tests every short string of special characters.
    #[test]
    fn every_text_reads_back_to_itself() {
        const LETTERS: [char; 10] = ['\\', 'n', 'r', '\n', '\r', '\'', '=', '-', '(', 'a'];
        let mut texts = vec![String::new()];
        for _ in 0..5 {
            let longer = texts.iter().flat_map(|text| {
                LETTERS.map(|letter| {
                    let mut longer = text.clone();
                    longer.push(letter);
                    longer
                })
            });
            texts = longer.collect();
            for text in &texts {
                let cell = escaped(text);
                assert!(!cell.contains(['\n', '\r']), "{text:?}");
                assert!(!is_formula(&cell), "{text:?}");
                assert_eq!(restored(&cell), text.as_str());
            }
        }
        assert_eq!(texts.len(), 100_000);
    }
}
