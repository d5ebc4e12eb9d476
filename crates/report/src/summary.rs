//! `summary.json`: what a run amounts to, arm by arm and pair by pair.

use std::collections::BTreeMap;
use std::path::Path;

use fedbo_space::Direction;
use serde::{Deserialize, Serialize};

use super::error::ReportError;
use super::folder::write_whole;
use super::metric::Metric;
use super::plot::FigureSpec;
use super::row::Row;
use super::trace::{Trace, Unit, arm_names, traces};
use super::tradeoff::TradeoffSpec;

/// Name of the summary in its folder.
pub const SUMMARY_FILE: &str = "summary.json";
/// Version of the summary's layout; raised when a field changes its meaning or goes.
pub const SUMMARY_SCHEMA_VERSION: u32 = 1;

/// Fewest values by which a difference may count: two that happen to agree have no spread.
const VALUES_MIN: usize = 3;

/// Mean and standard error of n values.
///
/// mean = Σ v / n,   standard error = s / √n,   s² = Σ (v − mean)² / (n − 1)
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Its standard error; none for a single value.
    pub standard_error: Option<f64>,
    /// How many values.
    pub n: usize,
}

impl Estimate {
    /// None when there is no value.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let standard_error = (n > 1).then(|| (squares / (n - 1) as f64 / n as f64).sqrt());
        Some(Self {
            mean,
            standard_error,
            n,
        })
    }
}

/// What counts as one independent value in standard errors: units that share draws are averaged first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clusters {
    /// Each unit (agent, run): agents do not influence each other.
    #[default]
    Units,
    /// Each run: its agents share messages.
    Runs,
    /// Each agent and run modulo this number: runs r, r + k, … repeat one design.
    Designs(u32),
}

impl Clusters {
    /// The cluster of a unit.
    fn of<'a>(self, (experiment, agent, run): &Unit<'a>) -> Unit<'a> {
        match self {
            Self::Units => (experiment, agent, *run),
            Self::Runs => (experiment, "", *run),
            Self::Designs(n) => (experiment, agent, run % n.max(1)),
        }
    }

    /// The mean of each cluster's values.
    fn means<'a>(self, values: impl IntoIterator<Item = (&'a Unit<'a>, f64)>) -> Vec<f64> {
        let mut clusters: BTreeMap<Unit<'a>, (f64, f64)> = BTreeMap::new();
        for (unit, value) in values {
            let (sum, n) = clusters.entry(self.of(unit)).or_default();
            *sum += value;
            *n += 1.0;
        }
        clusters.into_values().map(|(sum, n)| sum / n).collect()
    }
}

/// What [`summarize`] has to know besides the rows.
#[derive(Clone, Debug)]
pub struct SummaryRequest {
    /// Name of the experiment.
    pub experiment: String,
    /// The seed from which every stream was derived.
    pub seed: u64,
    /// Which way the objective improves.
    pub direction: Direction,
    /// Best value or regret.
    pub metric: Metric,
    /// Iterations at which arms are compared, besides the end.
    pub checkpoints: Vec<i64>,
    /// Pairs (arm, control); a pair with an arm that has no rows gives differences over no units.
    pub pairs: Vec<(String, String)>,
    /// What counts as one value.
    pub clusters: Clusters,
    /// Whether what the agents sent was protected by differential privacy: no for a simulation, none where that is not in
    /// question. Plain FTS is not private.
    pub private: Option<bool>,
    /// Privacy spent, by arm; empty when nothing was.
    pub privacy: BTreeMap<String, PrivacySpent>,
    /// Wall-clock seconds by arm, where measured.
    pub wall_seconds: BTreeMap<String, f64>,
    /// How the pictures of this folder are drawn.
    pub figure: Option<FigureSpec>,
}

