//! `fedbo man`: manual pages for all commands.

use std::path::PathBuf;

use clap_mangen::Man as Page;
use fedbo_report::{ReportError, write_whole};

use fedbo_console as console;
use fedbo_console::Exit;
use fedbo_console::text::counted;

/// Write manual pages for all commands
///
/// There is one page per command, named like those of git: fedbo.1, fedbo-agent.1,
/// fedbo-agent-run.1. Read a page with man DIR/fedbo-agent-run.1, or install all with fedbo man
/// ~/.local/share/man/man1 and then run man fedbo-agent-run.
#[derive(clap::Args)]
pub(crate) struct Man {
    /// Folder to write to; existing pages are replaced
    folder: PathBuf,
    /// Print the paths as JSON
    #[arg(long)]
    json: bool,
}

impl Man {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        std::fs::create_dir_all(&self.folder)
            .map_err(|cause| ReportError::CreateFolder { path: self.folder.clone(), cause })?;
        // Build the whole command tree, so that each page has the global options.
        let mut command = crate::command_line().disable_help_subcommand(true);
        command.build();
        let mut files = Vec::new();
        self.write(&command, &mut files)?;
        if self.json {
            console::result(&serde_json::json!({ "files": files }).to_string())?;
        } else {
            let n_pages = counted(files.len() as u64, "page");
            let folder = self.folder.display();
            console::result(&format!(
                "wrote {n_pages} to {folder}; read the first with: man {folder}/fedbo.1"
            ))?;
        }
        Ok(Exit::Done)
    }

    /// Writes the pages of a command and its subcommands.
    fn write(&self, command: &clap::Command, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
        let page = Page::new(command.clone());
        let path = self.folder.join(page.get_filename());
        let mut text = Vec::new();
        page.render(&mut text)?;
        write_whole(&path, &text)?;
        files.push(path);
        for subcommand in command.get_subcommands().filter(|each| !each.is_hide_set()) {
            self.write(subcommand, files)?;
        }
        Ok(())
    }
}
