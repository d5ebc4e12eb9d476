//! Learning curves with their stops, and what the stopped ones would have reached (thesis Fig. A.3, A.4).

use std::path::Path;

use super::{Configuration, TrialBook};

/// Pictures of the first run of BO-BOS.
pub(super) fn write(_: &Configuration, _: &TrialBook, _: &Path) -> anyhow::Result<()> {
    Ok(())
}
