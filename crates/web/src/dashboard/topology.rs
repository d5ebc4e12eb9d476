//! The graph of a run's neighbours: its statistics, its edges by round, and its picture, as in
//! `fedbo topology show`.

use std::collections::BTreeMap;
use std::path::Path as FilePath;

use anyhow::Context as _;
use axum::response::Response;
use fedbo_config::{Check, TomlFile};
use fedbo_federated::Exchange;
use fedbo_federation::{ALGORITHMS, Topology, TopologyTable};
use fedbo_topology::{Edge, Graph};
use serde::{Deserialize as _, Serialize};

use super::folder::settings;
use super::request::{Asked, Problem, as_file, json};
use crate::answers::typed;
use crate::answers::{PNG, SVG};
use fedbo_console::BadInput;
use fedbo_documents::trial_record::SCHEMA_VERSION;
use fedbo_documents::{GraphDocument, GraphSource, graph_picture};

/// Maximum number of edges sent. The statistics cover all edges.
const EDGES: usize = 2000;

/// The JSON document of a graph.
#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    /// The document of `fedbo topology show --json` for the initial graph.
    graph: GraphDocument<'a>,
    /// The initial points that agents report: `all`, `best` or `none`.
    share_initial: String,
    /// The agents in file order, with their number of neighbours.
    agents: Vec<(&'a str, usize)>,
    edges: Vec<EdgeRecord<'a>>,
    n_edges: usize,
    /// The reason why there is no picture.
    too_large: Option<String>,
}

/// An edge, and the rounds in which it exists.
#[derive(Serialize)]
struct EdgeRecord<'a> {
    between: [&'a str; 2],
    /// First round with the edge; null if it exists from the start.
    from: Option<u64>,
    /// First round without the edge after it existed; null if it is never removed.
    until: Option<u64>,
}

/// The graph at the start of a run.
struct RunGraph {
    source: GraphSource,
    topology: Topology,
    share_initial: String,
}

/// Returns true if the agents of a run share with neighbours.
pub(super) fn has_neighbours(folder: &FilePath) -> bool {
    settings(folder).is_some_and(|tables| is_of_neighbours(&tables))
}

fn is_of_neighbours(tables: &serde_json::Value) -> bool {
    let name = tables["federation"]["algorithm"].as_str();
    let algorithm = ALGORITHMS.iter().find(|algorithm| Some(algorithm.name) == name);
    algorithm.is_some_and(|algorithm| algorithm.exchange == Exchange::Neighbours)
}

impl RunGraph {
    /// Reconstructs the graph from the settings recorded in the folder.
    fn of(folder: &FilePath) -> anyhow::Result<Self> {
        let none = || Problem::absent("agents of this run have no neighbours");
        let tables = settings(folder).filter(is_of_neighbours).with_context(none)?;
        let table = match tables.get("topology") {
            Some(table) => TopologyTable::deserialize(table).context("settings.json, topology")?,
            None => TopologyTable::default(),
        };
        if let Some(file) = &table.file {
            let file = file.display();
            let message = format!(
                "the edges of this run were read from {file}, which is not in its folder: fedbo topology show FEDERATION shows them"
            );
            return Err(Problem::absent(message).into());
        }
        let agents = tables["agents"].as_array().into_iter().flatten();
        let names: Vec<String> =
            agents.map(|agent| agent["name"].as_str().unwrap_or_default().to_owned()).collect();
        let shown: Vec<&str> = names.iter().map(String::as_str).collect();
        let head = &tables["federation"];
        let file = TomlFile::from_text(&folder.join("settings.json"), "");
        let seed = head["seed"].as_u64().unwrap_or(0);
        let topology = Topology::of(&table, Check::new(&file), &shown, seed)
            .map_err(|error| BadInput(error.to_string()))?;
        let share_initial = tables["distributed-ts"]["share_initial"].as_str().unwrap_or("all");
        Ok(Self {
            share_initial: share_initial.to_owned(),
            source: GraphSource {
                name: head["name"].as_str().unwrap_or("graph").to_owned(),
                words: topology.words.clone(),
                names,
                graph: topology.graph.clone(),
                federation: None,
            },
            topology,
        })
    }

    fn document(&self) -> Document<'_> {
        let graph = &self.source.graph;
        let spans = self.spans();
        let agents = graph.agents().map(|agent| (self.source.agent(agent), graph.degree(agent)));
        Document {
            schema_version: SCHEMA_VERSION,
            graph: GraphDocument::of(&self.source, &graph.max_clique(), Vec::new()),
            share_initial: self.share_initial.clone(),
            agents: agents.collect(),
            n_edges: spans.len(),
            edges: spans
                .into_iter()
                .take(EDGES)
                .map(|((a, b), from, until)| EdgeRecord {
                    between: [self.source.agent(a), self.source.agent(b)],
                    from,
                    until,
                })
                .collect(),
            too_large: graph_picture::too_large(graph),
        }
    }

    /// Returns each edge with its first round and the first round after its removal, sorted by
    /// agents.
    fn spans(&self) -> Vec<(Edge, Option<u64>, Option<u64>)> {
        let first = |graph: &Graph, from| graph.edges().map(|edge| (edge, from)).collect();
        let mut open: BTreeMap<Edge, Option<u64>> = first(&self.topology.graph, None);
        let mut spans = Vec::new();
        for change in &self.topology.changes {
            let next: BTreeMap<Edge, Option<u64>> = first(&change.graph, Some(change.round));
            let ended: Vec<Edge> =
                open.keys().filter(|edge| !next.contains_key(*edge)).copied().collect();
            for edge in ended {
                let from = open.remove(&edge).flatten();
                spans.push((edge, from, Some(change.round)));
            }
            for (edge, from) in next {
                open.entry(edge).or_insert(from);
            }
        }
        spans.extend(open.into_iter().map(|(edge, from)| (edge, from, None)));
        spans.sort_unstable();
        spans
    }
}

/// `GET /api/runs/{id}/topology`.
pub(super) fn graph(asked: &Asked) -> anyhow::Result<Response> {
    json(&RunGraph::of(&asked.shared.catalog.run(asked.id())?)?.document())
}

/// `GET /api/runs/{id}/topology/graph.svg` and `.png`: the picture of `fedbo topology show`.
pub(super) fn drawn(asked: &Asked) -> anyhow::Result<Response> {
    let name = asked.file();
    let kind = match name {
        "graph.svg" => SVG,
        "graph.png" => PNG,
        _ => return Err(Problem::absent("there is no such picture").into()),
    };
    let graph = RunGraph::of(&asked.shared.catalog.run(asked.id())?)?.source;
    if let Some(why) = graph_picture::too_large(&graph.graph) {
        return Err(Problem::absent(why).into());
    }
    let picture = graph_picture::of(&graph, &graph.graph.max_clique()).picture()?;
    let bytes = if kind == SVG { picture.svg()?.into_bytes() } else { picture.png()? };
    Ok(as_file(typed(kind, bytes), name))
}
