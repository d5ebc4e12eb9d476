//! Edge lists with agent names: CSV with the header `from,to` and one edge per line.

use std::collections::HashMap;

use crate::{Edge, Graph, GraphError};

/// Maximum length of an agent's name, in characters.
const NAME_CHARS_MAX: usize = 100;
const HEADER: [&str; 2] = ["from", "to"];

/// A parsed edge list: the agents' names and the edges between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeList {
    /// Unique names. Agent i is `names[i]`.
    pub names: Vec<String>,
    /// Edges as pairs of agent numbers, in file order.
    pub edges: Vec<Edge>,
}

/// An error in an edge list. Line numbers start at 1.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EdgeListError {
    /// The first line is not the expected header.
    #[error("line 1: found {found:?}, expected the header from,to")]
    Header {
        /// The first line.
        found: String,
    },
    /// The text is not valid CSV.
    #[error("line {line}: {message}")]
    Syntax {
        /// Line.
        line: u64,
        /// The parser's message.
        message: String,
    },
    /// The line does not have two fields.
    #[error("line {line}: {}, expected two names, as in: a,b", fields(*found))]
    Fields {
        /// Line.
        line: u64,
        /// The number of fields.
        found: usize,
    },
    /// The name is not valid.
    #[error(
        "line {line}: {name:?} is not a name; expected 1 to {NAME_CHARS_MAX} characters without control characters"
    )]
    Name {
        /// Line.
        line: u64,
        /// The invalid name.
        name: String,
    },
    /// The agent is not on the roster.
    #[error("line {line}: there is no agent {name:?}{}", did_you_mean(nearest.as_deref()))]
    UnknownAgent {
        /// Line.
        line: u64,
        /// The unknown name.
        name: String,
        /// A name on the roster that differs only in case, if there is one.
        nearest: Option<String>,
    },
    /// An edge joins an agent to itself.
    #[error(
        "line {line}: {name:?} is joined to itself; an agent always has its own observations, so remove the line"
    )]
    SelfLoop {
        /// Line.
        line: u64,
        /// The agent.
        name: String,
    },
    /// The edge is repeated, in the same or the opposite direction.
    #[error(
        "line {line}: the edge between {a:?} and {b:?} is already in line {first}; remove one of the two"
    )]
    RepeatedEdge {
        /// Line.
        line: u64,
        /// The earlier line.
        first: u64,
        /// The first name on the line.
        a: String,
        /// The second name.
        b: String,
    },
    /// No line names an agent.
    #[error("the list names no agent; add a line for each edge, as in: a,b")]
    Empty,
    /// The graph is too large.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

fn fields(n: usize) -> String {
    match n {
        1 => "1 field".to_owned(),
        _ => format!("{n} fields"),
    }
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(
        || "; correct the name, or add the agent".to_owned(),
        |nearest| format!("; did you mean {nearest:?}?"),
    )
}

impl EdgeList {
    /// Parses a list with the header `from,to`. Agents are numbered in order of appearance. A line
    /// `a,` adds an agent without edges.
    ///
    /// # Errors
    /// Returns the first invalid line.
    pub fn parse(text: &str) -> Result<Self, EdgeListError> {
        Reader::new(&[], true).read(text)
    }

    /// Parses a list that names only agents on the roster, and numbers them as on the roster. The
    /// roster's names must be unique.
    ///
    /// # Errors
    /// Returns the first invalid line. A line with an unknown agent is invalid.
    pub fn parse_among(text: &str, roster: &[&str]) -> Result<Self, EdgeListError> {
        Reader::new(roster, false).read(text)
    }

    /// Builds the graph.
    ///
    /// # Errors
    /// If there are too many agents or edges.
    pub fn graph(&self) -> Result<Graph, GraphError> {
        let n_agents = u32::try_from(self.names.len())
            .map_err(|_| GraphError::Agents { n_agents: self.names.len() as u64 })?;
        Graph::from_edges(n_agents, &self.edges)
    }
}

struct Reader {
    list: EdgeList,
    numbers: HashMap<String, u32>,
    /// True if unknown names are added as new agents.
    is_open: bool,
}

impl Reader {
    fn new(roster: &[&str], is_open: bool) -> Self {
        let names: Vec<String> = roster.iter().map(|name| (*name).to_owned()).collect();
        Self {
            numbers: names.iter().cloned().zip(0..).collect(),
            list: EdgeList { names, edges: Vec::new() },
            is_open,
        }
    }

