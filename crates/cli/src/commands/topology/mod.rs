//! `fedbo topology`: who may talk to whom, and what that is worth.

mod advise;
pub(crate) mod picture;
mod show;
mod source;

use fedbo_topology::Clique;
use serde::Serialize;

pub(crate) use self::show::Document as GraphDocument;
pub(crate) use self::source::Source;
use crate::exit::Exit;

/// Graphs of neighbours: how well they connect agents, and which edge would help
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

/// A clique in JSON.
#[derive(Serialize)]
struct CliqueRecord<'a> {
    size: usize,
    /// True if no larger one exists.
    exact: bool,
    /// No clique is larger than this.
    upper_bound: usize,
    members: Vec<&'a str>,
}

impl<'a> CliqueRecord<'a> {
    fn of(clique: &Clique, source: &'a Source) -> Self {
        Self {
            size: clique.size(),
            exact: clique.is_exact(),
            upper_bound: clique.upper_bound(),
            members: source.members(clique),
        }
    }
}

/// `3`, or `at least 40, at most 78` where the search was cut short.
fn size_in_words(clique: &Clique) -> String {
    match clique.is_exact() {
        true => clique.size().to_string(),
        false => format!("at least {}, at most {}", clique.size(), clique.upper_bound()),
    }
}

/// Names with commas between; of many, the first few.
fn listed(names: &[&str]) -> String {
    const MAX: usize = 12;
    let mut shown = names[..names.len().min(MAX)].join(", ");
    if names.len() > MAX {
        shown += &format!(" and {} more", names.len() - MAX);
    }
    shown
}
