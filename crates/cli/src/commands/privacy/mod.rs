//! `fedbo privacy`: what privacy costs, before a study and after it.

mod epsilon;
mod noise;
mod plan;
mod setting;
mod statement;
mod verify;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fedbo_experiments::federation::{HEAD_FILE, LEDGER_FILE};
use fedbo_ledger::Head;

use crate::exit::{BadInput, Exit};

/// What privacy costs: planned, and spent by a study
#[derive(clap::Subcommand)]
pub(crate) enum Privacy {
    Epsilon(epsilon::Epsilon),
    Noise(noise::Noise),
    Plan(plan::Plan),
    Statement(statement::Statement),
    Verify(verify::Verify),
}

impl Privacy {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        match self {
            Self::Epsilon(command) => command.run(),
            Self::Noise(command) => command.run(),
            Self::Plan(command) => command.run(),
            Self::Statement(command) => command.run(),
            Self::Verify(command) => command.run(),
        }
    }
}

/// The ledger's file: itself, or in a results folder.
fn ledger_file(path: &Path) -> PathBuf {
    match path.is_dir() {
        true => path.join(LEDGER_FILE),
        false => path.to_owned(),
    }
}

/// Where a ledger ended when its last release left, if a run wrote that down beside it.
fn noted_head(ledger: &Path) -> anyhow::Result<Option<Head>> {
    if ledger.file_name() != Some(LEDGER_FILE.as_ref()) {
        return Ok(None);
    }
    let path = ledger.with_file_name(HEAD_FILE);
    let unusable = |message: String| BadInput(format!("{}: {message}", path.display()));
    match std::fs::read_to_string(&path) {
        Ok(text) => match text.parse() {
            Ok(head) => Ok(Some(head)),
            Err(error) => Err(unusable(format!("{error}; put the file back as it was")).into()),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(format!("cannot read: {error}")).into()),
    }
}
