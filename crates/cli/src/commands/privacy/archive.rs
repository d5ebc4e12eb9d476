//! `fedbo privacy archive`: writes a federation's releases for later studies.

use std::path::{Path, PathBuf};

use fedbo_federation::Federation;
use fedbo_report::write_whole;
use serde::Serialize;

use super::Place;
use crate::alignment::{self, AlignmentRecord};
use fedbo_console as console;
use fedbo_console::text::{counted, number};
use fedbo_console::{BadInput, Exit};
use fedbo_documents::file_kind::FileKind;

/// Write the releases of a private federation to a file for later studies
///
/// Uses only releases that are already charged, so publishing and using the archive costs no
/// further privacy. A study with the same space can use the archive: set file in the table archive
/// of its study.toml. The federation may still be running; later releases are not included.
#[derive(clap::Args)]
pub(crate) struct Archive {
    /// The federation.toml of the run, or the public configuration of a coordinator's study
    #[arg(value_name = "FEDERATION")]
    federation: PathBuf,
    #[command(flatten)]
    place: Place,
    /// File to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    archive: &'a Path,
    federation: &'a str,
    releases: u64,
    signal_share: f64,
    alignment: AlignmentRecord,
    privacy: &'a str,
    head: &'a str,
}

impl Archive {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        if !self.overwrite && self.out.exists() {
            let message = format!(
                "{} exists; name another file with --out, or replace it with --overwrite",
                self.out.display()
            );
            return Err(BadInput(message).into());
        }
        FileKind::Federation.check(&self.federation)?;
        let source = self.place.find()?;
        let (statement, releases) = source.releases()?;
        let federation = Federation::of_ledger(
            &self.federation,
            statement.config_hash,
            super::super::problems(),
        )?;
        let (archive, alignment) = federation
            .archive(&statement, &releases)
            .map_err(|error| BadInput(format!("{}: {error}", self.federation.display())))?;
        write_whole(&self.out, archive.to_text().as_bytes())?;
        if self.json {
            console::result(&serde_json::to_string_pretty(&Document {
                archive: &self.out,
                federation: &archive.federation,
                releases: archive.n_releases,
                signal_share: archive.function.signal_share,
                alignment: (&alignment).into(),
                privacy: &archive.privacy,
                head: &archive.ledger_head,
            })?)?;
            return Ok(Exit::Done);
        }
        console::result(&format!(
            "{}: {} of {:?}; {} % of their content is signal, the rest noise\n{}\n{}",
            self.out.display(),
            counted(archive.n_releases, "release"),
            archive.federation,
            number(100.0 * archive.function.signal_share),
            alignment::sentence(&alignment),
            archive.privacy
        ))?;
        Ok(Exit::Done)
    }
}
