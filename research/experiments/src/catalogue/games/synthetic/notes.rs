//! Tables for the summary: the results and the claims of the thesis.

use std::fmt::Write as _;

use super::super::outcome::{Comparisons, Outcome, over_games, over_runs, paired, shown};
use super::super::tables::{Kind, N_GAMES};
use super::super::{Configuration, arms::UNIFORM};
use super::measures::{BOUND, EXTERNAL, GAIN};
use super::model::{Level0, Model};
use super::three_agents::ThreeAgentGame;
use super::{N_ROUNDS, THEOREMS, WRONG_LAW, fresh_name, name};

/// The authors' general-sum games after 150 rounds, read off Fig. 8.2b.
const AUTHORS: [(&str, &str); 5] = [
    ("0 v 0", ".482"),
    ("1 v 0", ".425"),
    ("1 v 0 lite", ".470"),
    ("2 v 1", ".304"),
    ("3 v 2", ".331"),
];

/// The comparisons of the thesis in Fig. 8.2.
const CLAIMS: [(&str, &str); 8] = [
    ("1 v 0", "0 v 0"),
    ("1 v 0 lite", "0 v 0"),
    ("2 v 1", "0 v 0"),
    ("3 v 2", "0 v 0"),
    ("1 v 0", "1 v 0 lite"),
    ("2 v 1", "1 v 0"),
    ("3 v 2", "1 v 0"),
    ("3 v 2", "2 v 1"),
];

/// The thesis's comparisons of wrong beliefs.
const WRONG: [(&str, &str); 6] = [
    (WRONG_LAW, "1 v 0"),
    (WRONG_LAW, "0 v 0"),
    ("2 v 0", "1 v 0"),
    ("2 v 0", "0 v 0"),
    ("3 v 0", "1 v 0"),
    ("3 v 0", "0 v 0"),
];

/// A configuration's heading in a table, and its name.
type Column = (String, String);

/// Returns one column per kind of game.
fn by_kind(suffix: &str) -> Vec<Column> {
    let column = |kind: Kind| (kind.name().to_owned(), name(kind, suffix));
    Kind::ALL.map(column).into()
}

/// Returns one column per model, level-0 strategy or set of games.
fn by_suffix(kind: Kind, suffixes: &[&str]) -> Vec<Column> {
    let column = |suffix: &&str| ((*suffix).to_owned(), name(kind, suffix));
    suffixes.iter().map(column).collect()
}

/// Returns all tables.
pub(super) fn notes(configurations: &[Configuration], outcome: &Outcome) -> Vec<String> {
    let models = Model::ALL.map(Model::name);
    let level0 = [Level0::RandomSearch, Level0::Exp3].map(Level0::name);
    let fresh = [Model::Authors, Model::Standardized].map(fresh_name);
    let suffixes = [&models[..], &level0, &fresh].concat();
    let of_claims = Kind::ALL.map(|kind| Compared {
        what: kind.name(),
        pairs: &CLAIMS,
        columns: by_suffix(kind, &suffixes),
    });
    let of_authors = by_kind(Model::Authors.name());
    let of_wrong = Compared { what: "Fig. E.1, E.2", pairs: &WRONG, columns: of_authors.clone() };
    let comparisons = comparisons(configurations, outcome, of_claims.iter().chain([&of_wrong]));
    let tables = Tables { configurations, outcome, comparisons };
    let standard = AUTHORS.map(|(arm, _)| arm);
    let with_uniform = [&[UNIFORM], &standard[..]].concat();
    let mut notes = Vec::new();
    for kind in Kind::ALL {
        let title =
            format!("Fig. 8.2, {}: mean regret of agent 1 after {N_ROUNDS} rounds", kind.name());
        let published = (kind == Kind::General).then_some(&AUTHORS[..]);
        let columns = by_suffix(kind, &models);
        notes.push(tables.means(&title, &columns, &with_uniform, published));
    }
    notes.extend(of_claims.iter().map(|compared| tables.differences(compared)));
    let wrong = ["0 v 0", "1 v 0", WRONG_LAW, "2 v 0", "3 v 0"];
    let title = "Fig. E.1, E.2: agent 1 is wrong about agent 2, which plays GP-MW; mean regret";
    notes.push(tables.means(title, &of_authors, &wrong, None));
    notes.push(tables.differences(&of_wrong));
    for suffix in level0 {
        let title = format!("Fig. E.3, E.4: {suffix} at level 0; mean regret");
        notes.push(tables.means(&title, &by_kind(suffix), &standard, None));
    }
    for model in [Model::Authors, Model::Standardized] {
        let title = format!("Ten other games, {}: mean regret", model.name());
        notes.push(tables.means(&title, &by_kind(fresh_name(model)), &standard, None));
    }
    notes.extend(tables.three_agents());
    for model in models {
        notes.push(tables.external(model, &by_kind(model), &with_uniform));
    }
    notes.push(tables.bounds());
    let legend = tables.comparisons.legend();
    notes.push(format!(
        "\n± is a standard error over runs, of differences over paired runs; {legend}. {READING}"
    ));
    notes
}

