//! `[topology]`: the graph of neighbours.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fedbo_config::{Check, FileError, nearest};
use fedbo_protocol::Neighbourhood;
use fedbo_streams::Seed;
use fedbo_topology::{Edge, EdgeList, Graph, GraphError, GraphSpec};
use serde::Deserialize;

use crate::topology_changes::{Change, ChangeTable};

/// `[topology]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TopologyTable {
    /// `complete` (default), `star` (with the first agent in the centre), `ring`, `edgeless`,
    /// `grid`, `erdos-renyi`, `small-world` or `edges`.
    pub graph: Option<String>,
    /// Number of agents per row, for `grid`. By default, the grid is as square as possible.
    pub columns: Option<u32>,
    /// p, the probability of an edge, above 0 and at most 1, for `erdos-renyi`; required.
    pub edge_prob: Option<f64>,
    /// Number of neighbours of each agent before rewiring, for `small-world`: even and below the
    /// number of agents; required.
    pub degree: Option<u32>,
    /// Probability that an edge is rewired, from 0 to 1, for `small-world`; required.
    pub rewiring: Option<f64>,
    /// Pairs of agent names, for `edges`.
    pub edges: Option<Vec<Vec<String>>>,
    /// An alternative to `edges`: a file with the header `from,to` and one edge per line. The path
    /// is relative to this file's folder.
    pub file: Option<PathBuf>,
    /// Seed for `erdos-renyi` and `small-world`; defaults to the federation's seed.
    pub seed: Option<u64>,
    /// `[[topology.changes]]`: edges that are added or removed, ordered by round.
    pub changes: Vec<ChangeTable>,
}

/// The graph of the agents, which are numbered in the file's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The graph until the first change.
    pub graph: Graph,
    /// A human-readable description of the graph.
    pub words: String,
    /// The later graphs, each with its first round.
    pub changes: Vec<Change>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Complete,
    Star,
    Ring,
    Edgeless,
    Grid,
    ErdosRenyi,
    SmallWorld,
    Edges,
}

const KINDS: [(&str, Kind); 8] = [
    ("complete", Kind::Complete),
    ("star", Kind::Star),
    ("ring", Kind::Ring),
    ("edgeless", Kind::Edgeless),
    ("grid", Kind::Grid),
    ("erdos-renyi", Kind::ErdosRenyi),
    ("small-world", Kind::SmallWorld),
    ("edges", Kind::Edges),
];

impl Topology {
    /// Checks `[topology]` and builds the graph of the agents with these names, which must be
    /// unique. `seed` is the federation's seed.
    ///
    /// # Errors
    /// If a value is not valid, a key has no effect for this kind of graph, or the edge file cannot
    /// be read.
    pub fn of(
        table: &TopologyTable,
        check: Check<'_>,
        names: &[&str],
        seed: u64,
    ) -> Result<Self, FileError> {
        let kind = check.word(&at("graph"), table.graph.as_deref(), &KINDS)?;
        let kind = kind.unwrap_or(Kind::Complete);
        idle_keys(table, check, kind)?;
        let spec = match kind {
            Kind::Complete => GraphSpec::Complete,
            Kind::Star => GraphSpec::Star,
            Kind::Ring => GraphSpec::Ring,
            Kind::Edgeless => GraphSpec::Edgeless,
            Kind::Grid => GraphSpec::Grid { columns: table.columns },
            Kind::ErdosRenyi => GraphSpec::ErdosRenyi {
                edge_prob: needed(
                    table.edge_prob,
                    check,
                    "edge_prob",
                    "the probability of an edge",
                )?,
            },
            Kind::SmallWorld => GraphSpec::SmallWorld {
                degree: needed(table.degree, check, "degree", "an even number of neighbours")?,
                rewiring: needed(
                    table.rewiring,
                    check,
                    "rewiring",
                    "the probability that an edge is moved",
                )?,
            },
            Kind::Edges => GraphSpec::Edges(edges(table, check, names)?),
        };
        let words = match (&table.file, spec.is_random()) {
            (Some(file), _) => format!("edges of {}", file.display()),
            (None, true) => format!("{spec}, seed {}", table.seed.unwrap_or(seed)),
            (None, false) => spec.to_string(),
        };
        let mut stream =
            Seed::new(table.seed.unwrap_or(seed)).stream(fedbo_topology::TOPOLOGY, 0, 0);
        let graph = u32::try_from(names.len())
            .map_err(|_| GraphError::Agents { n_agents: names.len() as u64 })
            .and_then(|n_agents| spec.build(n_agents, &mut stream))
            .map_err(|error| refused(&error, check))?;
        let changes = Change::all_of(&table.changes, check, names, &graph)?;
        Ok(Self { graph, words, changes })
    }

