//! A graph of neighbours, from a list of edges or from a federation, and its properties as JSON.

use std::path::Path;

use fedbo_config::{FileError, TomlFile};
use fedbo_federated::{Exchange, named};
use fedbo_federation::{ALGORITHMS, Federation, FederationFile, Objectives};
use fedbo_objective::Problems;
use fedbo_topology::{Clique, EdgeList, Graph};
use serde::Serialize;

use crate::file_kind::FileKind;
use fedbo_console::BadInput;

/// Maximum product of the numbers of agents and edges for which the diameter is computed. At this
/// size, the computation takes seconds.
const DIAMETER_WORK_MAX: u64 = 1_000_000_000;

/// A graph with named agents.
pub struct GraphSource {
    /// Name of the graph and its results folder.
    pub name: String,
    /// Description of the kind of graph.
    pub words: String,
    /// Names of the agents, by number.
    pub names: Vec<String>,
    /// The edges.
    pub graph: Graph,
    /// The federation that the graph belongs to, if any.
    pub federation: Option<Federation>,
}

impl GraphSource {
    /// Reads a list of edges (`.csv`) or the graph of a federation.
    ///
    /// # Errors
    /// Fails if the file cannot be read or does not describe a graph.
    pub fn read(file: &Path, problems: &dyn Problems) -> anyhow::Result<Self> {
        let is_list = file.extension().is_some_and(|ending| ending == "csv");
        if is_list { Ok(edge_list(file)?) } else { federation(file, problems) }
    }

    /// Returns the name of an agent.
    #[must_use]
    pub fn agent(&self, agent: u32) -> &str {
        &self.names[agent as usize]
    }

    /// Returns the names of a clique's agents.
    #[must_use]
    pub fn members(&self, clique: &Clique) -> Vec<&str> {
        let members = clique.members().iter();
        members.map(|agent| self.agent(*agent)).collect()
    }
}

fn edge_list(path: &Path) -> Result<GraphSource, BadInput> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| BadInput(format!("cannot read {shown}: {error}")))?;
    let list = EdgeList::parse(&text).map_err(|error| BadInput(format!("{shown}, {error}")))?;
    let graph = list.graph().map_err(|error| BadInput(format!("{shown}: {error}")))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok(GraphSource {
        name: name.into_owned(),
        words: "list of edges".to_owned(),
        names: list.names,
        graph,
        federation: None,
    })
}

fn federation(path: &Path, problems: &dyn Problems) -> anyhow::Result<GraphSource> {
    FileKind::Federation.check(path)?;
    let file = TomlFile::read(path)?;
    let read: Result<FederationFile, FileError> = file.parse();
    let federation = read?.validate(&file, Objectives::Elsewhere, problems, ALGORITHMS)?;
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
    Ok(GraphSource {
        name: federation.name.clone(),
        words: topology.words.clone(),
        names: agents.map(|agent| agent.name.clone()).collect(),
        graph: topology.graph.clone(),
        federation: Some(federation),
    })
}

/// The document printed by `fedbo topology show --json`.
#[derive(Serialize)]
pub struct GraphDocument<'a> {
    /// Name of the graph.
    pub name: &'a str,
    /// Description of the kind of graph.
    pub graph: &'a str,
    /// Number of agents.
    pub agents: u32,
    /// Number of edges.
    pub edges: usize,
    /// Smallest number of neighbours.
    pub degree_min: usize,
    /// Largest number of neighbours.
    pub degree_max: usize,
    /// Number of connected components.
    pub components: usize,
    /// Diameter; null if the graph is not connected or is too large.
    pub diameter: Option<u32>,
    /// Algebraic connectivity; null for a single agent or for too many agents.
    pub algebraic_connectivity: Option<f64>,
    /// The largest clique found by the search.
    pub largest_clique: CliqueRecord<'a>,
    /// Paths of the pictures.
    pub files: Vec<String>,
}

impl<'a> GraphDocument<'a> {
    /// Returns the properties of a graph with its largest clique. `files` are the paths of its
    /// pictures.
    pub fn of(source: &'a GraphSource, clique: &Clique, files: Vec<String>) -> Self {
        let graph = &source.graph;
        let degrees = || graph.agents().map(|agent| graph.degree(agent));
        Self {
            name: &source.name,
            graph: &source.words,
            agents: graph.n_agents(),
            edges: graph.n_edges(),
            degree_min: degrees().min().unwrap_or(0),
            degree_max: degrees().max().unwrap_or(0),
            components: graph.components().len(),
            diameter: is_measured(graph).then(|| graph.diameter()).flatten(),
            algebraic_connectivity: graph.algebraic_connectivity(),
            largest_clique: CliqueRecord::of(clique, source),
            files,
        }
    }
}

/// A clique as JSON.
#[derive(Serialize)]
pub struct CliqueRecord<'a> {
    /// Number of agents.
    pub size: usize,
    /// True if there is no larger clique.
    pub exact: bool,
    /// Upper bound on the size of all cliques.
    pub upper_bound: usize,
    /// Names of the clique's agents.
    pub members: Vec<&'a str>,
}

impl<'a> CliqueRecord<'a> {
    /// Creates the record of a clique in a graph.
    #[must_use]
    pub fn of(clique: &Clique, source: &'a GraphSource) -> Self {
        Self {
            size: clique.size(),
            exact: clique.is_exact(),
            upper_bound: clique.upper_bound(),
            members: source.members(clique),
        }
    }
}

fn is_measured(graph: &Graph) -> bool {
    let work = u64::from(graph.n_agents()).saturating_mul(graph.n_edges() as u64);
    work <= DIAMETER_WORK_MAX
}