const READING: &str = "Runs are ten games with five starts each, so the second error of a difference, over games, is the one \
    that applies to other games. The authors' figures were read off their plot (to about .002); their numbers for the two other \
    kinds of game are not available.";

/// A table of paired differences.
struct Compared<'a> {
    /// The start of the table's title.
    what: &'a str,
    /// The pairs (arm, control), one per row.
    pairs: &'a [(&'a str, &'a str)],
    columns: Vec<Column>,
}

/// Returns the differences in these tables and in the three-agent games.
fn comparisons<'a>(
    configurations: &[Configuration],
    outcome: &Outcome,
    tables: impl Iterator<Item = &'a Compared<'a>>,
) -> Comparisons {
    let mut all = Vec::new();
    for Compared { pairs, columns, .. } in tables {
        for (arm, control) in *pairs {
            let of = |(_, name): &Column| over_runs(&gain(outcome, name, arm, control));
            all.extend(columns.iter().map(of));
        }
    }
    let is_of_three = |each: &&Configuration| {
        let mut models = ThreeAgentGame::MODELS.into_iter();
        models.any(|model| ThreeAgentGame::ALL.iter().any(|trio| trio.name(model) == each.name))
    };
    for configuration in configurations.iter().filter(is_of_three) {
        let pairs = configuration.shown.iter().flat_map(|shown| &shown.pairs);
        let of = |(arm, control): &(String, String)| {
            over_runs(&gain(outcome, &configuration.name, arm, control))
        };
        all.extend(pairs.map(of));
    }
    Comparisons::of(all)
}

/// Returns the mean regret of an arm minus that of its control, for each run.
fn gain(
    outcome: &Outcome,
    name: &str,
    arm: &str,
    control: &str,
) -> std::collections::BTreeMap<u32, f64> {
    let means = |arm| outcome.means(name, arm, N_ROUNDS);
    paired(&means(arm), &means(control))
}

struct Tables<'a> {
    configurations: &'a [Configuration],
    outcome: &'a Outcome,
    comparisons: Comparisons,
}