/// What an arm spent of its privacy budget: ε with all that it needs to mean something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrivacySpent {
    /// ε of all releases, an upper bound at `delta`.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// Which rosters count as neighbours, `zero-out` or `replace-one`.
    pub adjacency: String,
    /// Releases that it covers.
    pub releases: u64,
    /// Releases that were asked for; more than `releases` where the run was interrupted or the budget paid for no more.
    pub planned_releases: u64,
    /// The accountant that proved it.
    pub accountant: String,
    /// Whose guarantee it is, `default` or `paper`.
    pub mode: String,
    /// The ε that may be spent.
    pub budget_epsilon: f64,
    /// Where the ledger ended, as `SEQ:HASH`.
    pub ledger_head: String,
}

/// The content of `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// See [`SUMMARY_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Name of the experiment.
    pub experiment: String,
    /// The seed from which every stream was derived.
    pub seed: u64,
    /// Which way the objective improves.
    pub direction: Direction,
    /// What `final`, `at` and `differences` are about.
    pub metric: Metric,
    /// What counts as one value in means and standard errors.
    #[serde(default)]
    pub clusters: Clusters,
    /// Whether what the agents sent was protected by differential privacy; left out of the file where that was never in
    /// question. A simulation, whose noise protects nobody, says no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private: Option<bool>,
    /// Whether the run was interrupted: its arms hold what was finished by then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The arms, in the order of the file.
    pub arms: Vec<ArmSummary>,
    /// Paired differences: for each pair the checkpoints, then the end.
    pub differences: Vec<Difference>,
    /// One summary a configuration, where the experiment has several; `arms` and `differences` are then empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configurations: Vec<Summary>,
    /// How the pictures of this folder are drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<FigureSpec>,
    /// How the picture of final metrics against costs is drawn, where there is one: set by whoever knows the costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tradeoff: Option<TradeoffSpec>,
}

/// One arm over its units, the pairs (agent, run).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmSummary {
    /// Name of the arm.
    pub arm: String,
    /// Number of units, with a value or without. How many values stand behind an estimate is in its own `n`.
    pub n: usize,
    /// The metric at the end of each unit; none when no trial succeeded.
    #[serde(rename = "final")]
    pub last: Option<Estimate>,
    /// The metric at the checkpoints.
    pub at: Vec<AtIteration>,
    /// Whether the arm improves at the end on every control it was paired with; none when with none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_over_every_control: Option<bool>,
    /// Number of trials, failed ones among them.
    pub trials: usize,
    /// Trials without a value.
    pub failed_trials: usize,
    /// Trials by the source of their query.
    pub sources: BTreeMap<String, usize>,
    /// Seconds spent on proposing queries, all trials together.
    pub ask_seconds_total: f64,
    /// Seconds a proposal, in the mean over trials after the initial ones; 0 without such.
    pub ask_seconds_mean: f64,
    /// Wall-clock seconds of the arm, where measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_seconds: Option<f64>,
    /// Privacy spent, where there is something to spend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy: Option<PrivacySpent>,
}

/// The metric at one iteration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AtIteration {
    /// The iteration.
    pub iteration: i64,
    /// Over the units that reached it; none when none did.
    pub estimate: Option<Estimate>,
}

/// The paired difference arm − control, unit by unit, in the metric's own sign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The arm.
    pub arm: String,
    /// What it is compared with.
    pub control: String,
    /// The checkpoint; none for the end, the last iteration that both sides of a unit reached.
    pub iteration: Option<i64>,
    /// Over the units present on both sides; none when there are none.
    pub estimate: Option<Estimate>,
    /// Units of either arm that were dropped because the other side has no value for them.
    pub dropped: usize,
    /// What the numbers say.
    pub verdict: Verdict,
    /// Whether the verdict is a gain.
    pub gain: bool,
}

/// A difference counts when it exceeds two standard errors of at least three values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// More than two standard errors better than the control.
    Gain,
    /// More than two standard errors worse than the control.
    Loss,
    /// Neither, or too few units for a standard error.
    Unclear,
}

