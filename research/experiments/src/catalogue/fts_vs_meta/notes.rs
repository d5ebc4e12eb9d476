//! Tables and figure of the experiment: performance against message length and run time, with the
//! authors' values.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use fedbo_report::{
    ArmRef, Estimate, Row, Scale, Summary, TradeoffPanel, TradeoffPoint, TradeoffSeries,
    TradeoffSpec,
};
use fedbo_research_problems::data_sets::{
    FTS_CURVES, FTS_SUMMARY, FTS_TARGETS, figures, without_figures,
};

use super::super::landmine_fields::N_TARGETS;
use super::super::markdown::MarkdownTable;
use super::arms::{Arm, DIRECT_EVALUATIONS, Form, PAPER, Rule, TRANSFER, USUAL_FEATURES};

/// A row of the authors' summary (their Fig. 2a).
#[derive(serde::Deserialize)]
struct AuthorsResult {
    method: String,
    #[serde(rename = "M")]
    n_features: u32,
    #[serde(rename = "mean_best50_auc")]
    best: f64,
    #[serde(rename = "se_over_30_runs")]
    standard_error: f64,
    #[serde(rename = "mean_s_per_iter")]
    seconds: f64,
}

/// A point of the authors' Fig. 3a: field 0, M = 100.
#[derive(serde::Deserialize)]
struct AuthorsCurve {
    method: String,
    iter: u32,
    #[serde(rename = "mean_elapsed_s")]
    elapsed: f64,
    #[serde(rename = "mean_best_auc")]
    best: f64,
}

/// A final value of the authors' runs for one target (their Fig. 5).
#[derive(serde::Deserialize)]
struct AuthorsTarget {
    method: String,
    #[serde(rename = "M")]
    n_features: u32,
    field: usize,
    #[serde(rename = "mean_best50_auc")]
    best: f64,
}

/// The results of the authors' own runs; empty if the data folder lacks them.
pub(super) struct Authors {
    ends: Vec<AuthorsResult>,
    curves: Vec<AuthorsCurve>,
    by_field: Vec<AuthorsTarget>,
}

impl Authors {
    /// Reads the results from the data folder.
    ///
    /// # Errors
    /// If a file is malformed.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            ends: read(folder, FTS_SUMMARY)?,
            curves: read(folder, FTS_CURVES)?,
            by_field: read(folder, FTS_TARGETS)?,
        })
    }

    /// Returns notes on missing files with the authors' figures.
    pub(super) fn missing(&self) -> Vec<String> {
        let files = [
            (self.ends.is_empty(), FTS_SUMMARY),
            (self.curves.is_empty(), FTS_CURVES),
            (self.by_field.is_empty(), FTS_TARGETS),
        ];
        let missing = files.into_iter().filter(|(is_missing, _)| *is_missing);
        missing.map(|(_, file)| without_figures(file)).collect()
    }
}

