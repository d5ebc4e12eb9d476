//! Progress displays: bars on a terminal, lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::ProgressStyle;

use crate::output::is_quiet;

/// Maximum time between progress lines if standard error is not a terminal.
pub const SILENCE: Duration = Duration::from_secs(30);
/// Time between redraws while no trial finishes.
pub const TICK: Duration = Duration::from_millis(250);

/// Form of the progress display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Progress bars.
    Bars,
    /// Occasional lines.
    Lines,
    /// No progress.
    Nothing,
}

impl Mode {
    /// Chooses the mode depending on `--quiet` and standard error.
    #[must_use]
    pub fn choose() -> Self {
        match (is_quiet(), std::io::stderr().is_terminal()) {
            (true, _) => Self::Nothing,
            (false, true) => Self::Bars,
            (false, false) => Self::Lines,
        }
    }
}

/// Returns the style of a progress bar for an `indicatif` template.
#[must_use]
pub fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸ ")
}