impl Verdict {
    fn of(estimate: Option<Estimate>, metric: Metric, direction: Direction) -> Self {
        let Some(Estimate {
            mean,
            standard_error: Some(standard_error),
            n: VALUES_MIN..,
        }) = estimate
        else {
            return Self::Unclear;
        };
        let improvement = metric.improvement(direction, mean);
        if improvement > 2.0 * standard_error {
            Self::Gain
        } else if -improvement > 2.0 * standard_error {
            Self::Loss
        } else {
            Self::Unclear
        }
    }
}

impl Summary {
    /// Writes `summary.json` into the folder.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), ReportError> {
        let path = folder.join(SUMMARY_FILE);
        let text = serde_json::to_string_pretty(self).map(|text| text + "\n");
        let text = text.map_err(|error| ReportError::Write {
            path: path.clone(),
            cause: error.into(),
        })?;
        write_whole(&path, text.as_bytes())
    }

    /// Reads the `summary.json` of a folder.
    ///
    /// # Errors
    /// When the file cannot be read or is not a summary of this version.
    pub fn read(folder: &Path) -> Result<Self, ReportError> {
        let path = folder.join(SUMMARY_FILE);
        let text = std::fs::read_to_string(&path).map_err(|cause| ReportError::Read {
            path: path.clone(),
            cause,
        })?;
        let malformed = |message| ReportError::Malformed {
            path: path.clone(),
            message,
        };
        let summary: Self =
            serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        if summary.schema_version != SUMMARY_SCHEMA_VERSION {
            let found = summary.schema_version;
            return Err(malformed(format!(
                "schema_version {found}, this program reads {SUMMARY_SCHEMA_VERSION}"
            )));
        }
        Ok(summary)
    }
}

/// Summarises the rows of one experiment.
#[must_use]
pub fn summarize(rows: &[Row], request: &SummaryRequest) -> Summary {
    let names = arm_names(rows);
    let by_arm: BTreeMap<&str, BTreeMap<Unit<'_>, Trace>> = names
        .iter()
        .map(|arm| (*arm, traces(rows, arm, request.metric)))
        .collect();
    let none = BTreeMap::new();
    let mut differences = Vec::new();
    for (arm, control) in &request.pairs {
        let sides = [arm, control].map(|name| by_arm.get(name.as_str()).unwrap_or(&none));
        for iteration in request.checkpoints.iter().copied().map(Some).chain([None]) {
            let (values, dropped) =
                paired_differences(sides[0], sides[1], iteration, request.clusters);
            let estimate = Estimate::of(&values);
            let verdict = Verdict::of(estimate, request.metric, request.direction);
            let gain = verdict == Verdict::Gain;
            let (arm, control) = (arm.clone(), control.clone());
            differences.push(Difference {
                arm,
                control,
                iteration,
                estimate,
                dropped,
                verdict,
                gain,
            });
        }
    }
    let arms = names
        .iter()
        .map(|arm| summarize_arm(rows, arm, &by_arm[arm], &differences, request))
        .collect();
    Summary {
        schema_version: SUMMARY_SCHEMA_VERSION,
        experiment: request.experiment.clone(),
        seed: request.seed,
        direction: request.direction,
        metric: request.metric,
        clusters: request.clusters,
        private: request.private,
        interrupted: false,
        arms,
        differences,
        configurations: Vec::new(),
        figure: request.figure.clone(),
        tradeoff: None,
    }
}

/// Summarises rows of several configurations, told apart by their `experiment` column, each with its own pairs.
#[must_use]
pub fn summarize_configurations(
    rows: &[Row],
    request: &SummaryRequest,
    pairs_of: impl Fn(&str) -> Vec<(String, String)>,
) -> Summary {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.experiment.as_str()) {
            names.push(&row.experiment);
        }
    }
    let configurations = names
        .into_iter()
        .map(|name| {
            let of_it: Vec<Row> = rows
                .iter()
                .filter(|row| row.experiment == name)
                .cloned()
                .collect();
            let request = SummaryRequest {
                experiment: name.to_owned(),
                pairs: pairs_of(name),
                figure: None,
                ..request.clone()
            };
            summarize(&of_it, &request)
        })
        .collect();
    Summary {
        configurations,
        ..summarize(
            &[],
            &SummaryRequest {
                pairs: Vec::new(),
                ..request.clone()
            },
        )
    }
}

