//! `fedbo topology advise`: the regret bound of a graph, and the most useful additional edge.

use fedbo_config::NumberOrList;
use fedbo_documents::{CliqueRecord, GraphSource};
use fedbo_federated::distributed_ts::regret_bound::{
    N_POINTS_MAX, RegretBound, RegretBoundError, RegretPrior,
};
use fedbo_gp::{Family, Kernel, default_lengthscale};
use fedbo_topology::{Clique, Edge, Graph};
use serde::Serialize;

use super::source::Place;
use super::{listed, size_in_words};
use fedbo_console as console;
use fedbo_console::table::{self, Column};
use fedbo_console::text::{counted, number, positive};
use fedbo_console::{BadInput, Exit};

/// Maximum number of edges whose connectivity is compared.
const N_CANDIDATES: usize = 1_000;
const N_DIM_MAX: u32 = 100;
const N_ROUNDS_MAX: u64 = 1_000_000;

/// Bound the regret of a graph of neighbours, and find the edge that would enlarge its largest
/// clique
///
/// The bound on Bayesian simple regret of distributed Thompson sampling (Zerefa et al., corollary
/// 3.2) depends on the largest clique, a group of agents that are all neighbours of each other. The
/// command prints the bound after a number of rounds, together with the bounds of a single agent
/// and of the graph with an additional edge that enlarges the clique. Among several such edges, the
/// one with the largest algebraic connectivity is shown. The bounds are for an objective drawn from
/// a Gaussian process on points that cover the unit cube, in units of its standard deviation. They
/// far exceed the regret seen in practice and are only useful for comparison. A larger clique
/// lowers the bound only if there is enough noise; see docs/topology.md.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)] // the value parser of the option rejects negative numbers
pub(crate) struct Advise {
    #[command(flatten)]
    place: Place,
    /// Number of rounds after which regret is bounded [default: the federation's, else 100]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=N_ROUNDS_MAX))]
    rounds: Option<u64>,
    /// Kernel: matern-5/2, matern-3/2 or squared-exponential [default: the federation's, else matern-5/2]
    #[arg(long, value_name = "NAME", value_parser = parse_family)]
    kernel: Option<Family>,
    /// Length scale in the unit cube [default: the federation's, else 0.3 √dim]
    #[arg(long, value_name = "L", value_parser = positive)]
    lengthscale: Option<f64>,
    /// Standard deviation of the noise, in units of the objective's [default: the federation's,
    /// else 0.1]
    #[arg(long, value_name = "S", value_parser = positive)]
    noise_std: Option<f64>,
    /// Number of points that cover the unit cube: |X|
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=N_POINTS_MAX as i64))]
    points: u32,
    /// Number of parameters of the objective [default: the federation's, else 2]
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u32).range(1..=i64::from(N_DIM_MAX)))]
    dim: Option<u32>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// The assumed distribution of the objective.
#[derive(Serialize)]
struct Prior {
    rounds: u64,
    kernel: &'static str,
    lengthscales: Vec<f64>,
    /// In units of the objective's standard deviation.
    noise_std: f64,
    points: u32,
    dim: usize,
    #[serde(skip)]
    family: Family,
}

#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
    agents: u32,
    prior: Prior,
    largest_clique: CliqueRecord<'a>,
    bound_alone: BoundRecord,
    bound: BoundRecord,
    /// Clique size with the smallest bound, up to the size of the largest clique (including the
    /// additional edge, if there is one). The bounds for smaller cliques are valid too.
    best_clique_size: u64,
    /// Null if no single edge enlarges the largest clique, or if none was found.
    edge: Option<EdgeRecord<'a>>,
    /// Number of edges that enlarge the largest clique, or a lower bound if not all were found.
    raising_edges: usize,
    raising_edges_all_found: bool,
    /// Edges that together enlarge the largest clique, if no single edge does.
    extension: Option<ExtensionRecord<'a>>,
}

/// A bound and its terms. Null if a number is too large.
#[derive(Serialize)]
struct BoundRecord {
    clique_size: u64,
    simple_regret: f64,
    beta: f64,
    information_gain: f64,
    log_price: f64,
}