    fn read(mut self, text: &str) -> Result<EdgeList, EdgeListError> {
        let text = text.trim_start_matches('\u{feff}'); // some spreadsheets write a byte order mark
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let mut lines: HashMap<Edge, u64> = HashMap::new();
        let mut is_first = true;
        for record in reader.records() {
            let record = record.map_err(|error| EdgeListError::Syntax {
                line: error.position().map_or(1, csv::Position::line),
                message: error.to_string(),
            })?;
            if std::mem::take(&mut is_first) {
                if !record.iter().eq(HEADER) {
                    let found = record.iter().collect::<Vec<_>>().join(",");
                    return Err(EdgeListError::Header { found });
                }
                continue;
            }
            let line = record.position().map_or(1, csv::Position::line);
            let (Some(from), Some(to), 2) = (record.get(0), record.get(1), record.len()) else {
                let found = record.len();
                return Err(EdgeListError::Fields { line, found });
            };
            let a = self.agent(from, line)?;
            if to.is_empty() {
                continue;
            }
            let b = self.agent(to, line)?;
            if a == b {
                let name = from.to_owned();
                return Err(EdgeListError::SelfLoop { line, name });
            }
            if let Some(first) = lines.insert((a.min(b), a.max(b)), line) {
                let (a, b) = (from.to_owned(), to.to_owned());
                return Err(EdgeListError::RepeatedEdge { line, first, a, b });
            }
            self.list.edges.push((a, b));
        }
        if is_first {
            let found = String::new();
            return Err(EdgeListError::Header { found });
        }
        if self.list.names.is_empty() {
            return Err(EdgeListError::Empty);
        }
        Ok(self.list)
    }

    fn agent(&mut self, name: &str, line: u64) -> Result<u32, EdgeListError> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        let name = name.to_owned();
        if !self.is_open {
            let alike = |known: &&String| known.to_lowercase() == name.to_lowercase();
            let nearest = self.list.names.iter().find(alike).cloned();
            return Err(EdgeListError::UnknownAgent { line, name, nearest });
        }
        let is_name = !name.is_empty()
            && name.chars().count() <= NAME_CHARS_MAX
            && !name.chars().any(char::is_control);
        if !is_name {
            return Err(EdgeListError::Name { line, name });
        }
        let n_agents = self.list.names.len() as u64 + 1;
        let number = u32::try_from(n_agents - 1).map_err(|_| GraphError::Agents { n_agents })?;
        self.numbers.insert(name.clone(), number);
        self.list.names.push(name);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_numbered_as_they_appear() {
        let text = "from,to\nlab b, lab a\n\n\"c, d\",lab b\nalone,\n";
        let list = EdgeList::parse(text).unwrap();
        assert_eq!(list.names, ["lab b", "lab a", "c, d", "alone"]);
        assert_eq!(list.edges, [(0, 1), (2, 0)]);
        let graph = list.graph().unwrap();
        assert_eq!((graph.n_agents(), graph.degree(3)), (4, 0));
        let roster = ["alone", "c, d", "lab a", "lab b"];
        let among = EdgeList::parse_among(text, &roster).unwrap();
        assert_eq!(among.edges, [(3, 2), (1, 3)]);
        assert_eq!(EdgeList::parse(&format!("\u{feff}{text}")), Ok(list));
    }

    #[test]
    fn every_mistake_is_named_with_its_line() {
        let long = format!("from,to\n{},b", "a".repeat(101));
        for (text, words) in [
            ("", "line 1: found \"\", expected the header from,to"),
            ("a,b\n", "line 1: found \"a,b\", expected the header"),
            ("from,to\n", "the list names no agent"),
            ("from,to\na,b\nb,c,d\n", "line 3: 3 fields, expected two"),
            ("from,to\na\n", "line 2: 1 field, expected two"),
            ("from,to\n,b\n", "line 2: \"\" is not a name"),
            ("from,to\n\"a\nb\",c\n", "line 2: \"a\\nb\" is not a name"),
            (long.as_str(), "line 2: "),
            ("from,to\na,b\na,a\n", "line 3: \"a\" is joined to itself"),
            (
                "from,to\na,b\nc,d\nb,a\n",
                "line 4: the edge between \"b\" and \"a\" is already in line 2",
            ),
        ] {
            let error = EdgeList::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(words), "{error}");
        }
        let among = |text: &str| {
            let error = EdgeList::parse_among(text, &["Lab", "b"]).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            among("from,to\nb,lab\n"),
            "line 2: there is no agent \"lab\"; did you mean \"Lab\"?"
        );
        assert!(among("from,to\nb,x\n").ends_with("correct the name, or add the agent"));
    }
}
