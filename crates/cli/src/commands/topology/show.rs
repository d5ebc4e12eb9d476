//! `fedbo topology show`: properties and picture of a graph.

use std::path::PathBuf;

use fedbo_documents::{GraphDocument, GraphSource, graph_picture};
use fedbo_report::ReportError;
use fedbo_topology::{Clique, Graph, N_SPECTRUM_MAX};

use super::source::Place;
use super::{listed, size_in_words};
use fedbo_console as console;
use fedbo_console::Exit;
use fedbo_console::table::{self, Column};
use fedbo_console::text::number;

/// Show the properties of a graph of neighbours, and draw it
///
/// Prints the numbers of agents and edges, the largest distance between two agents (diameter), the
/// speed of agreement between neighbours (algebraic connectivity), and the largest clique: agents
/// that are all neighbours of each other. The regret bound depends on the size of this clique.
/// Writes topology.svg and topology.png.
#[derive(clap::Args)]
pub(crate) struct Show {
    #[command(flatten)]
    place: Place,
    /// Folder for the pictures [default: results/NAME, where NAME is the federation or the list of
    /// edges]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let source = self.place.read()?;
        let graph = &source.graph;
        let clique = graph.max_clique();
        let files = self.draw(&source, &clique)?;
        let document = GraphDocument::of(&source, &clique, files);
        if self.json {
            console::result(&serde_json::to_string_pretty(&document)?)?;
        } else {
            print(&document, &clique, graph)?;
        }
        Ok(Exit::Done)
    }

    /// Writes the pictures and returns their paths. If the graph is too large, prints a note and
    /// returns no paths.
    fn draw(&self, source: &GraphSource, clique: &Clique) -> anyhow::Result<Vec<String>> {
        if let Some(why) = graph_picture::too_large(&source.graph) {
            console::note(&format!("note: no picture is drawn: {why}"));
            return Ok(Vec::new());
        }
        let folder = match &self.out {
            Some(out) => out.clone(),
            None => PathBuf::from("results").join(&source.name),
        };
        std::fs::create_dir_all(&folder)
            .map_err(|cause| ReportError::CreateFolder { path: folder.clone(), cause })?;
        let paths = graph_picture::of(source, clique).write(&folder)?;
        Ok(paths.iter().map(|path| path.display().to_string()).collect())
    }
}

fn print(document: &GraphDocument<'_>, clique: &Clique, graph: &Graph) -> anyhow::Result<()> {
    let too_large = "not computed for so large a graph".to_owned();
    let range = match document.degree_min == document.degree_max {
        true => document.degree_min.to_string(),
        false => format!("{} to {}", document.degree_min, document.degree_max),
    };
    let diameter = match document.diameter {
        Some(diameter) => diameter.to_string(),
        None if document.components > 1 => "none: the graph is not connected".to_owned(),
        None => too_large.clone(),
    };
    let connectivity = match document.algebraic_connectivity {
        Some(value) => number(value),
        None if graph.n_agents() == 1 => "none: there is one agent".to_owned(),
        None if graph.n_agents() > N_SPECTRUM_MAX => too_large,
        None => "not computed: the decomposition did not converge".to_owned(),
    };
    let rows = [
        ("graph", document.graph.to_owned()),
        ("agents", document.agents.to_string()),
        ("edges", document.edges.to_string()),
        ("neighbours of an agent", range),
        ("components", document.components.to_string()),
        ("diameter", diameter),
        ("algebraic connectivity", connectivity),
        ("largest clique", size_in_words(clique)),
        ("its agents", listed(&document.largest_clique.members)),
    ];
    let (heads, cells): (Vec<&str>, Vec<String>) = rows.into_iter().unzip();
    let columns = vec![
        Column::words("topology", heads.into_iter().map(str::to_owned).collect(), 0),
        Column::words(document.name, cells, 0),
    ];
    let (table, _) = table::fit(columns, console::width());
    console::table(&table, None)?;
    if !document.files.is_empty() {
        console::result(&format!("\n{}", document.files.join("\n")))?;
    }
    Ok(())
}
