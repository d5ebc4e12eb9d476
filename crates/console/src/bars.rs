//! Progress displays: bars on a terminal, lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::ProgressStyle;

use crate::output::is_quiet;

/// Maximum time between two lines of progress without a terminal.
pub const SILENCE: Duration = Duration::from_secs(30);
/// Time between two redraws while nothing ends.
pub const TICK: Duration = Duration::from_millis(250);

/// Form of progress display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Progress bars.
    Bars,
    /// A line from time to time.
    Lines,
    /// No progress.
    Nothing,
}

impl Mode {
    /// Chooses the mode from `--quiet` and standard error.
    #[must_use]
    pub fn choose() -> Self {
        match (is_quiet(), std::io::stderr().is_terminal()) {
            (true, _) => Self::Nothing,
            (false, true) => Self::Bars,
            (false, false) => Self::Lines,
        }
    }
}

/// Returns the style of a progress bar with an `indicatif` template.
#[must_use]
pub fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸ ")
}
