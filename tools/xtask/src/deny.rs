//! `deny`: licences, advisories, sources and duplicates, by cargo-deny with `deny.toml`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{cargo, root, run, succeeds, target};

/// The version that `--install` takes.
const CARGO_DENY: &str = "cargo-deny@0.20.2";

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
        let tools = target().join("tools");
        let own = tools.join("bin").join("cargo-deny");
        if own.is_file() {
            return Ok(own);
        }
        let installed = PathBuf::from("cargo-deny");
        if succeeds(Command::new(&installed).arg("--version")) {
            return Ok(installed);
        }
        if !self.install {
            bail!(
                "cargo-deny is not installed; `cargo xtask deny --install` puts it into target/tools"
            );
        }
        run(cargo(["install", "--locked", CARGO_DENY, "--root"]).arg(&tools))?;
        Ok(own)
    }
}
