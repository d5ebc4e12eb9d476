//! `deny`: checks licences, advisories, sources and duplicates with cargo-deny and `deny.toml`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{installed, root, run, succeeds, target};

/// Version installed by `--install`.
const CARGO_DENY: &str = "0.20.2";

/// The arguments of `cargo xtask deny`.
#[derive(clap::Args)]
pub(crate) struct Deny {
    /// Install cargo-deny into target/tools first if it is missing
    #[arg(long)]
    install: bool,
    /// Skip advisories, which need a database from the network
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

#[cfg(test)]
mod tests {
    use std::fs;

    use toml::Value;

    use super::root;

    fn table(path: &str) -> toml::Table {
        fs::read_to_string(root().join(path)).expect(path).parse().expect(path)
    }

    /// No advisory is ignored by kind or depth. Each accepted advisory is listed with its crate and
    /// a reason.
    #[test]
    fn accepted_advisories_are_listed_with_a_crate_that_is_used() {
        let deny = table("deny.toml");
        let advisories = &deny["advisories"];
        assert_eq!(advisories["unmaintained"].as_str(), Some("all"));
        let lock = table("Cargo.lock");
        let packages = lock["package"].as_array().expect("packages");
        for ignored in advisories["ignore"].as_array().expect("a list") {
            let id = ignored["id"].as_str().expect("an id");
            let reason = ignored.get("reason").and_then(Value::as_str).unwrap_or_default();
            let (name, reason) = reason.split_once(": ").unwrap_or_default();
            assert!(id.starts_with("RUSTSEC-") && reason.len() > 20, "{id} needs a reason");
            let is_used = packages.iter().any(|package| package["name"].as_str() == Some(name));
            assert!(is_used, "{id}: nothing uses {name:?} any more");
        }
    }
}
