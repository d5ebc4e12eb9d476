//! `fedbo completions`: shell completion scripts.

use clap_complete::Shell;

use fedbo_console as console;
use fedbo_console::Exit;

/// Print a completion script for a shell
///
/// For instance: fedbo completions bash > ~/.local/share/bash-completion/completions/fedbo.
/// docs/command-line.md lists the location for each shell.
#[derive(clap::Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let mut script = Vec::new();
        let mut command = crate::command_line();
        clap_complete::generate(self.shell, &mut command, "fedbo", &mut script);
        console::data(&String::from_utf8(script)?)?;
        Ok(Exit::Done)
    }
}
