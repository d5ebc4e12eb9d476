//! `deny`: licences, advisories, sources and duplicates, by cargo-deny with `deny.toml`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{installed, root, run, succeeds, target};

/// The version that `--install` takes.
const CARGO_DENY: &str = "0.20.2";

/// The arguments of `cargo xtask deny`.
#[derive(clap::Args)]
pub(crate) struct Deny {
    /// Install cargo-deny into target/tools first, if it is not there
    #[arg(long)]
    install: bool,
    /// Leave out advisories, whose database comes from the network
    #[arg(long)]
    offline: bool,
}

impl Deny {
    pub(crate) fn run(&self) -> Result<()> {
        let tool = self.tool()?;
        let mut deny = Command::new(tool);
        deny.current_dir(root()).arg("--workspace");
        if self.offline {
            deny.args(["--offline", "check", "--hide-inclusion-graph"]);
            deny.args(["licenses", "bans", "sources"]);
        } else {
            deny.args(["check", "--hide-inclusion-graph"]);
        }
        run(&mut deny)
    }

    fn tool(&self) -> Result<PathBuf> {
        let own = target().join("tools/bin/cargo-deny");
        if own.is_file() {
            return Ok(own);
        }
        let global = PathBuf::from("cargo-deny");
        if succeeds(Command::new(&global).arg("--version")) {
            return Ok(global);
        }
        if !self.install {
            bail!(
                "cargo-deny is not installed; `cargo xtask deny --install` puts it into target/tools"
            );
        }
        installed("cargo-deny", CARGO_DENY)
    }
}
