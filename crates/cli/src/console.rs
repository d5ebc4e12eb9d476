//! Standard output for results, standard error for all else; neither can make the program panic.

use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use indicatif::MultiProgress;

use crate::text::shown_lines;

/// The progress bars that are on the screen; notes are written between them.
pub(crate) static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

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
        .and_then(|()| {
            if text.ends_with('\n') {
                Ok(())
            } else {
                out.write_all(b"\n")
            }
        })
        .and_then(|()| out.flush());
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(OutputClosed(error)),
    }
}

/// Writes a line to standard error, above the progress bars; if that is closed, nobody wants to know.
pub(crate) fn note(text: &str) {
    let text = shown_lines(text);
    BARS.suspend(|| {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    });
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
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
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
