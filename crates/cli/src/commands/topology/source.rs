//! The argument that names a graph.

use std::path::PathBuf;

use fedbo_documents::GraphSource;

use crate::commands::problems;

/// The graph that a command operates on.
#[derive(clap::Args)]
pub(super) struct Place {
    /// List of edges (FILE.csv with the header from,to and two names per line), or a
    /// federation.toml whose agents share with neighbours
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Place {
    pub(super) fn read(&self) -> anyhow::Result<GraphSource> {
        GraphSource::read(&self.file, problems())
    }
}
