//! Results are written to standard output, everything else to standard error. Write errors never
//! panic.
//!
//! Colours are used only on terminals unless `CLICOLOR_FORCE` is set; `NO_COLOR` and `CLICOLOR=0`
//! disable them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use anstream::stream::RawStream;
use anstyle::{AnsiColor, Style};
use indicatif::MultiProgress;

use fedbo_error_class::{Class, Classified};

use crate::text::shown_lines;

/// The progress bars on the screen. Notes are written above them.
pub static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Style of a note's error label.
const ERROR: Style = AnsiColor::Red.on_default().bold();
/// Style of a note's warning label.
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// Style of a table header.
const HEAD: Style = Style::new().bold();
/// Style of the best row in a table.
const BEST: Style = AnsiColor::Green.on_default().bold();

/// True if only results, warnings and errors are shown.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses progress and remarks from now on.
pub fn enable_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Returns true if progress and remarks are suppressed.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Returns true if a stream accepts colours.
fn is_coloured(stream: &impl RawStream) -> bool {
    anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never
}

/// Returns true if standard error accepts colours.
pub fn stderr_is_coloured() -> bool {
    is_coloured(&std::io::stderr())
}

fn painted(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

/// Standard output could not be written for a reason other than a closed pipe.
#[derive(Debug)]
pub struct OutputClosed(std::io::Error);

impl std::fmt::Display for OutputClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot write to standard output: {}", self.0)
    }
}

impl std::error::Error for OutputClosed {}

impl Classified for OutputClosed {
    fn class(&self) -> Class {
        Class::Output
    }
}

/// Writes a result to standard output. A closed pipe, as with `| head`, is not an error.
pub fn result(text: &str) -> Result<(), OutputClosed> {
    write(&shown_lines(text)).map(|_| ())
}

/// Writes a table with a line below its header. On a terminal, the row with index `best` is
/// highlighted.
pub fn table(text: &str, best: Option<usize>) -> Result<(), OutputClosed> {
    let text = shown_lines(text);
    match is_coloured(&std::io::stdout()) {
        true => write(&emphasized(&text, best)).map(|_| ()),
        false => write(&text).map(|_| ()),
    }
}

/// Highlights the header and the best row of a table. Other text can precede and follow the table.
fn emphasized(text: &str, best: Option<usize>) -> String {
    let is_rule = |line: &str| !line.trim().is_empty() && line.trim().chars().all(|c| c == '─');
    let lines: Vec<&str> = text.lines().collect();
    let best = best.and_then(|row| {
        let rule = lines.iter().position(|line| is_rule(line))?;
        Some(rule + 1 + row)
    });
    let mut out = String::with_capacity(text.len() + 64);
    for (index, line) in lines.iter().enumerate() {
        let is_head = lines.get(index + 1).is_some_and(|next| is_rule(next));
        let line = match (is_head, Some(index) == best) {
            (true, _) => Cow::Owned(painted(line, HEAD)),
            (_, true) => Cow::Owned(painted(line, BEST)),
            _ => Cow::Borrowed(*line),
        };
        let _ = writeln!(out, "{line}");
    }
    out
}

/// Writes a result intended for programs, verbatim unless standard output is a terminal. Returns
/// false if the reader has closed the pipe.
pub fn data(text: &str) -> Result<bool, OutputClosed> {
    if std::io::stdout().is_terminal() {
        return write(&shown_lines(text));
    }
    write(text)
}

fn write(text: &str) -> Result<bool, OutputClosed> {
    let mut out = std::io::stdout().lock();
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") })
        .and_then(|()| out.flush());
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(OutputClosed(error)),
    }
}

/// Writes a line to standard error, above the progress bars. Write errors are ignored.
///
/// Use this for warnings, errors and essential information, and [`remark`] for everything else.
pub fn note(text: &str) {
    let text = shown_lines(text);
    let text = match stderr_is_coloured() {
        true => Cow::Owned(labelled(&text)),
        false => text,
    };
    BARS.suspend(|| {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    });
}

/// Writes a note that is suppressed by `--quiet`.
pub fn remark(text: &str) {
    if !is_quiet() {
        note(text);
    }
}

/// Colours the label at the start of a note, if present.
fn labelled(text: &str) -> String {
    for (label, style) in [("error:", ERROR), ("internal error", ERROR), ("warning:", WARNING)] {
        if let Some(rest) = text.strip_prefix(label) {
            return painted(label, style) + rest;
        }
    }
    text.to_owned()
}

/// Returns the width in columns of the terminal on standard output; `None` if it is not a terminal.
pub fn width() -> Option<u16> {
    columns(std::io::stdout())
}

/// Returns the width in columns of the terminal on standard error; `None` if it is not a terminal.
pub fn stderr_width() -> Option<u16> {
    columns(std::io::stderr())
}

fn columns(out: impl IsTerminal + std::os::fd::AsFd) -> Option<u16> {
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&out).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

/// Panic messages that were collected instead of printed.
#[derive(Clone, Default)]
pub struct Panics(Arc<Mutex<Option<String>>>);

impl Panics {
    /// Returns the latest message.
    pub fn last(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Prevents panics from being printed to standard error: a panic in an objective is recorded and
/// displayed as a failed trial.
pub fn collect_panics() -> Panics {
    let panics = Panics::default();
    let kept = panics.clone();
    std::panic::set_hook(Box::new(move |info| {
        *kept.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(info.to_string());
    }));
    panics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_and_the_best_row_of_a_table_stand_out() {
        let table = "trial  value\n────────────\n    0  1\n    1  0.5\n\nafter\n";
        let shown = emphasized(table, Some(1));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "\u{1b}[1mtrial  value\u{1b}[0m");
        assert_eq!(lines[2], "    0  1");
        assert_eq!(lines[3], "\u{1b}[1m\u{1b}[32m    1  0.5\u{1b}[0m");
        assert_eq!(lines[5], "after");
        assert_eq!(anstream::adapter::strip_str(&shown).to_string(), table);
    }

    #[test]
    fn the_first_word_of_a_note_has_its_colour() {
        for (text, shown) in [
            ("error: no", "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m no"),
            ("warning: x", "\u{1b}[1m\u{1b}[33mwarning:\u{1b}[0m x"),
            ("an error: no", "an error: no"),
        ] {
            assert_eq!(labelled(text), shown);
        }
    }
}