fn read<T: serde::de::DeserializeOwned>(folder: &Path, file: &str) -> anyhow::Result<Vec<T>> {
    let Some(path) = figures(folder, file) else {
        return Ok(Vec::new());
    };
    let mut reader =
        csv::Reader::from_path(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let rows = reader.deserialize().collect::<Result<Vec<T>, _>>();
    rows.with_context(|| format!("{} is malformed", path.display()))
}

fn last(summary: &Summary, configuration: &str, arm: &str) -> Option<Estimate> {
    let mut parts = summary.configurations.iter();
    let part = parts.find(|part| part.experiment == configuration)?;
    part.arms.iter().find(|each| each.arm == arm)?.last
}

fn written(estimate: Option<Estimate>) -> String {
    estimate.map_or_else(
        || "–".to_owned(),
        |e| format!("{:.4} ± {:.4}", e.mean, e.standard_error.unwrap_or(0.0)),
    )
}

/// Returns the tables for Fig. 2a: every arm's best AUC and the length of each agent's message in
/// both settings, and the authors' values in the paper's setting.
pub(super) fn by_message_length(authors: &Authors, arms: &[Arm], summary: &Summary) -> Vec<String> {
    let authors = &authors.ends;
    let mut table = MarkdownTable::new(
        "Best AUC after 50 queries (mean ± s.e.) and numbers that each agent sends",
        "arm",
        ["numbers sent", PAPER, "the authors' own runs", TRANSFER],
    );
    let mut named: Vec<&str> = Vec::new();
    for arm in arms {
        if named.contains(&arm.name.as_str()) {
            continue;
        }
        named.push(&arm.name);
        let sent = arm.message_floats().map_or_else(|| "0".to_owned(), |n| n.to_string());
        let (method, n_features) = match arm.rule {
            Rule::Ts => ("TS", 0),
            Rule::Fts => ("FTS", arm.n_features),
            Rule::Rgpe(Form::Paper | Form::Authors) => ("RGPE", arm.n_features),
            Rule::Taf(Form::Paper | Form::Authors) => ("TAF", arm.n_features),
            _ => ("", 0),
        };
        let theirs = authors
            .iter()
            .find(|row| row.method == method && row.n_features as usize == n_features)
            .map_or_else(
                || "–".to_owned(),
                |row| format!("{:.4} ± {:.4}", row.best, row.standard_error),
            );
        let [paper, transfer] =
            [PAPER, TRANSFER].map(|setting| written(last(summary, setting, &arm.name)));
        table.row(&arm.name, [sent, paper, theirs, transfer]);
    }
    let slowest = |method: &str| {
        let of_it = authors.iter().filter(|row| row.method == method);
        of_it.map(|row| row.seconds).fold(0.0, f64::max)
    };
    vec![
        table.into_text(),
        format!(
            "The authors' columns are only for comparison: their objective flips its sign in about 13 % of evaluations, their \
             messages and models were built from mis-paired observations, and their queries took up to {:.0} s (RGPE) and {:.0} \
             s (TAF). \"rgpe\" and \"taf\" follow their own papers; \"authors\" are the weakened forms of the FTS repository, \
             which draw independently for every pair, let the distance between tasks vanish, and search a function that is \
             noise.",
            slowest("RGPE"),
            slowest("TAF"),
        ),
        format!(
            "With length scale 0.01 the shared features contain no information about points further than 0.02 from another \
             agent's queries, so in the paper's setting little can transfer. There RGPE and TAF search by DIRECT with \
             {DIRECT_EVALUATIONS} evaluations (the authors: 20,000). RGPE and TAF maximize an expected improvement where TS and \
             FTS sample, so their gain over TS need not come from transfer. The placebos, which send the prior (FTS) \
             or models of shuffled outputs (RGPE, TAF), make the distinction. A run's histories of the other fields serve all \
             six targets."
        ),
    ]
}

/// Numbers of queries at which run times are compared.
const CHECKPOINTS: [u32; 4] = [5, 10, 20, 50];

/// The arms in the comparison of run times.
const OF_RUN_TIME: [&str; 6] =
    ["ts", "fts M=100", "rgpe M=100", "taf M=100", "rgpe authors", "taf authors"];

/// Returns the tables for Fig. 3a: the best AUC on field 0 and the seconds spent on decisions until
/// then, for M = 100.
pub(super) fn by_run_time(authors: &Authors, rows: &[Row]) -> Vec<String> {
    let authors = &authors.curves;
    let mut table = MarkdownTable::new(
        "Field 0, M = 100: best AUC and seconds spent on decisions, at 5, 10, 20 and 50 queries (mean over runs)",
        "arm",
        CHECKPOINTS,
    );
    for configuration in [PAPER, TRANSFER] {
        for arm in OF_RUN_TIME {
            let course = course(rows, configuration, arm, 0);
            let cells = CHECKPOINTS.map(|at| match course.get(&i64::from(at)) {
                Some((best, seconds)) => format!("{best:.4} in {}", brief(*seconds)),
                None => "–".to_owned(),
            });
            table.row(format!("{arm}, {configuration}"), cells);
        }
    }
    for method in ["TS", "FTS", "RGPE", "TAF"] {
        let cells = CHECKPOINTS.map(|at| {
            match authors.iter().find(|point| point.method == method && point.iter == at) {
                Some(point) => format!("{:.4} in {}", point.best, brief(point.elapsed)),
                None => "–".to_owned(),
            }
        });
        table.row(format!("{method}, the authors' run"), cells);
    }
    vec![
        table.into_text(),
        "The authors' seconds include the evaluations of the SVM, about 0.2 s each. Ours do not, and were measured while other \
         jobs ran on the other cores."
            .to_owned(),
    ]
}

/// Returns the table for Fig. 5: the best AUC after the last query for each of the other five
/// targets, and the mean seconds spent on decisions, followed by the best AUC in the authors' own
/// runs.
pub(super) fn by_target(authors: &Authors, rows: &[Row]) -> String {
    let title = "Fig. 5: best AUC after 50 queries by target, M = 100 (mean over runs), and the seconds spent on 50 decisions (mean \
                 over targets 1 to 5)";
    let fields = (1..N_TARGETS).map(|field| format!("field {field}"));
    let mut table = MarkdownTable::new(title, "arm", fields.chain(["seconds".to_owned()]));
    let best = |value: Option<f64>| value.map_or("–".to_owned(), |best| format!("{best:.4}"));
    let last = |configuration: &str, arm: &str, field| {
        course(rows, configuration, arm, field).into_values().next_back()
    };
    for configuration in [PAPER, TRANSFER] {
        for arm in OF_RUN_TIME {
            let ends: Vec<_> =
                (1..N_TARGETS).map(|field| last(configuration, arm, field)).collect();
            let known: Vec<f64> = ends.iter().flatten().map(|(_, seconds)| *seconds).collect();
            let mean = known.iter().sum::<f64>() / known.len() as f64;
            let seconds = if known.is_empty() { "–".to_owned() } else { brief(mean) };
            let cells = ends.iter().map(|end| best(end.map(|(best, _)| best)));
            table.row(format!("{arm}, {configuration}"), cells.chain([seconds]));
        }
    }
    for (method, n_features) in [("TS", 0), ("FTS", 100), ("RGPE", 100), ("TAF", 100)] {
        let of_method = || {
            let rows = authors.by_field.iter();
            rows.filter(move |row| row.method == method && row.n_features == n_features)
        };
        if of_method().next().is_none() {
            continue;
        }
        let cells = (1..N_TARGETS)
            .map(|field| best(of_method().find(|row| row.field == field).map(|row| row.best)));
        table.row(format!("{method}, the authors' runs"), cells.chain([String::new()]));
    }
    table.into_text()
}

fn brief(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.0} ms", 1e3 * seconds) } else { format!("{seconds:.1} s") }
}