    /// Returns an agent's neighbours in every round, as agent numbers.
    ///
    /// # Panics
    /// If the agent does not exist.
    pub fn neighbourhood(&self, agent: u32) -> Neighbourhood {
        let of = |graph: &Graph| graph.neighbours(agent).to_vec();
        let first = Neighbourhood::fixed(of(&self.graph));
        self.changes.iter().fold(first, |neighbourhood, change| {
            neighbourhood.from_round(change.round, of(&change.graph))
        })
    }
}

fn at(key: &str) -> [&str; 2] {
    ["topology", key]
}

/// Refuses keys that apply only to other kinds of graphs.
fn idle_keys(table: &TopologyTable, check: Check<'_>, kind: Kind) -> Result<(), FileError> {
    let random = [Kind::ErdosRenyi, Kind::SmallWorld].contains(&kind);
    let keys = [
        ("columns", table.columns.is_some(), kind == Kind::Grid, "\"grid\""),
        ("edge_prob", table.edge_prob.is_some(), kind == Kind::ErdosRenyi, "\"erdos-renyi\""),
        ("degree", table.degree.is_some(), kind == Kind::SmallWorld, "\"small-world\""),
        ("rewiring", table.rewiring.is_some(), kind == Kind::SmallWorld, "\"small-world\""),
        ("edges", table.edges.is_some(), kind == Kind::Edges, "\"edges\""),
        ("file", table.file.is_some(), kind == Kind::Edges, "\"edges\""),
        ("seed", table.seed.is_some(), random, "\"erdos-renyi\" or \"small-world\""),
    ];
    match keys.iter().find(|(_, is_given, is_read, _)| *is_given && !is_read) {
        None => Ok(()),
        Some((key, _, _, readers)) => {
            let message = format!(
                "topology.{key} has no effect unless topology.graph is {readers}; remove it, or change the graph"
            );
            Err(check.file.error(&at(key), message))
        }
    }
}

fn needed<T>(given: Option<T>, check: Check<'_>, key: &str, what: &str) -> Result<T, FileError> {
    given.ok_or_else(|| {
        let remedy = format!("add {key} = .., {what}");
        check.file.missing_error(&at(key), remedy)
    })
}

/// Attributes a graph error to the key that caused it.
fn refused(error: &GraphError, check: Check<'_>) -> FileError {
    let key = match error {
        GraphError::Columns { .. } => "columns",
        GraphError::EdgeProb { .. } => "edge_prob",
        GraphError::Degree { .. } => "degree",
        GraphError::Rewiring { .. } => "rewiring",
        GraphError::TooSparse { .. } => {
            return check.file.error(&at("edge_prob"), error.to_string());
        }
        _ => return check.file.error(&at("graph"), error.to_string()),
    };
    check.file.error(&at(key), format!("topology.{error}"))
}

fn edges(table: &TopologyTable, check: Check<'_>, names: &[&str]) -> Result<Vec<Edge>, FileError> {
    match (&table.edges, &table.file) {
        (Some(pairs), None) => listed_edges(pairs, check, &at("edges"), names),
        (None, Some(file)) => edges_of_file(file, check, names),
        (Some(_), Some(_)) => {
            let message =
                "topology.edges and topology.file both define the edges; remove one of them";
            Err(check.file.error(&at("file"), message))
        }
        (None, None) => {
            let remedy =
                "add edges = [[\"name\", \"name\"], ..], or file = \"..\" with lines of two names";
            Err(check.file.missing_error(&at("edges"), remedy))
        }
    }
}