impl Tables<'_> {
    /// Returns a table of mean regrets, with one row per arm, one column per configuration, and one
    /// column for published figures.
    fn means(
        &self,
        title: &str,
        columns: &[Column],
        arms: &[&str],
        published: Option<&[(&str, &str)]>,
    ) -> String {
        let mut heads = heads(columns);
        if published.is_some() {
            heads.push("authors' figure".into());
        }
        let rows = arms.iter().map(|arm| {
            let means = |name: &str| self.outcome.means(name, arm, N_ROUNDS);
            let cells = columns.iter().map(|(_, name)| shown(over_runs(&means(name))));
            let theirs = published.map(|figures| {
                let found = figures.iter().find(|(of, _)| of == arm);
                found.map_or("–".to_owned(), |(_, figure)| (*figure).to_owned())
            });
            ((*arm).to_owned(), cells.chain(theirs).collect())
        });
        table(title, &heads, rows.collect())
    }

    /// Returns a table of paired differences with standard errors over runs and over games.
    fn differences(&self, Compared { what, pairs, columns }: &Compared<'_>) -> String {
        let title = format!(
            "{what}: paired differences of mean regret after {N_ROUNDS} rounds (below 0: the first has less), ± over runs, ± over games"
        );
        let rows = pairs.iter().map(|(arm, control)| {
            let cells = columns.iter().map(|(_, name)| self.difference(name, arm, control));
            (format!("({arm}) − ({control})"), cells.collect())
        });
        table(&title, &heads(columns), rows.collect())
    }

    fn difference(&self, name: &str, arm: &str, control: &str) -> String {
        let values = gain(self.outcome, name, arm, control);
        let n_games = u32::try_from(N_GAMES).unwrap_or(u32::MAX);
        let by_game = over_games(&values, n_games).and_then(|estimate| estimate.standard_error);
        let by_game = by_game.map_or(String::new(), |error| format!(", ± {error:.3} over games"));
        self.comparisons.shown(over_runs(&values), 3) + &by_game
    }

    fn three_agents(&self) -> Vec<String> {
        let mut tables = Vec::new();
        let trios =
            ThreeAgentGame::MODELS.map(|model| ThreeAgentGame::ALL.map(|trio| (trio, model)));
        for (trio, model) in trios.concat() {
            let (name, title) = (
                &trio.name(model),
                match trio {
                    ThreeAgentGame::Independent => {
                        "Fig. E.5a, three agents with payoffs of their own: agent 1"
                    }
                    ThreeAgentGame::Adversary => {
                        "Fig. E.5b, an adversary against two agents: the adversary"
                    }
                },
            );
            let title = &format!("{title}; {}", model.name());
            let Some((_, configuration)) = self.configuration(name) else {
                continue;
            };
            let pairs = configuration.shown.iter().flat_map(|shown| &shown.pairs);
            let rows = configuration.arms.iter().map(|arm| {
                let means = self.outcome.means(name, &arm.name, N_ROUNDS);
                let of_arm = pairs.clone().filter(|(of, _)| *of == arm.name);
                let differences = of_arm.map(|(_, control)| {
                    format!("− ({control}): {}", self.difference(name, &arm.name, control))
                });
                let differences: Vec<String> = differences.collect();
                let cells = vec![shown(over_runs(&means)), differences.join("; ")];
                (arm.name.clone(), cells)
            });
            let columns = ["mean regret", "paired differences"].map(String::from);
            tables.push(table(title, &columns, rows.collect()));
        }
        tables
    }

    /// Returns a table of R_{1,T}/T.
    fn external(&self, model: &str, columns: &[Column], arms: &[&str]) -> String {
        let title = format!(
            "External regret of agent 1 per round, R_1,T/T with T = {N_ROUNDS} (8.1), {model}"
        );
        let rows = arms.iter().map(|arm| {
            let of = |name: &str| shown(over_runs(&self.measure(name, arm, EXTERNAL, true)));
            let cells = columns.iter().map(|(_, name)| of(name));
            ((*arm).to_owned(), cells.collect())
        });
        table(&title, &heads(columns), rows.collect())
    }

    /// Returns a table of regrets and bounds under the theorems' assumptions.
    fn bounds(&self) -> String {
        let title = format!(
            "External regret R_1,T and its bounds, T = {N_ROUNDS}, δ = 0.1, where the theorems hold: known hyperparameters, payoffs \
             drawn from the process and divided by 9, noise of a quarter of their deviation, β_t and η of Theorem 8.1. The bound \
             is that of 8.1 at level 0, of 8.2 at level 1 (for the expectation), of 8.3 above. Payoffs lie in [−½, ½], so R_1,T/T is below \
             1 in any case"
        );
        let columns = ["R_1,T", "gain γ", "bound", "R_1,T/T", "bound/T", "runs above the bound"];
        let columns = columns.map(String::from);
        let arms = AUTHORS.map(|(arm, _)| arm).into_iter();
        let rows = arms.filter(|arm| *arm != "1 v 0 lite").map(|arm| {
            let of = |name, a_round| self.measure(THEOREMS, arm, name, a_round);
            let (regret, bound) = (of(EXTERNAL, false), of(BOUND, false));
            let n_above = paired(&regret, &bound).values().filter(|d| **d > 0.0).count();
            let cells = vec![
                shown(over_runs(&regret)),
                shown(over_runs(&of(GAIN, false))),
                shown(over_runs(&bound)),
                shown(over_runs(&of(EXTERNAL, true))),
                shown(over_runs(&of(BOUND, true))),
                format!("{n_above} of {}", regret.len()),
            ];
            (arm.to_owned(), cells)
        });
        table(&title, &columns, rows.collect())
    }

    fn configuration(&self, name: &str) -> Option<(usize, &Configuration)> {
        let mut each = self.configurations.iter().enumerate();
        each.find(|(_, configuration)| configuration.name == name)
    }

    /// Returns a measure for each run, divided by the number of rounds if `a_round`.
    fn measure(
        &self,
        name: &str,
        arm: &str,
        measure: &str,
        a_round: bool,
    ) -> std::collections::BTreeMap<u32, f64> {
        let found = self.configuration(name).and_then(|(index, configuration)| {
            let mut arms = configuration.arms.iter();
            let place = arms.position(|each| each.name == arm)?;
            Some(self.outcome.measure(index, place, measure))
        });
        let share = if a_round { 1.0 / N_ROUNDS as f64 } else { 1.0 };
        let values = found.unwrap_or_default().into_iter();
        values.map(|(run, value)| (run, share * value)).collect()
    }
}

fn heads(columns: &[Column]) -> Vec<String> {
    columns.iter().map(|(head, _)| head.clone()).collect()
}

/// Formats a Markdown table after an empty line and its title.
fn table(title: &str, columns: &[String], rows: Vec<(String, Vec<String>)>) -> String {
    let mut text = format!("\n{title}\n\n| levels | {} |\n|---|", columns.join(" | "));
    text += &"---|".repeat(columns.len());
    for (label, cells) in rows {
        let _ = write!(text, "\n| {label} | {} |", cells.join(" | "));
    }
    text
}
