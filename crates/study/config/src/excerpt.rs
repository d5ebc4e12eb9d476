//! Excerpts of a file: the line of an error, with carets under the error.

use std::ops::Range;
use std::path::Path;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use fedbo_error_class::masked;

/// Maximum width of an excerpt in columns. Longer lines are cut around the carets.
const WIDTH: usize = 110;
/// Number of bytes on either side of the carets that are passed to the renderer for a very long
/// line.
const AROUND: usize = 2_000;

/// Returns the first line of `span` in `text` as plain text, without passwords and terminal control
/// characters:
///
/// ```text
///  --> study.toml:14:8
///    |
/// 14 | high = -1.0
///    |        ^^^^
/// ```
pub(crate) fn excerpt(path: &Path, text: &str, span: &Range<usize>) -> String {
    let at = floor(text, span.start);
    let begin = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let number = 1 + text[..begin].matches('\n').count();
    let column = 1 + text[begin..at].chars().count();
    let line = text[begin..].lines().next().unwrap_or("");
    let within = at - begin..span.end.max(at) - begin;
    let (line, marked) = without_passwords(line, &within);
    let line: String = line.chars().map(inert).collect();
    let (line, marked) = cut(&line, &marked);
    let snippet = Snippet::source(line)
        .line_start(number)
        .fold(false)
        .annotation(AnnotationKind::Primary.span(marked));
    let renderer = Renderer::plain().term_width(WIDTH);
    let body = renderer.render(&[Group::with_level(Level::ERROR).element(snippet)]);
    let place = path.display().to_string();
    let place: String = place.chars().filter(|c| !c.is_control()).collect();
    let indent = " ".repeat(number.to_string().len());
    let lines: Vec<&str> = body.lines().map(str::trim_end).collect();
    format!("{indent}--> {place}:{number}:{column}\n{}", lines.join("\n"))
}

/// Replaces a character that the renderer would pass on and a terminal would interpret. The
/// replacement has the same length in bytes.
fn inert(c: char) -> char {
    match c {
        '\u{80}'..='\u{9f}' | '\u{61c}' => '\u{b7}',
        '\u{200e}' | '\u{200f}' => '\u{fffd}',
        c => c,
    }
}

/// Returns the line without passwords, and the marked range in the new line.
fn without_passwords(line: &str, marked: &Range<usize>) -> (String, Range<usize>) {
    let shown = masked(line);
    let pairs = line.char_indices().zip(shown.chars());
    let same = pairs.take_while(|((_, a), b)| a == b).last();
    let same = same.map_or(0, |((at, c), _)| at + c.len_utf8());
    let moved = |at: usize| match at <= same {
        true => at.min(shown.len()),
        // The range follows the password, so its position is counted from the end.
        false => {
            let behind = line.len().saturating_sub(at);
            floor(&shown, shown.len().saturating_sub(behind).max(same))
        }
    };
    let marked = moved(marked.start)..moved(marked.end);
    (shown, marked)
}

/// Cuts a very long line around the marked range.
fn cut<'a>(line: &'a str, marked: &Range<usize>) -> (&'a str, Range<usize>) {
    let start = floor(line, marked.start);
    let end = floor(line, marked.end).clamp(start, floor(line, start + AROUND));
    let (from, to) = (floor(line, start.saturating_sub(AROUND)), floor(line, end + AROUND));
    (&line[from..to], start - from..end - from)
}

/// Returns the last character boundary at or before `at`, or the end of the text.
fn floor(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, part: &str) -> String {
        let start = text.find(part).unwrap();
        excerpt(Path::new("a.toml"), text, &(start..start + part.len()))
    }

    #[test]
    fn the_line_is_shown_with_carets_under_the_part() {
        assert_eq!(
            of("[study]\nseed = -3 # mine\nname = \"a\"\n", "-3"),
            " --> a.toml:2:8\n  |\n2 | seed = -3 # mine\n  |        ^^"
        );
        // The end of the file, and a value that spans several lines.
        assert_eq!(
            excerpt(Path::new("a.toml"), "a =", &(3..3)),
            " --> a.toml:1:4\n  |\n1 | a =\n  |    ^"
        );
        assert_eq!(
            of("x = [\n  1,\n  2,\n]\n", "[\n  1,\n  2,\n]"),
            " --> a.toml:1:5\n  |\n1 | x = [\n  |     ^"
        );
    }

    #[test]
    fn carets_stand_under_their_part_behind_tabs_and_wide_characters() {
        assert_eq!(of("\tx =\t5", "5"), " --> a.toml:1:6\n  |\n1 |     x =    5\n  |            ^");
        assert_eq!(of("漢字 = 5", "5"), " --> a.toml:1:6\n  |\n1 | 漢字 = 5\n  |        ^");
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_sent_to_it() {
        let shown = of("x = \"\u{1b}[31m\u{7}\u{202e}\u{9b}\u{61c}\u{200f}\" y", "y");
        let lines: Vec<&str> = shown.lines().collect();
        let columns = |line: &str, sign: char| line.chars().position(|c| c == sign);
        assert_eq!(columns(lines[3], '^'), columns(lines[2], 'y'), "{shown}");
        let marks = ['\u{202e}', '\u{61c}', '\u{200f}'];
        let obeyed = |c: char| (c.is_control() && c != '\n') || marks.contains(&c);
        assert!(!shown.contains(obeyed), "{shown:?}");
        let path = excerpt(Path::new("a\u{1b}[2J.toml"), "x", &(0..1));
        assert!(!path.contains('\u{1b}'), "{path:?}");
    }

    #[test]
    fn a_long_line_is_cut_around_the_part() {
        for n in [60, 3_000, 100_000] {
            let many = "\"filler\", ".repeat(n);
            let shown = of(&format!("x = [{many}'wrong', {many}]"), "'wrong'");
            let lines: Vec<&str> = shown.lines().collect();
            assert!(lines.iter().all(|line| line.chars().count() <= 130), "{shown}");
            let at = lines[2].find("'wrong'").unwrap();
            assert_eq!(lines[3].find("^^^^^^^"), Some(at), "{shown}");
        }
    }

    #[test]
    fn a_password_is_not_shown_and_the_carets_stay_at_their_part() {
        let line = "storage = \"postgresql://me:hunter2@host/db\" # old";
        let shown = of(line, "# old");
        assert!(!shown.contains("hunter2"), "{shown}");
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[3].find('^'), lines[2].find("# old"), "{shown}");
        let shown = of(line, "\"postgresql://me:hunter2@host/db\"");
        assert!(shown.contains("me:***@host") && !shown.contains("hunter2"), "{shown}");
        let query = of("s = \"postgresql://h/db?password=hunter2\"", "s");
        assert!(!query.contains("hunter2"), "{query}");
    }
}