fn edges_of_file(file: &Path, check: Check<'_>, names: &[&str]) -> Result<Vec<Edge>, FileError> {
    let path = check.file.folder().join(file);
    let text = std::fs::read_to_string(&path).map_err(|error| {
        let message = format!("topology.file: cannot read {}: {error}", path.display());
        check.file.error(&at("file"), message)
    })?;
    let list = EdgeList::parse_among(&text, names).map_err(|error| {
        let message = format!("topology.file: {}, {error}", path.display());
        check.file.error(&at("file"), message)
    })?;
    Ok(list.edges)
}

/// Parses edges that are given as pairs of names at `path` in the file.
pub(crate) fn listed_edges(
    pairs: &[Vec<String>],
    check: Check<'_>,
    path: &[&str],
    names: &[&str],
) -> Result<Vec<Edge>, FileError> {
    let numbers: BTreeMap<&str, u32> = names.iter().copied().zip(0..).collect();
    let mut first_at: BTreeMap<Edge, usize> = BTreeMap::new();
    let mut edges = Vec::with_capacity(pairs.len());
    for (index, pair) in pairs.iter().enumerate() {
        let place = index.to_string();
        let at_pair = [path, &[place.as_str()]].concat();
        let [from, to] = pair.as_slice() else {
            let expected = "two names of agents, as in [\"a\", \"b\"]";
            return Err(check.file.value_error(&at_pair, expected));
        };
        let number = |name: &str, side: &str| {
            numbers.get(name).copied().ok_or_else(|| {
                let mut expected = "the name of an agent".to_owned();
                if let Some(near) = nearest(name, names.iter().copied()) {
                    expected += &format!(" (did you mean {near:?}?)");
                }
                let at_name = [&at_pair[..], &[side]].concat();
                check.file.value_error(&at_name, expected)
            })
        };
        let (a, b) = (number(from, "0")?, number(to, "1")?);
        if a == b {
            let expected = "two different agents; an agent always has its own observations";
            return Err(check.file.value_error(&at_pair, expected));
        }
        if let Some(first) = first_at.insert((a.min(b), a.max(b)), index) {
            let list = path.join(".");
            let message = format!(
                "{list}[{index}] joins {from:?} and {to:?}, as {list}[{first}] does; remove one of the two"
            );
            return Err(check.file.error(&at_pair, message));
        }
        edges.push((a, b));
    }
    Ok(edges)
}

#[cfg(test)]
mod tests {
    use fedbo_config::TomlFile;

    use super::*;

    const NAMES: [&str; 5] = ["lab 0", "lab 1", "lab 2", "lab 3", "lab 4"];

    #[derive(Deserialize)]
    struct Example {
        topology: Option<TopologyTable>,
    }

    fn topology_in(folder: &Path, text: &str, seed: u64) -> Result<Topology, FileError> {
        let file = TomlFile::from_text(&folder.join("federation.toml"), text);
        let table = file.parse::<Example>()?.topology.unwrap_or_default();
        Topology::of(&table, Check::new(&file), &NAMES, seed)
    }

    fn topology(text: &str) -> Result<Topology, FileError> {
        topology_in(Path::new("/nowhere"), text, 0)
    }

