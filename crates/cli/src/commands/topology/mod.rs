//! `fedbo topology`: graphs of neighbours and their properties.

mod advise;
mod show;
mod source;

use fedbo_topology::Clique;

use fedbo_console::Exit;

/// Examine graphs of neighbours: their connectivity, and the best edge to add
#[derive(clap::Subcommand)]
pub(crate) enum Topology {
    Show(show::Show),
    Advise(advise::Advise),
}

impl Topology {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        match self {
            Self::Show(command) => command.run(),
            Self::Advise(command) => command.run(),
        }
    }
}

/// Formats the size as `3`, or as `at least 40, at most 78` if the search was cut short.
fn size_in_words(clique: &Clique) -> String {
    match clique.is_exact() {
        true => clique.size().to_string(),
        false => format!("at least {}, at most {}", clique.size(), clique.upper_bound()),
    }
}

/// Joins names with commas. Omits all but the first names of a long list.
fn listed(names: &[&str]) -> String {
    const MAX: usize = 12;
    let mut shown = names[..names.len().min(MAX)].join(", ");
    if names.len() > MAX {
        shown += &format!(" and {} more", names.len() - MAX);
    }
    shown
}