fn summarize_arm(
    rows: &[Row],
    arm: &str,
    traces: &BTreeMap<Unit<'_>, Trace>,
    differences: &[Difference],
    request: &SummaryRequest,
) -> ArmSummary {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.arm == arm).collect();
    let values = |at: &dyn Fn(&Trace) -> Option<f64>| {
        let with_value = traces
            .iter()
            .filter_map(|(unit, trace)| Some((unit, at(trace)?)));
        request.clusters.means(with_value)
    };
    let mut sources = BTreeMap::new();
    for row in &rows {
        *sources.entry(row.source.clone()).or_default() += 1;
    }
    let asked: Vec<f64> = rows
        .iter()
        .filter(|row| row.iteration > 0)
        .map(|row| row.ask_seconds)
        .collect();
    let at_the_end: Vec<&Difference> = differences
        .iter()
        .filter(|difference| difference.arm == arm && difference.iteration.is_none())
        .collect();
    ArmSummary {
        arm: arm.to_owned(),
        n: traces.len(),
        last: Estimate::of(&values(&Trace::last)),
        at: request
            .checkpoints
            .iter()
            .map(|&iteration| AtIteration {
                iteration,
                estimate: Estimate::of(&values(&|trace| trace.at(iteration))),
            })
            .collect(),
        gain_over_every_control: (!at_the_end.is_empty())
            .then(|| at_the_end.iter().all(|difference| difference.gain)),
        trials: rows.len(),
        failed_trials: rows.iter().filter(|row| row.is_failed()).count(),
        sources,
        ask_seconds_total: rows.iter().map(|row| row.ask_seconds).sum(),
        ask_seconds_mean: Estimate::of(&asked).map_or(0.0, |estimate| estimate.mean),
        wall_seconds: request.wall_seconds.get(arm).copied(),
        privacy: request.privacy.get(arm).cloned(),
    }
}

/// arm − control for each unit that has both, and the number of units that have one side only or no value.
fn paired_differences(
    arm: &BTreeMap<Unit<'_>, Trace>,
    control: &BTreeMap<Unit<'_>, Trace>,
    iteration: Option<i64>,
    clusters: Clusters,
) -> (Vec<f64>, usize) {
    let difference = |unit: &Unit<'_>| {
        let (arm, control) = (arm.get(unit)?, control.get(unit)?);
        let last = arm.last_iteration().min(control.last_iteration())?;
        let iteration = iteration.unwrap_or(last);
        Some(arm.at(iteration)? - control.at(iteration)?)
    };
    let units: std::collections::BTreeSet<&Unit<'_>> = arm.keys().chain(control.keys()).collect();
    let differences: Vec<(&Unit<'_>, f64)> = units
        .iter()
        .filter_map(|unit| Some((*unit, difference(unit)?)))
        .collect();
    let dropped = units.len() - differences.len();
    (clusters.means(differences), dropped)
}

#[cfg(test)]
mod tests {
    use super::super::trace::tests::row;
    use super::*;

    fn request() -> SummaryRequest {
        SummaryRequest {
            experiment: "test".to_owned(),
            seed: 7,
            direction: Direction::Maximize,
            metric: Metric::Best,
            checkpoints: vec![1],
            pairs: vec![("fts".to_owned(), "ts".to_owned())],
            clusters: Clusters::Units,
            private: None,
            privacy: BTreeMap::new(),
            wall_seconds: BTreeMap::new(),
            figure: None,
        }
    }

    /// Three shared units; `fts` ends 2, 3 and 4 above `ts`, and at iteration 1 is 1 above, level and 1 below.
    fn rows() -> Vec<Row> {
        let mut rows = Vec::new();
        for (agent, run, ts, fts) in [
            ("a", 0, [1.0, 1.0], [2.0, 3.0]),
            ("a", 1, [2.0, 4.0], [2.0, 7.0]),
            ("b", 0, [3.0, 3.0], [2.0, 7.0]),
        ] {
            for (arm, values) in [("ts", ts), ("fts", fts)] {
                rows.push(row(arm, agent, run, 1, Some(values[0])));
                rows.push(row(arm, agent, run, 2, Some(values[1])));
            }
        }
        rows
    }