#[derive(Serialize)]
struct EdgeRecord<'a> {
    from: &'a str,
    to: &'a str,
    /// Null if the graph is too large.
    algebraic_connectivity: Option<f64>,
    algebraic_connectivity_before: Option<f64>,
    bound: BoundRecord,
}

#[derive(Serialize)]
struct ExtensionRecord<'a> {
    agent: &'a str,
    edges: Vec<[&'a str; 2]>,
}

impl BoundRecord {
    fn of(bound: RegretBound<'_>, rounds: u64) -> Self {
        Self {
            clique_size: bound.clique_size(),
            simple_regret: bound.at(rounds),
            beta: bound.beta(rounds),
            information_gain: bound.information_gain(rounds),
            log_price: bound.log_price(),
        }
    }
}

impl Advise {
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let source = self.place.read()?;
        let prior = self.prior(&source)?;
        let graph = &source.graph;
        let clique = graph.max_clique();
        let raising = graph.edges_that_enlarge(&clique, N_CANDIDATES);
        let best = best_edge(graph, &raising.edges);

        let largest = clique.size() + usize::from(best.is_some());
        let regret = prior.regret(largest)?;
        let record = |size| BoundRecord::of(regret.bound(size), prior.rounds);
        let edge = best.map(|best| EdgeRecord {
            from: source.agent(best.edge.0),
            to: source.agent(best.edge.1),
            algebraic_connectivity: best.after,
            algebraic_connectivity_before: best.before,
            bound: record(largest),
        });
        let extension = match edge {
            Some(_) => None,
            None => graph.nearest_extension(&clique).map(|found| ExtensionRecord {
                agent: source.agent(found.agent),
                edges: found
                    .edges
                    .iter()
                    .map(|(a, b)| [source.agent(*a), source.agent(*b)])
                    .collect(),
            }),
        };
        let document = Document {
            name: &source.name,
            agents: graph.n_agents(),
            largest_clique: CliqueRecord::of(&clique, &source),
            bound_alone: record(1),
            bound: record(clique.size()),
            best_clique_size: regret.best_size(largest, prior.rounds) as u64,
            edge,
            raising_edges: raising.edges.len(),
            raising_edges_all_found: raising.is_complete,
            extension,
            prior,
        };
        if self.json {
            console::result(&serde_json::to_string_pretty(&document)?)?;
        } else {
            print(&document, &clique)?;
        }
        Ok(Exit::Done)
    }

    /// Returns the prior. Options take precedence over the federation, and the federation over
    /// defaults.
    fn prior(&self, source: &GraphSource) -> anyhow::Result<Prior> {
        let federation = source.federation.as_ref();
        let surrogate = federation.map(|federation| &federation.file().surrogate);
        let dim = match (self.dim, federation) {
            (Some(dim), None) => dim as usize,
            (None, None) => 2,
            (None, Some(federation)) => federation.space.dim(),
            (Some(dim), Some(federation)) if dim as usize == federation.space.dim() => dim as usize,
            (Some(dim), Some(federation)) => {
                let found = federation.space.dim();
                return Err(BadInput(format!(
                    "--dim {dim}, but agents of this federation tune {found} parameters; leave --dim out"
                ))
                .into());
            }
        };
        let family = match (self.kernel, surrogate.and_then(|table| table.kernel.as_deref())) {
            (Some(family), _) => family,
            (None, Some(word)) => parse_family(word).map_err(BadInput)?,
            (None, None) => Family::Matern52,
        };
        let lengthscales =
            match (self.lengthscale, surrogate.and_then(|table| table.lengthscale.as_ref())) {
                (Some(one), _) => vec![one; dim],
                (None, Some(NumberOrList::Number(one))) => vec![*one; dim],
                (None, Some(NumberOrList::List(list))) => list.clone(),
                (None, None) => vec![default_lengthscale(dim); dim],
            };
        let of_federation = surrogate.filter(|table| table.lengthscale.is_some()).map(|table| {
            let noise = table.noise_variance.unwrap_or(1e-4);
            (noise / table.outputscale.unwrap_or(1.0)).sqrt()
        });
        Ok(Prior {
            rounds: self.rounds.or(federation.map(|federation| federation.rounds)).unwrap_or(100),
            kernel: family_name(family),
            lengthscales,
            noise_std: self.noise_std.or(of_federation).unwrap_or(0.1),
            points: self.points,
            dim,
            family,
        })
    }
}