/// Returns the mean best value and the mean cumulative seconds of a target after each query.
fn course(rows: &[Row], configuration: &str, arm: &str, field: usize) -> BTreeMap<i64, (f64, f64)> {
    let agent = format!("field {field}");
    let mut elapsed: BTreeMap<u32, f64> = BTreeMap::new();
    let mut sums: BTreeMap<i64, (f64, f64, f64)> = BTreeMap::new();
    let of_arm = rows.iter().filter(|row| {
        row.experiment == configuration && row.arm == arm && row.agent == agent && row.iteration > 0
    });
    for row in of_arm {
        let seconds = elapsed.entry(row.run).or_default();
        *seconds += row.ask_seconds;
        let (best, time, n) = sums.entry(row.iteration).or_default();
        *best += row.best.unwrap_or(f64::NAN);
        *time += *seconds;
        *n += 1.0;
    }
    let means =
        sums.into_iter().map(|(iteration, (best, time, n))| (iteration, (best / n, time / n)));
    means.collect()
}

/// Returns the figure for Fig. 2a, with the same final values also plotted against the seconds
/// spent on decisions.
pub(super) fn tradeoff(arms: &[Arm], rows: &[Row]) -> TradeoffSpec {
    let panels = [PAPER, TRANSFER].into_iter().flat_map(|configuration| {
        [
            ("numbers that each agent sends", cost_in_numbers as fn(&Arm, &[Row]) -> Option<f64>),
            ("seconds spent on 50 decisions", cost_in_seconds),
        ]
        .map(|(x_label, cost)| TradeoffPanel {
            title: configuration.to_owned(),
            x_label: x_label.to_owned(),
            scale: Scale::Log,
            series: series(arms, rows, configuration, cost),
            levels: vec![ArmRef::new(configuration, "ts")],
        })
    });
    TradeoffSpec {
        title: "SVM on landmine fields 0 to 5 after 50 queries".into(),
        y_label: "best validation AUC".into(),
        panels: panels.collect(),
    }
}

