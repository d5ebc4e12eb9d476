//! `fedbo completions`: what a shell needs to complete commands and options.

use clap_complete::Shell;

use crate::console;
use crate::exit::Exit;

/// Print what a shell needs to complete fedbo's commands and options
///
/// For instance: fedbo completions bash > ~/.local/share/bash-completion/completions/fedbo. docs/command-line.md has the place for
/// each shell.
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