impl Prior {
    fn regret(&self, clique_size: usize) -> anyhow::Result<RegretPrior> {
        let kernel = Kernel::new(self.family, self.lengthscales.clone(), 1.0)
            .map_err(|error| BadInput(format!("the kernel cannot be used: {error}")))?;
        let n_observations =
            usize::try_from(self.rounds).unwrap_or(usize::MAX).saturating_mul(clique_size);
        let variance = self.noise_std * self.noise_std;
        let regret =
            RegretPrior::on_unit_cube(&kernel, variance, self.points as usize, n_observations);
        regret.map_err(|error| {
            let message = match error {
                RegretBoundError::Noise { .. } => format!(
                    "--noise-std {}: expected a number from 1e-6 to 1e150; without noise the bound is uninformative",
                    number(self.noise_std)
                ),
                other => other.to_string(),
            };
            BadInput(message).into()
        })
    }

    fn in_words(&self) -> String {
        let mut lengthscales: Vec<String> = self.lengthscales.iter().map(|l| number(*l)).collect();
        lengthscales.dedup();
        format!(
            "after {} rounds; prior {} with length scale {} and noise {} on {} points of {} dimensions",
            self.rounds,
            self.kernel,
            lengthscales.join(", "),
            number(self.noise_std),
            self.points,
            self.dim
        )
    }
}

/// The recommended edge.
struct Best {
    edge: Edge,
    before: Option<f64>,
    after: Option<f64>,
}

/// Returns the edge that gives the largest algebraic connectivity, the first of equal ones. Returns
/// the first edge if the graph is too large.
fn best_edge(graph: &Graph, edges: &[Edge]) -> Option<Best> {
    let first = *edges.first()?;
    let Some(spectrum) = graph.spectrum() else {
        return Some(Best { edge: first, before: None, after: None });
    };
    let (mut edge, mut most) = (first, spectrum.algebraic_connectivity_with(first));
    for &other in &edges[1..] {
        let after = spectrum.algebraic_connectivity_with(other);
        if after > most * (1.0 + 1e-9) + 1e-12 {
            (edge, most) = (other, after);
        }
    }
    Some(Best { edge, before: Some(spectrum.algebraic_connectivity()), after: Some(most) })
}

fn print(document: &Document<'_>, clique: &Clique) -> anyhow::Result<()> {
    let mut rows = vec![("one agent alone", &document.bound_alone)];
    rows.push(("largest clique", &document.bound));
    if let Some(edge) = &document.edge {
        rows.push(("with one more edge", &edge.bound));
    }
    let numbers = |head: &str, of: fn(&BoundRecord) -> f64, spare| {
        let cells = rows.iter().map(|(_, bound)| number(of(bound))).collect();
        Column::numbers(head, cells, spare)
    };
    let sizes = rows.iter().map(|(_, bound)| bound.clique_size.to_string());
    let columns = vec![
        Column::words("", rows.iter().map(|row| row.0.to_owned()).collect(), 0),
        Column::numbers("agents", sizes.collect(), 0),
        numbers("regret at most", |bound| bound.simple_regret, 0),
        numbers("β", |bound| bound.beta, 2),
        numbers("Ψ", |bound| bound.information_gain, 2),
        numbers("ln ξ", |bound| bound.log_price, 1),
    ];
    let (table, _) = table::fit(columns, console::width());
    let members = listed(&document.largest_clique.members);
    let text = format!(
        "largest clique of {}: {} ({members})\n{}\n\n{table}\n\n{}",
        document.name,
        size_in_words(clique),
        document.prior.in_words(),
        advice(document)
    );
    console::table(&text, None)?;
    let largest = rows.iter().map(|(_, bound)| bound.clique_size).max();
    let largest = largest.unwrap_or(1);
    if document.best_clique_size < largest {
        console::note(&format!(
            "note: the lowest bound is that of {} of the {largest} agents, which holds too (theorem 3.1): ξ, the price of agents not \
             seeing each other's queries of a round, grows with the clique, and faster with less noise",
            document.best_clique_size
        ));
    }
    Ok(())
}