fn cost_in_numbers(arm: &Arm, _: &[Row]) -> Option<f64> {
    let floats = u32::try_from(arm.message_floats()?).ok()?;
    Some(f64::from(floats))
}

fn cost_in_seconds(arm: &Arm, rows: &[Row]) -> Option<f64> {
    arm.message_floats()?;
    let of_arm = || {
        rows.iter().filter(|row| {
            row.experiment == arm.configuration && row.arm == arm.name && row.iteration > 0
        })
    };
    let mut units: Vec<(&str, u32)> = of_arm().map(|row| (row.agent.as_str(), row.run)).collect();
    units.sort_unstable();
    units.dedup();
    let n = u32::try_from(units.len()).ok().filter(|n| *n > 0)?;
    Some(of_arm().map(|row| row.ask_seconds).sum::<f64>() / f64::from(n))
}

/// Arms of one method in one variant, with their names in the legend.
const SERIES: [(&str, Rule); 5] = [
    ("fts", Rule::Fts),
    ("rgpe", Rule::Rgpe(Form::Paper)),
    ("taf", Rule::Taf(Form::Paper)),
    ("rgpe, authors' form", Rule::Rgpe(Form::Authors)),
    ("taf, authors' form", Rule::Taf(Form::Authors)),
];

fn series(
    arms: &[Arm],
    rows: &[Row],
    configuration: &str,
    cost: fn(&Arm, &[Row]) -> Option<f64>,
) -> Vec<TradeoffSeries> {
    SERIES
        .into_iter()
        .map(|(name, rule)| TradeoffSeries {
            name: name.to_owned(),
            points: arms
                .iter()
                .filter(|arm| arm.configuration == configuration && arm.rule == rule)
                .filter_map(|arm| {
                    Some(TradeoffPoint {
                        arm: ArmRef::new(configuration, arm.name.clone()),
                        label: if arm.n_features == USUAL_FEATURES {
                            String::new()
                        } else {
                            format!("M={}", arm.n_features)
                        },
                        cost: cost(arm, rows)?,
                    })
                })
                .collect(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_adds_up_seconds_and_averages_runs() {
        let row = |agent: &str, run, iteration, best, ask_seconds| Row {
            experiment: PAPER.into(),
            arm: "ts".into(),
            agent: agent.into(),
            run,
            iteration,
            source: "own".into(),
            parameters: Vec::new(),
            value: Some(best),
            best: Some(best),
            regret: None,
            ask_seconds,
            status: Row::ok_status(),
        };
        let rows = [
            row("field 0", 0, 0, 0.5, 9.0),
            row("field 0", 0, 1, 0.6, 1.0),
            row("field 0", 0, 2, 0.8, 2.0),
            row("field 0", 1, 1, 0.8, 3.0),
            row("field 0", 1, 2, 0.9, 4.0),
            row("field 1", 0, 1, 0.1, 50.0),
        ];
        let course = course(&rows, PAPER, "ts", 0);
        let expected = [(1, (0.7, 2.0)), (2, (0.85, 5.0))];
        assert_eq!(course.len(), 2);
        for (iteration, (best, seconds)) in expected {
            let found = course[&iteration];
            assert!((found.0 - best).abs() < 1e-12 && (found.1 - seconds).abs() < 1e-12);
        }
        assert_eq!(brief(0.0123), "12 ms");
        assert_eq!(brief(49.04), "49.0 s");
    }
}