    #[test]
    fn every_graph_can_be_named() {
        for (text, n_edges, words) in [
            ("", 10, "complete"),
            ("[topology]", 10, "complete"),
            ("[topology]\ngraph = \"star\"", 4, "star"),
            ("[topology]\ngraph = \"ring\"", 5, "ring"),
            ("[topology]\ngraph = \"edgeless\"", 0, "edgeless"),
            ("[topology]\ngraph = \"grid\"", 5, "grid"),
            ("[topology]\ngraph = \"grid\"\ncolumns = 5", 4, "grid of 5 columns"),
            (
                "[topology]\ngraph = \"erdos-renyi\"\nedge_prob = 1.0",
                10,
                "Erdős–Rényi with edge probability 1, seed 0",
            ),
            (
                "[topology]\ngraph = \"small-world\"\ndegree = 4\nrewiring = 0.5\nseed = 3",
                10,
                "small world of degree 4 with rewiring 0.5, seed 3",
            ),
            (
                "[topology]\ngraph = \"edges\"\nedges = [[\"lab 4\", \"lab 0\"], [\"lab 1\", \"lab 2\"]]",
                2,
                "list of edges",
            ),
        ] {
            let found = topology(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((found.graph.n_edges(), found.words.as_str()), (n_edges, words));
        }
        let listed = topology("[topology]\ngraph = \"edges\"\nedges = [[\"lab 4\", \"lab 0\"]]");
        assert!(listed.is_ok_and(|topology| topology.graph.has_edge(0, 4)));
    }

    #[test]
    fn random_graphs_follow_their_seed() {
        let text = "[topology]\ngraph = \"erdos-renyi\"\nedge_prob = 0.5";
        let of = |seed| topology_in(Path::new("/nowhere"), text, seed).unwrap().graph;
        assert_eq!(of(1), of(1));
        assert!((2..20).any(|seed| of(seed) != of(1)));
        let own = format!("{text}\nseed = 1");
        assert_eq!(topology_in(Path::new("/nowhere"), &own, 9).unwrap().graph, of(1));
    }

    #[test]
    fn edges_may_stand_in_a_file_beside() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[topology]\ngraph = \"edges\"\nfile = \"lines.csv\"";
        let refused = |text: &str| topology_in(folder.path(), text, 0).unwrap_err().to_string();
        assert!(refused(text).contains("cannot read"), "{}", refused(text));
        let write = |lines: &str| std::fs::write(folder.path().join("lines.csv"), lines).unwrap();
        write("from,to\nlab 3,lab 1\n");
        let found = topology_in(folder.path(), text, 0).unwrap();
        assert_eq!(found.graph.edges().collect::<Vec<_>>(), [(1, 3)]);
        assert_eq!(found.words, "edges of lines.csv");
        write("from,to\nlab 3,lab 7\n");
        let message = refused(text);
        for part in ["federation.toml, line 3: ", "lines.csv, line 2: ", "\"lab 7\""] {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn what_cannot_be_is_named_with_a_way_out() {
        for (text, words) in [
            ("graph = \"sta\"", "line 2: topology.graph = \"sta\", expected"),
            (
                "graph = \"star\"\ncolumns = 2",
                "line 3: topology.columns has no effect unless topology.graph is \"grid\"",
            ),
            ("seed = 2", "line 2: topology.seed has no effect"),
            ("edges = []", "line 2: topology.edges has no effect"),
            (
                "graph = \"erdos-renyi\"",
                "line 1: topology.edge_prob is missing; add edge_prob = ..",
            ),
            ("graph = \"small-world\"\ndegree = 2", "topology.rewiring is missing"),
            (
                "graph = \"small-world\"\ndegree = 3\nrewiring = 0",
                "line 3: topology.degree = 3, expected an even number",
            ),
            ("graph = \"grid\"\ncolumns = 9", "line 3: topology.columns = 9, expected 1 to 5"),
            ("graph = \"edges\"", "topology.edges is missing"),
            (
                "graph = \"edges\"\nedges = []\nfile = \"x\"",
                "line 4: topology.edges and topology.file",
            ),
            (
                "graph = \"edges\"\nedges = [[\"lab 0\"]]",
                "line 3: topology.edges[0] = [\"lab 0\"], expected two names",
            ),
            (
                "graph = \"edges\"\nedges = [\n[\"lab 0\", \"lab 1\"],\n[\"lab 0\", \"lab1\"]]",
                "line 5: topology.edges[1][1] = \"lab1\", expected the name of an agent (did you mean \"lab 1\"?)",
            ),
            (
                "graph = \"edges\"\nedges = [[\"lab 0\", \"lab 0\"]]",
                "expected two different agents",
            ),
            (
                "graph = \"edges\"\nedges = [[\"lab 0\", \"lab 1\"],\n[\"lab 1\", \"lab 0\"]]",
                "line 4: topology.edges[1] joins \"lab 1\" and \"lab 0\", as topology.edges[0] does",
            ),
            ("nodes = 3", "unknown key topology.nodes"),
        ] {
            let error = topology(&format!("[topology]\n{text}")).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