    fn close(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() < 1e-12,
            "{found} is not {expected}"
        );
    }

    fn check(found: Option<Estimate>, mean: f64, standard_error: f64, n: usize) {
        let found = found.expect("values");
        close(found.mean, mean);
        close(
            found.standard_error.expect("several values"),
            standard_error,
        );
        assert_eq!(found.n, n);
    }

    /// By hand: `fts` ends 2 and 4 above in run 0 (agents a and b), 3 above in run 1; run means 3 and 3.
    #[test]
    fn clusters_are_averaged_before_they_are_counted() {
        let by_runs = SummaryRequest {
            clusters: Clusters::Runs,
            ..request()
        };
        let last =
            |request: &SummaryRequest| summarize(&rows(), request).differences.pop().unwrap();
        check(last(&request()).estimate, 3.0, (1.0_f64 / 3.0).sqrt(), 3);
        check(last(&by_runs).estimate, 3.0, 0.0, 2);
        // Runs 0 and 1 of agent a are one design: mean of 2 and 3; agent b alone: 4.
        let by_designs = SummaryRequest {
            clusters: Clusters::Designs(1),
            ..request()
        };
        check(last(&by_designs).estimate, 3.25, 0.75, 2);
    }

    #[test]
    fn the_standard_error_divides_by_n_minus_one() {
        // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, Σ(v−5)² = 32, s² = 32/7, standard error √(32/7/8) = √(4/7).
        check(
            Estimate::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]),
            5.0,
            (4.0_f64 / 7.0).sqrt(),
            8,
        );
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(
            Estimate::of(&[3.0]),
            Some(Estimate {
                mean: 3.0,
                standard_error: None,
                n: 1
            })
        );
    }

    #[test]
    fn arms_and_differences_agree_with_a_hand_computation() {
        let summary = summarize(&rows(), &request());
        let ts = &summary.arms[0];
        assert_eq!(
            (ts.arm.as_str(), ts.n, ts.trials, ts.failed_trials),
            ("ts", 3, 6, 0)
        );
        // End of ts: 1, 4, 3: mean 8/3, Σ(v−8/3)² = 14/3, standard error √(14/3/2/3) = √7/3.
        check(ts.last, 8.0 / 3.0, 7.0_f64.sqrt() / 3.0, 3);
        check(ts.at[0].estimate, 2.0, 1.0 / 3.0_f64.sqrt(), 3);
        close(ts.ask_seconds_total, 3.0);
        close(ts.ask_seconds_mean, 0.5);
        let [first, last] = &summary.differences[..] else {
            panic!("a checkpoint and the end")
        };
        // 1, 0, −1: mean 0, s = 1. 2, 3, 4: mean 3, s = 1, twice the standard error 2/√3 ≈ 1.15 < 3.
        check(first.estimate, 0.0, 1.0 / 3.0_f64.sqrt(), 3);
        assert_eq!(
            (first.iteration, first.verdict, first.gain),
            (Some(1), Verdict::Unclear, false)
        );
        check(last.estimate, 3.0, 1.0 / 3.0_f64.sqrt(), 3);
        assert_eq!(
            (last.iteration, last.verdict, last.gain),
            (None, Verdict::Gain, true)
        );
        assert_eq!(summary.arms[1].gain_over_every_control, Some(true));
        assert_eq!(ts.gain_over_every_control, None);
    }

    #[test]
    fn a_gain_follows_the_direction_and_regret_improves_downwards() {
        let minimize = SummaryRequest {
            direction: Direction::Minimize,
            ..request()
        };
        assert_eq!(
            summarize(&rows(), &minimize).differences[1].verdict,
            Verdict::Loss
        );
        // The regret of the test rows is 1 − best: the difference changes its sign, the verdict does not.
        let regret = summarize(
            &rows(),
            &SummaryRequest {
                metric: Metric::Regret,
                ..minimize
            },
        );
        check(
            regret.differences[1].estimate,
            -3.0,
            1.0 / 3.0_f64.sqrt(),
            3,
        );
        assert_eq!(regret.differences[1].verdict, Verdict::Gain);
    }

    #[test]
    fn a_gain_must_exceed_two_standard_errors() {
        let estimate = |mean| {
            Some(Estimate {
                mean,
                standard_error: Some(1.0),
                n: 9,
            })
        };
        let verdict = |mean| Verdict::of(estimate(mean), Metric::Best, Direction::Maximize);
        assert_eq!(verdict(2.0), Verdict::Unclear);
        assert_eq!(verdict(2.0 + 1e-9), Verdict::Gain);
        assert_eq!(verdict(-2.0), Verdict::Unclear);
        assert_eq!(verdict(-2.0 - 1e-9), Verdict::Loss);
        let single = Some(Estimate {
            mean: 9.0,
            standard_error: None,
            n: 1,
        });
        assert_eq!(
            Verdict::of(single, Metric::Best, Direction::Maximize),
            Verdict::Unclear
        );
    }

    #[test]
    fn a_pair_that_lacks_a_side_is_dropped_and_counted() {
        let mut rows = rows();
        rows.push(row("fts", "c", 0, 1, Some(100.0))); // no ts
        rows.push(row("ts", "d", 0, 1, None)); // no value, and no fts
        let summary = summarize(&rows, &request());
        let last = &summary.differences[1];
        check(last.estimate, 3.0, 1.0 / 3.0_f64.sqrt(), 3);
        assert_eq!(last.dropped, 2);
        assert_eq!((summary.arms[0].n, summary.arms[0].failed_trials), (4, 1));
        let missing = SummaryRequest {
            pairs: vec![("fts".to_owned(), "placebo".to_owned())],
            ..request()
        };
        let missing = &summarize(&rows, &missing).differences[1];
        assert_eq!(
            (missing.estimate, missing.dropped, missing.gain),
            (None, 4, false)
        );
    }

    #[test]
    fn an_interrupted_unit_is_compared_where_both_sides_got_to() {
        let mut rows = rows();
        rows.retain(|row| !(row.arm == "fts" && row.agent == "b" && row.iteration == 2));
        // Unit (b, 0) is compared at iteration 1: 2, 3, −1.
        let last = &summarize(&rows, &request()).differences[1];
        check(last.estimate, 4.0 / 3.0, (13.0_f64 / 9.0).sqrt(), 3);
    }

    #[test]
    fn sources_are_counted_and_initial_proposals_do_not_dilute_the_time() {
        let mut rows = rows();
        rows.push(Row {
            ask_seconds: 0.0,
            ..row("ts", "a", 0, 0, Some(0.0))
        });
        let ts = &summarize(&rows, &request()).arms[0];
        assert_eq!(
            ts.sources,
            BTreeMap::from([("initial".to_owned(), 1), ("own".to_owned(), 6)])
        );
        close(ts.ask_seconds_mean, 0.5);
    }

    #[test]
    fn the_file_reads_back_and_promises_no_privacy() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let summary = summarize(&rows(), &request());
        summary.write(folder.path()).expect("a writable folder");
        assert_eq!(
            Summary::read(folder.path()).expect("a readable summary"),
            summary
        );
        let path = folder.path().join(SUMMARY_FILE);
        let text = std::fs::read_to_string(&path).expect("a readable file");
        assert!(
            !text.contains("priva"), // threat model, mode `plain`: nothing here may be read as a promise
            "{text}"
        );
        assert!(
            text.contains("\"schema_version\": 1") && text.contains("\"direction\": \"maximize\""),
            "{text}"
        );
        std::fs::write(
            &path,
            text.replace("\"schema_version\": 1", "\"schema_version\": 9"),
        )
        .expect("a writable file");
        let error = Summary::read(folder.path()).expect_err("another version");
        assert!(error.to_string().contains("schema_version 9"), "{error}");
    }
}
