//! Source of a graph: a list of edges, or a federation of neighbours.

use std::path::{Path, PathBuf};

use fedbo_config::{FileError, TomlFile};
use fedbo_federated::{Exchange, named};
use fedbo_federation::{ALGORITHMS, Federation, FederationFile, Objectives};
use fedbo_topology::{Clique, EdgeList, Graph};

use crate::file_kind::FileKind;
use fedbo_console::BadInput;

/// The graph that a command operates on.
#[derive(clap::Args)]
pub(super) struct Place {
    /// List of edges (FILE.csv: the header from,to, then two names per line), or a federation.toml
    /// with agents that share with neighbours
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// A graph with named agents.
pub(crate) struct Source {
    /// Name of the graph and of its results folder.
    pub(crate) name: String,
    /// Description of the kind of graph.
    pub(crate) words: String,
    pub(crate) names: Vec<String>,
    pub(crate) graph: Graph,
    /// The federation of the graph, if any.
    pub(crate) federation: Option<Federation>,
}

impl Place {
    pub(super) fn read(&self) -> anyhow::Result<Source> {
        let is_list = self.file.extension().is_some_and(|ending| ending == "csv");
        if is_list { Ok(edge_list(&self.file)?) } else { federation(&self.file) }
    }
}

impl Source {
    pub(crate) fn agent(&self, agent: u32) -> &str {
        &self.names[agent as usize]
    }

    pub(super) fn members(&self, clique: &Clique) -> Vec<&str> {
        let members = clique.members().iter();
        members.map(|agent| self.agent(*agent)).collect()
    }
}

fn edge_list(path: &Path) -> Result<Source, BadInput> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| BadInput(format!("cannot read {shown}: {error}")))?;
    let list = EdgeList::parse(&text).map_err(|error| BadInput(format!("{shown}, {error}")))?;
    let graph = list.graph().map_err(|error| BadInput(format!("{shown}: {error}")))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok(Source {
        name: name.into_owned(),
        words: "list of edges".to_owned(),
        names: list.names,
        graph,
        federation: None,
    })
}

fn federation(path: &Path) -> anyhow::Result<Source> {
    FileKind::Federation.check(path)?;
    let file = TomlFile::read(path)?;
    let read: Result<FederationFile, FileError> = file.parse();
    let federation =
        read?.validate(&file, Objectives::Elsewhere, crate::commands::problems(), ALGORITHMS)?;
    let Some(topology) = federation.topology() else {
        return Err(BadInput(format!(
            "{}: agents of this federation have no neighbours; set federation.algorithm = {}, or name a list of \
             edges, FILE.csv",
            path.display(),
            named(&[Exchange::Neighbours])
        ))
        .into());
    };
    let agents = federation.agents.iter();
    Ok(Source {
        name: federation.name.clone(),
        words: topology.words.clone(),
        names: agents.map(|agent| agent.name.clone()).collect(),
        graph: topology.graph.clone(),
        federation: Some(federation),
    })
}
