//! Standard output for results, standard error for all else; neither can make the program panic.
//!
//! Colours are for terminals alone, unless `CLICOLOR_FORCE` asks for them elsewhere; `NO_COLOR` and `CLICOLOR=0` turn them off.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use anstream::stream::RawStream;
use anstyle::{AnsiColor, Style};
use indicatif::MultiProgress;

use crate::text::shown_lines;

/// The progress bars that are on the screen; notes are written between them.
pub(crate) static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Errors at the beginning of a note.
const ERROR: Style = AnsiColor::Red.on_default().bold();
/// Warnings at the beginning of a note.
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// The head of a table.
const HEAD: Style = Style::new().bold();
/// The best row of a table.
const BEST: Style = AnsiColor::Green.on_default().bold();

/// Only results, warnings and errors are shown.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Leaves out progress and remarks from now on.
pub(crate) fn enable_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Returns true if progress and remarks are left out.
pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Returns true if colours are welcome on a stream.
fn is_coloured(stream: &impl RawStream) -> bool {
    anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never
}

/// Returns true if colours are welcome on standard error.
pub(crate) fn stderr_is_coloured() -> bool {
    is_coloured(&std::io::stderr())
}

fn painted(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

/// Standard output could not be written, other than because its reader has gone.
#[derive(Debug)]
pub(crate) struct OutputClosed(std::io::Error);

impl std::fmt::Display for OutputClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot write to standard output: {}", self.0)
    }
}

impl std::error::Error for OutputClosed {}

/// Writes a result to standard output. A reader that has gone, as behind `| head`, is no error.
pub(crate) fn result(text: &str) -> Result<(), OutputClosed> {
    write(&shown_lines(text)).map(|_| ())
}

/// The same for a table with a line beneath its head, whose best row (from 0) stands out on a terminal.
pub(crate) fn table(text: &str, best: Option<usize>) -> Result<(), OutputClosed> {
    let text = shown_lines(text);
    match is_coloured(&std::io::stdout()) {
        true => write(&emphasized(&text, best)).map(|_| ()),
        false => write(&text).map(|_| ()),
    }
}

/// A table with its head in bold and its best row in colour. Other texts may stand before and after it.
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

/// The same for a result that programs read back: as it is, except on a terminal. Whether it still has a reader.
pub(crate) fn data(text: &str) -> Result<bool, OutputClosed> {
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

/// Writes a line to standard error, above the progress bars; if that is closed, nobody wants to know. For warnings, errors and what
/// a user must know; the rest is a [`remark`].
pub(crate) fn note(text: &str) {
    let text = shown_lines(text);
    let text = match stderr_is_coloured() {
        true => Cow::Owned(labelled(&text)),
        false => text,
    };
    BARS.suspend(|| {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    });
}

/// A note that `--quiet` leaves out.
pub(crate) fn remark(text: &str) {
    if !is_quiet() {
        note(text);
    }
}

/// A note whose first word, if it says how grave it is, has its colour.
fn labelled(text: &str) -> String {
    for (label, style) in [("error:", ERROR), ("internal error", ERROR), ("warning:", WARNING)] {
        if let Some(rest) = text.strip_prefix(label) {
            return painted(label, style) + rest;
        }
    }
    text.to_owned()
}

/// Columns of the terminal behind standard output; none if it is not one.
pub(crate) fn width() -> Option<u16> {
    columns(std::io::stdout())
}

/// The same behind standard error.
pub(crate) fn stderr_width() -> Option<u16> {
    columns(std::io::stderr())
}

fn columns(out: impl IsTerminal + std::os::fd::AsFd) -> Option<u16> {
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&out).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

/// Messages of panics, collected in silence.
#[derive(Clone, Default)]
pub(crate) struct Panics(Arc<Mutex<Option<String>>>);

impl Panics {
    /// The last one.
    pub(crate) fn last(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Keeps panics from writing to standard error: one in an objective is recorded as a failed trial and shown as such.
pub(crate) fn collect_panics() -> Panics {
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
