//! `[[topology.changes]]`: changes to the graph over time.

use std::collections::BTreeSet;

use fedbo_config::{Check, FileError};
use fedbo_topology::{Edge, Graph};
use serde::Deserialize;

use crate::topology::listed_edges;

/// A `[[topology.changes]]` table.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChangeTable {
    /// First round of the change. At least 1, and higher than in the preceding table.
    pub round: Option<u64>,
    /// Edges to add, as pairs of names. A new neighbour receives all earlier observations.
    pub add: Vec<Vec<String>>,
    /// Edges to remove, as pairs of names. Observations that were already shared are kept.
    pub remove: Vec<Vec<String>>,
}

/// A graph that applies from a given round on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The first round of the graph.
    pub round: u64,
    /// The graph from that round on.
    pub graph: Graph,
}

impl Change {
    /// Builds the graphs that follow `first`, ordered by round.
    pub(crate) fn all_of(
        tables: &[ChangeTable],
        check: Check<'_>,
        names: &[&str],
        first: &Graph,
    ) -> Result<Vec<Self>, FileError> {
        let mut changes: Vec<Self> = Vec::with_capacity(tables.len());
        for (index, table) in tables.iter().enumerate() {
            let index = index.to_string();
            let at = |key| ["topology", "changes", index.as_str(), key];
            let Some(round) = table.round else {
                let remedy = "add round = .., the first round of this change";
                return Err(check.file.missing_error(&at("round"), remedy));
            };
            let least = changes.last().map_or(1, |before| before.round + 1);
            if round < least {
                let expected = format!("a round from {least} on: changes are listed in order");
                return Err(check.file.value_error(&at("round"), expected));
            }
            if table.add.is_empty() && table.remove.is_empty() {
                let remedy = "list the edges to add in add = [[\"name\", \"name\"]], or those to remove in remove = [..]";
                return Err(check.file.missing_error(&at("add"), remedy));
            }
            let before = changes.last().map_or(first, |change| &change.graph);
            let mut edges: BTreeSet<Edge> = before.edges().collect();
            let key = |(a, b): Edge| (a.min(b), a.max(b));
            let listed = |pairs, what| listed_edges(pairs, check, &at(what), names);
            for (place, edge) in listed(&table.remove, "remove")?.into_iter().enumerate() {
                if !edges.remove(&key(edge)) {
                    let place = place.to_string();
                    let path = [&at("remove")[..], &[place.as_str()]].concat();
                    let expected = "an edge that exists until then";
                    return Err(check.file.value_error(&path, expected));
                }
            }
            for (place, edge) in listed(&table.add, "add")?.into_iter().enumerate() {
                if !edges.insert(key(edge)) {
                    let place = place.to_string();
                    let path = [&at("add")[..], &[place.as_str()]].concat();
                    let expected = "an edge that does not exist before";
                    return Err(check.file.value_error(&path, expected));
                }
            }
            let edges: Vec<Edge> = edges.into_iter().collect();
            let graph = Graph::from_edges(first.n_agents(), &edges).map_err(|error| {
                check.file.error(&["topology", "changes", &index], error.to_string())
            })?;
            changes.push(Self { round, graph });
        }
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fedbo_config::TomlFile;

    use super::*;
    use crate::topology::{Topology, TopologyTable};

    #[derive(Deserialize)]
    struct Example {
        topology: TopologyTable,
    }

    fn topology(changes: &str) -> Result<Topology, FileError> {
        let text = format!("[topology]\ngraph = \"star\"\n{changes}");
        let file = TomlFile::from_text(Path::new("f.toml"), &text);
        let table = file.parse::<Example>()?.topology;
        Topology::of(&table, Check::new(&file), &["a", "b", "c"], 0)
    }

    #[test]
    fn edges_come_and_go() {
        let text = "[[topology.changes]]\nround = 3\nadd = [[\"b\", \"c\"]]\nremove = [[\"c\", \"a\"]]\n\
                    [[topology.changes]]\nround = 5\nremove = [[\"a\", \"b\"], [\"b\", \"c\"]]\n";
        let topology = topology(text).unwrap();
        let at = |agent, round| -> Vec<u32> {
            let neighbourhood = topology.neighbourhood(agent);
            neighbourhood.at(round).iter().copied().collect()
        };
        assert_eq!((at(0, 2), at(1, 2), at(2, 2)), (vec![1, 2], vec![0], vec![0]));
        assert_eq!((at(0, 3), at(1, 4), at(2, 4)), (vec![1], vec![0, 2], vec![1]));
        assert!(at(0, 5).is_empty() && at(1, 9).is_empty() && at(2, 9).is_empty());
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place() {
        let refused = |changes: &str, expected: &str| {
            let error = topology(changes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        let table = "[[topology.changes]]\n";
        refused(&format!("{table}add = [[\"b\", \"c\"]]"), "topology.changes[0].round is missing");
        refused(&format!("{table}round = 2"), "topology.changes[0].add is missing");
        let first = format!("{table}round = 2\nadd = [[\"b\", \"c\"]]\n");
        let again = format!("{first}{table}round = 2\nremove = [[\"b\", \"c\"]]");
        refused(&again, "topology.changes[1].round = 2, expected a round from 3 on");
        refused(
            &format!("{table}round = 2\nadd = [[\"a\", \"c\"]]"),
            "expected an edge that does not exist before",
        );
        refused(
            &format!("{table}round = 2\nremove = [[\"b\", \"c\"]]"),
            "expected an edge that exists until then",
        );
        refused(
            &format!("{table}round = 2\nadd = [[\"b\", \"d\"]]"),
            "expected the name of an agent",
        );
    }
}