fn advice(document: &Document<'_>) -> String {
    let size = document.largest_clique.size;
    if let Some(edge) = &document.edge {
        let others = others(document.raising_edges, document.raising_edges_all_found);
        let connectivity = match (edge.algebraic_connectivity_before, edge.algebraic_connectivity) {
            (Some(before), Some(after)) => format!(
                " and the algebraic connectivity from {} to {}",
                number(before),
                number(after)
            ),
            _ => String::new(),
        };
        return format!(
            "join {} and {}: this enlarges the largest clique from {size} to {}{connectivity}; {others}",
            edge.from,
            edge.to,
            size + 1
        );
    }
    let Some(extension) = &document.extension else {
        return "every two agents are neighbours: only more agents would make the clique larger"
            .to_owned();
    };
    joining(extension, document.raising_edges_all_found)
}

/// Describes the other edges that enlarge the largest clique, given the number of all such edges.
fn others(n: usize, all_found: bool) -> String {
    match (n, all_found) {
        (0 | 1, true) => "no other edge does".to_owned(),
        (0 | 1, false) => "other edges may do too".to_owned(),
        (2, true) => "1 other edge does too".to_owned(),
        (2, false) => "at least 1 other edge does too".to_owned(),
        (n, true) => format!("{} other edges do too", n - 1),
        (n, false) => format!("at least {} other edges do too", n - 1),
    }
}

/// Describes the edges that would let an agent join the largest clique.
fn joining(extension: &ExtensionRecord<'_>, all_found: bool) -> String {
    let found = match all_found {
        true => "no single edge enlarges the largest clique",
        false => "no edge that enlarges the largest clique was found before the search gave up",
    };
    let pairs: Vec<String> = extension.edges.iter().map(|[a, b]| format!("{a} and {b}")).collect();
    let pairs: Vec<&str> = pairs.iter().map(String::as_str).collect();
    format!(
        "{found}; {} would let {} join it: {}",
        counted(extension.edges.len() as u64, "edge"),
        extension.agent,
        listed(&pairs)
    )
}

const FAMILIES: [(&str, Family); 3] = [
    ("matern-5/2", Family::Matern52),
    ("matern-3/2", Family::Matern32),
    ("squared-exponential", Family::SquaredExponential),
];

fn family_name(family: Family) -> &'static str {
    let known = FAMILIES.iter().find(|(_, known)| *known == family);
    known.map_or("", |(name, _)| name)
}

fn parse_family(text: &str) -> Result<Family, String> {
    let known = FAMILIES.iter().find(|(name, _)| *name == text);
    known.map(|(_, family)| *family).ok_or_else(|| {
        let names = FAMILIES.map(|(name, _)| name);
        format!("expected one of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_edge_is_singular() {
        let extension = ExtensionRecord { agent: "d", edges: vec![["a", "d"]] };
        let words = "no edge that enlarges the largest clique was found before the search gave up; 1 edge would let d join it: a and d";
        assert_eq!(joining(&extension, false), words);
        let extension = ExtensionRecord { agent: "d", edges: vec![["a", "d"], ["b", "d"]] };
        assert!(
            joining(&extension, true).contains("; 2 edges would let d join it: a and d, b and d")
        );
        assert_eq!(others(1, true), "no other edge does");
        assert_eq!(others(1, false), "other edges may do too");
        assert_eq!(others(2, false), "at least 1 other edge does too");
        assert_eq!(others(3, false), "at least 2 other edges do too");
    }
}
