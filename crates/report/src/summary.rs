//! `summary.json`: the results of a run, per arm and per pair of arms.

use std::collections::BTreeMap;
use std::path::Path;

use fedbo_space::Direction;
use serde::{Deserialize, Serialize};

use super::error::ReportError;
use super::figure::FigureSpec;
use super::folder::{remove, write_whole};
use super::metric::Metric;
use super::ranking::Ranking;
use super::row::Row;
use super::student::{Interval, holm};
use super::team_regret::TEAM_REGRET_FILE;
use super::trace::{Trace, Unit, arm_names, traces};
use super::tradeoff::TradeoffSpec;

/// File name of the summary in its folder.
pub const SUMMARY_FILE: &str = "summary.json";
/// Version of the summary's layout. It increases when a field is removed or changes its meaning.
///
/// In version 1, which is still supported, a verdict compares a difference with two standard
/// errors.
pub const SUMMARY_SCHEMA_VERSION: u32 = 2;
/// The oldest supported version.
const OLDEST_SCHEMA_VERSION: u32 = 1;

/// Minimum number of values for a difference to count: two values may agree by chance and then show
/// no spread.
pub(super) const VALUES_MIN: usize = 3;

/// Mean and standard error of n values.
///
/// mean = Σ v / n,   standard error = s / √n,   s² = Σ (v − mean)² / (n − 1)
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The standard error; `None` for a single value.
    pub standard_error: Option<f64>,
    /// The number of values.
    pub n: usize,
}

impl Estimate {
    /// Computes the estimate from the values; `None` if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let standard_error = (n > 1).then(|| (squares / (n - 1) as f64 / n as f64).sqrt());
        Some(Self { mean, standard_error, n })
    }
}

/// The clusters that count as one independent value in standard errors. Units in a cluster share
/// random draws and are averaged first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clusters {
    /// Each unit (agent, run), if agents do not influence each other.
    #[default]
    Units,
    /// Each run, if its agents share messages.
    Runs,
    /// Each agent over all its runs, for findings that should hold across tasks.
    Agents,
    /// Each agent and run index modulo this number: runs r, r + k, … repeat one design.
    Designs(u32),
}

impl Clusters {
    /// Returns the cluster of a unit.
    fn of<'a>(self, (experiment, agent, run): &Unit<'a>) -> Unit<'a> {
        match self {
            Self::Units => (experiment, agent, *run),
            Self::Runs => (experiment, "", *run),
            Self::Agents => (experiment, agent, 0),
            Self::Designs(n) => (experiment, agent, run % n.max(1)),
        }
    }

    /// Returns the mean of each cluster's values.
    pub(super) fn means<'a>(
        self,
        values: impl IntoIterator<Item = (&'a Unit<'a>, f64)>,
    ) -> Vec<f64> {
        let mut clusters: BTreeMap<Unit<'a>, (f64, f64)> = BTreeMap::new();
        for (unit, value) in values {
            let (sum, n) = clusters.entry(self.of(unit)).or_default();
            *sum += value;
            *n += 1.0;
        }
        clusters.into_values().map(|(sum, n)| sum / n).collect()
    }
}

/// A comparison that the experiment was designed for, declared in its code before any run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryComparison {
    /// The configuration, as in the `experiment` column.
    pub experiment: String,
    /// The arm.
    pub arm: String,
    /// The control arm.
    pub control: String,
    /// The checkpoint.
    pub iteration: i64,
}

impl PrimaryComparison {
    /// Returns true if this declares the given difference in this configuration.
    fn is(&self, experiment: &str, difference: &Difference) -> bool {
        let Difference { arm, control, iteration, .. } = difference;
        self.experiment == experiment
            && (&self.arm, &self.control) == (arm, control)
            && Some(self.iteration) == *iteration
    }
}

/// The input of [`summarize`] in addition to the rows.
#[derive(Clone, Debug)]
pub struct SummaryRequest {
    /// Name of the experiment.
    pub experiment: String,
    /// The root seed of all random streams.
    pub seed: u64,
    /// The direction of optimization.
    pub direction: Direction,
    /// Best value or regret.
    pub metric: Metric,
    /// Iterations at which arms are compared, in addition to the end.
    pub checkpoints: Vec<i64>,
    /// Pairs (arm, control). If an arm of a pair has no rows, the pair's differences have no units.
    pub pairs: Vec<(String, String)>,
    /// The comparisons that the experiment was designed for, corrected separately from the others;
    /// empty if all comparisons have the same rank.
    pub primary: Vec<PrimaryComparison>,
    /// The clusters that count as one value.
    pub clusters: Clusters,
    /// True if differential privacy protected the agents' messages; false for a simulation; `None`
    /// if not applicable. Plain FTS is not private.
    pub private: Option<bool>,
    /// Privacy spent per arm; empty if none was spent.
    pub privacy: BTreeMap<String, PrivacySpent>,
    /// Wall-clock seconds per arm, where measured.
    pub wall_seconds: BTreeMap<String, f64>,
    /// The picture settings of this folder.
    pub figure: Option<FigureSpec>,
}

impl SummaryRequest {
    /// Creates a request for a summary without comparisons, privacy, times or pictures. Each unit
    /// counts as one value.
    #[must_use]
    pub fn new(
        experiment: impl Into<String>,
        seed: u64,
        direction: Direction,
        metric: Metric,
    ) -> Self {
        Self {
            experiment: experiment.into(),
            seed,
            direction,
            metric,
            checkpoints: Vec::new(),
            pairs: Vec::new(),
            primary: Vec::new(),
            clusters: Clusters::Units,
            private: None,
            privacy: BTreeMap::new(),
            wall_seconds: BTreeMap::new(),
            figure: None,
        }
    }
}

/// The privacy that an arm spent: ε, with everything needed to interpret it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrivacySpent {
    /// ε of all releases, an upper bound at `delta`.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// The adjacency of rosters: `zero-out` or `replace-one`.
    pub adjacency: String,
    /// Number of releases made.
    pub releases: u64,
    /// Number of planned releases. It exceeds `releases` if the run was interrupted, ended early or
    /// exhausted its budget.
    pub planned_releases: u64,
    /// Maximum number of releases per agent, if limited; `epsilon` is then the cost of this number
    /// of releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub participations: Option<u64>,
    /// The accountant that computed ε.
    pub accountant: String,
    /// The mode of the guarantee: `default` or `paper`.
    pub mode: String,
    /// The budget ε.
    pub budget_epsilon: f64,
    /// The ledger's head at the end, as `SEQ:HASH`.
    pub ledger_head: String,
}

/// The content of `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// See [`SUMMARY_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Name of the experiment.
    pub experiment: String,
    /// The root seed of all random streams.
    pub seed: u64,
    /// The direction of optimization.
    pub direction: Direction,
    /// The metric of `final`, `at` and `differences`.
    pub metric: Metric,
    /// The clusters that count as one value in means and standard errors.
    #[serde(default)]
    pub clusters: Clusters,
    /// True if differential privacy protected the agents' messages; absent if not applicable. False
    /// for a simulation, since simulated noise protects nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private: Option<bool>,
    /// True if the run was interrupted. The arms then contain the results up to that point.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The arms, in the order of the file.
    pub arms: Vec<ArmSummary>,
    /// Paired differences: for each pair, first at the checkpoints, then at the end.
    pub differences: Vec<Difference>,
    /// Number of comparisons in Holm's correction: all paired differences of the experiment that
    /// have a p-value, over all configurations, except primary ones.
    ///
    /// The end does not count separately if it is a checkpoint of all units.
    #[serde(default)]
    pub comparisons: usize,
    /// Number of primary comparisons, which are corrected separately; absent if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub primary_comparisons: usize,
    /// One summary per configuration, if the experiment has several. In that case `arms` and
    /// `differences` are empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configurations: Vec<Summary>,
    /// Ranks, quantiles and signs over tasks, if the experiment has tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranking: Option<Ranking>,
    /// The picture settings of this folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<FigureSpec>,
    /// Settings for the picture of final metrics against costs, if there is one. Set by the code
    /// that computes the costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tradeoff: Option<TradeoffSpec>,
}

/// One arm over its units, which are pairs (agent, run).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmSummary {
    /// Name of the arm.
    pub arm: String,
    /// Number of units, with or without a value. Each estimate has its own count `n`.
    pub n: usize,
    /// The metric at the end of each unit; `None` if no trial succeeded.
    #[serde(rename = "final")]
    pub last: Option<Estimate>,
    /// The metric at the checkpoints.
    pub at: Vec<AtIteration>,
    /// True if the arm is better at the end than every control with which it was paired; `None`
    /// without controls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_over_every_control: Option<bool>,
    /// Number of trials, including failed ones.
    pub trials: usize,
    /// Trials without a value.
    pub failed_trials: usize,
    /// Number of trials by source of their query.
    pub sources: BTreeMap<String, usize>,
    /// Seconds spent proposing queries, over all trials.
    pub ask_seconds_total: f64,
    /// Mean seconds per proposal over the trials after the initial ones; 0 if there are none.
    pub ask_seconds_mean: f64,
    /// Wall-clock seconds of the arm, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_seconds: Option<f64>,
    /// Privacy spent, if there is a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy: Option<PrivacySpent>,
}

/// The metric at one iteration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AtIteration {
    /// The iteration.
    pub iteration: i64,
    /// Estimate over the units that reached it; `None` if none did.
    pub estimate: Option<Estimate>,
}

/// The paired difference arm − control over units, with the sign of the metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The arm.
    pub arm: String,
    /// The control arm.
    pub control: String,
    /// The checkpoint; `None` for the end, which is the last iteration that both sides of a unit
    /// reached.
    pub iteration: Option<i64>,
    /// Estimate over the units present on both sides; `None` if there are none.
    pub estimate: Option<Estimate>,
    /// Student's 95 % confidence interval of this difference, uncorrected, with n − 1 degrees of
    /// freedom; `None` for fewer than two values.
    #[serde(default)]
    pub interval: Option<Interval>,
    /// Two-sided p-value of Student's paired t-test, uncorrected; `None` for fewer than two values.
    #[serde(default)]
    pub p_value: Option<f64>,
    /// The p-value after Holm's correction over [`Summary::comparisons`], or [`Summary::primary_comparisons`].
    #[serde(default)]
    pub p_adjusted: Option<f64>,
    /// True if the comparison was declared in advance; absent from the file otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub primary: bool,
    /// Index of the checkpoint that coincides with the end, so that both are the same comparison;
    /// `None` otherwise.
    #[serde(skip)]
    repeats: Option<usize>,
    /// Number of units dropped because one side has no value.
    pub dropped: usize,
    /// The verdict that follows from the numbers.
    pub verdict: Verdict,
    /// True if the verdict is a gain.
    pub gain: bool,
}

/// The verdict on a difference.
///
/// A difference counts if there are at least three values and its p-value, after Holm's correction
/// over the comparisons of its rank, is below 5 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Better than the control.
    Gain,
    /// Worse than the control.
    Loss,
    /// Neither a gain nor a loss is shown, or there are too few values.
    #[default]
    Unclear,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Difference {
    /// Sets the verdict from the adjusted p-value.
    fn judge(&mut self, metric: Metric, direction: Direction) {
        let Some(estimate) = self.estimate else {
            return;
        };
        let improvement = metric.improvement(direction, estimate.mean);
        self.verdict = match estimate.differs_from_zero(self.p_adjusted) {
            true if improvement > 0.0 => Verdict::Gain,
            true if improvement < 0.0 => Verdict::Loss,
            _ => Verdict::Unclear,
        };
        self.gain = self.verdict == Verdict::Gain;
    }
}

impl Summary {
    /// Writes `summary.json` into the folder.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), ReportError> {
        let path = folder.join(SUMMARY_FILE);
        let text = serde_json::to_string_pretty(self).map(|text| text + "\n");
        let text =
            text.map_err(|error| ReportError::Write { path: path.clone(), cause: error.into() })?;
        write_whole(&path, text.as_bytes())
    }

    /// Marks the summary of a folder as outdated when a run resumes, and removes the team regret,
    /// which is rewritten at the end.
    ///
    /// A file that is not a summary or is not readable is unchanged.
    ///
    /// # Errors
    /// Fails if a file cannot be written or removed.
    pub fn mark_outdated(folder: &Path) -> Result<(), ReportError> {
        remove(&folder.join(TEAM_REGRET_FILE))?;
        let path = folder.join(SUMMARY_FILE);
        let bytes = std::fs::read(&path).unwrap_or_default();
        let Ok(mut summary) = serde_json::from_slice::<serde_json::Map<_, _>>(&bytes) else {
            return Ok(());
        };
        summary.insert("interrupted".to_owned(), true.into());
        let text = serde_json::Value::from(summary);
        write_whole(&path, format!("{text:#}\n").as_bytes())
    }

    /// Reads the `summary.json` of a folder.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not a summary of a supported version.
    pub fn read(folder: &Path) -> Result<Self, ReportError> {
        let path = folder.join(SUMMARY_FILE);
        let text = std::fs::read_to_string(&path)
            .map_err(|cause| ReportError::Read { path: path.clone(), cause })?;
        let malformed = |message| ReportError::Malformed { path: path.clone(), message };
        let summary: Self =
            serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        let found = summary.schema_version;
        if !(OLDEST_SCHEMA_VERSION..=SUMMARY_SCHEMA_VERSION).contains(&found) {
            return Err(malformed(format!(
                "schema_version {found}, this program reads {OLDEST_SCHEMA_VERSION} to {SUMMARY_SCHEMA_VERSION}"
            )));
        }
        Ok(summary)
    }
}

/// Summarises the rows of one experiment.
#[must_use]
pub fn summarize(rows: &[Row], request: &SummaryRequest) -> Summary {
    let mut summary = compare(rows, request);
    judge(std::slice::from_mut(&mut summary));
    summary
}

/// Applies Holm's correction per rank over all comparisons in these parts of an experiment, and
/// sets the verdicts.
fn judge(parts: &mut [Summary]) {
    let n_primary = correct(parts, true);
    let n_others = correct(parts, false);
    for part in parts {
        (part.primary_comparisons, part.comparisons) = (n_primary, n_others);
        for index in 0..part.differences.len() {
            if let Some(checkpoint) = part.differences[index].repeats {
                part.differences[index].p_adjusted = part.differences[checkpoint].p_adjusted;
            }
        }
        for difference in &mut part.differences {
            difference.judge(part.metric, part.direction);
        }
        for arm in &mut part.arms {
            let mut at_the_end = part
                .differences
                .iter()
                .filter(|each| each.arm == arm.arm && each.iteration.is_none())
                .peekable();
            arm.gain_over_every_control =
                at_the_end.peek().is_some().then(|| at_the_end.all(|difference| difference.gain));
        }
    }
}

/// Applies Holm's correction over the comparisons of one rank, and returns their number.
fn correct(parts: &mut [Summary], primary: bool) -> usize {
    let all = parts.iter_mut().flat_map(|part| &mut part.differences);
    let is_of_it = |each: &&mut Difference| {
        each.primary == primary && each.p_value.is_some() && each.repeats.is_none()
    };
    let mut found: Vec<&mut Difference> = all.filter(is_of_it).collect();
    let p_values: Vec<Option<f64>> = found.iter().map(|each| each.p_value).collect();
    for (each, adjusted) in found.iter_mut().zip(holm(&p_values)) {
        each.p_adjusted = adjusted;
    }
    found.len()
}

/// Creates a summary without verdicts.
fn compare(rows: &[Row], request: &SummaryRequest) -> Summary {
    let names = arm_names(rows);
    let by_arm: BTreeMap<&str, BTreeMap<Unit<'_>, Trace>> =
        names.iter().map(|arm| (*arm, traces(rows, arm, request.metric))).collect();
    let none = BTreeMap::new();
    let mut differences = Vec::new();
    for (arm, control) in &request.pairs {
        let sides = [arm, control].map(|name| by_arm.get(name.as_str()).unwrap_or(&none));
        let end = common_end(sides[0], sides[1]);
        for iteration in request.checkpoints.iter().copied().map(Some).chain([None]) {
            let (values, dropped) =
                paired_differences(sides[0], sides[1], iteration, request.clusters);
            let estimate = Estimate::of(&values);
            let of_pair = |each: &Difference| (&each.arm, &each.control) == (arm, control);
            let is_end = |each: &Difference| iteration.is_none() && end == each.iteration;
            let repeats =
                end.and_then(|_| differences.iter().rposition(|e| of_pair(e) && is_end(e)));
            let mut difference = Difference {
                arm: arm.clone(),
                control: control.clone(),
                iteration,
                estimate,
                interval: estimate.and_then(|found| found.interval()),
                p_value: estimate.and_then(|found| found.p_value()),
                p_adjusted: None,
                primary: false,
                repeats,
                dropped,
                verdict: Verdict::default(),
                gain: false,
            };
            difference.primary = match repeats {
                Some(checkpoint) => differences[checkpoint].primary,
                None => {
                    let mut primary = request.primary.iter();
                    primary.any(|primary| primary.is(&request.experiment, &difference))
                }
            };
            differences.push(difference);
        }
    }
    let arms = names.iter().map(|arm| summarize_arm(rows, arm, &by_arm[arm], request)).collect();
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
        comparisons: 0,
        primary_comparisons: 0,
        configurations: Vec::new(),
        ranking: None,
        figure: request.figure.clone(),
        tradeoff: None,
    }
}

/// Summarises rows of several configurations, which the `experiment` column distinguishes. Each
/// configuration has its own pairs.
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
    let mut configurations: Vec<Summary> = names
        .into_iter()
        .map(|name| {
            let of_it: Vec<Row> =
                rows.iter().filter(|row| row.experiment == name).cloned().collect();
            let request = SummaryRequest {
                experiment: name.to_owned(),
                pairs: pairs_of(name),
                figure: None,
                ..request.clone()
            };
            compare(&of_it, &request)
        })
        .collect();
    judge(&mut configurations);
    Summary {
        comparisons: configurations.first().map_or(0, |part| part.comparisons),
        primary_comparisons: configurations.first().map_or(0, |part| part.primary_comparisons),
        configurations,
        ..summarize(&[], &SummaryRequest { pairs: Vec::new(), ..request.clone() })
    }
}

fn summarize_arm(
    rows: &[Row],
    arm: &str,
    traces: &BTreeMap<Unit<'_>, Trace>,
    request: &SummaryRequest,
) -> ArmSummary {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.arm == arm).collect();
    let values = |at: &dyn Fn(&Trace) -> Option<f64>| {
        let with_value = traces.iter().filter_map(|(unit, trace)| Some((unit, at(trace)?)));
        request.clusters.means(with_value)
    };
    let mut sources = BTreeMap::new();
    for row in &rows {
        // The trust value after "shared" differs by row, so it is not part of the source.
        let source = row.source.split_once(':').filter(|(kind, _)| *kind == "shared");
        let source = source.map_or(row.source.as_str(), |(kind, _)| kind);
        *sources.entry(source.to_owned()).or_default() += 1;
    }
    let asked: Vec<f64> =
        rows.iter().filter(|row| row.iteration > 0).map(|row| row.ask_seconds).collect();
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
        gain_over_every_control: None,
        trials: rows.len(),
        failed_trials: rows.iter().filter(|row| row.is_failed()).count(),
        sources,
        ask_seconds_total: rows.iter().map(|row| row.ask_seconds).sum(),
        ask_seconds_mean: Estimate::of(&asked).map_or(0.0, |estimate| estimate.mean),
        wall_seconds: request.wall_seconds.get(arm).copied(),
        privacy: request.privacy.get(arm).cloned(),
    }
}

/// Returns the last iteration that both sides of a unit reached, if it is the same for all units;
/// `None` otherwise.
fn common_end(arm: &BTreeMap<Unit<'_>, Trace>, control: &BTreeMap<Unit<'_>, Trace>) -> Option<i64> {
    let both = arm.iter().filter_map(|(unit, trace)| Some((trace, control.get(unit)?)));
    let mut ends = both.map(|(arm, control)| arm.last_iteration().min(control.last_iteration()));
    let first = ends.next()?;
    ends.all(|end| end == first).then_some(first).flatten()
}

/// Returns arm − control over the units with values on both sides, averaged by cluster, and the
/// number of the other units.
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
    let differences: Vec<(&Unit<'_>, f64)> =
        units.iter().filter_map(|unit| Some((*unit, difference(unit)?))).collect();
    let dropped = units.len() - differences.len();
    (clusters.means(differences), dropped)
}

#[cfg(test)]
mod tests {
    use super::super::trace::tests::row;
    use super::*;

    fn request() -> SummaryRequest {
        SummaryRequest {
            checkpoints: vec![1],
            pairs: vec![("fts".to_owned(), "ts".to_owned())],
            ..SummaryRequest::new("test", 7, Direction::Maximize, Metric::Best)
        }
    }

    fn at_the_end() -> SummaryRequest {
        SummaryRequest { checkpoints: Vec::new(), ..request() }
    }

    /// Creates rows with three shared units. `fts` ends 2, 3 and 4 above `ts`; at iteration 1 it is
    /// 1 above, equal and 1 below.
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
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }

    fn check(found: Option<Estimate>, mean: f64, standard_error: f64, n: usize) {
        let found = found.expect("values");
        close(found.mean, mean);
        close(found.standard_error.expect("several values"), standard_error);
        assert_eq!(found.n, n);
    }

    /// Checked by hand: `fts` ends 2 and 4 above `ts` in run 0 (agents a and b), and 3 above in
    /// run 1, so both run means are 3.
    #[test]
    fn clusters_are_averaged_before_they_are_counted() {
        let by_runs = SummaryRequest { clusters: Clusters::Runs, ..request() };
        let last =
            |request: &SummaryRequest| summarize(&rows(), request).differences.pop().unwrap();
        check(last(&request()).estimate, 3.0, (1.0_f64 / 3.0).sqrt(), 3);
        check(last(&by_runs).estimate, 3.0, 0.0, 2);
        // Runs 0 and 1 of agent a are one design, with the mean of 2 and 3. Agent b has only 4.
        let by_designs = SummaryRequest { clusters: Clusters::Designs(1), ..request() };
        check(last(&by_designs).estimate, 3.25, 0.75, 2);
    }

    #[test]
    fn the_standard_error_divides_by_n_minus_one() {
        // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, Σ(v−5)² = 32, s² = 32/7, standard error √(32/7/8) =
        // √(4/7).
        check(
            Estimate::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]),
            5.0,
            (4.0_f64 / 7.0).sqrt(),
            8,
        );
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[3.0]), Some(Estimate { mean: 3.0, standard_error: None, n: 1 }));
    }

    #[test]
    fn arms_and_differences_agree_with_a_hand_computation() {
        let summary = summarize(&rows(), &request());
        let ts = &summary.arms[0];
        assert_eq!((ts.arm.as_str(), ts.n, ts.trials, ts.failed_trials), ("ts", 3, 6, 0));
        // End of ts: 1, 4, 3: mean 8/3, Σ(v−8/3)² = 14/3, standard error √(14/3/2/3) = √7/3.
        check(ts.last, 8.0 / 3.0, 7.0_f64.sqrt() / 3.0, 3);
        check(ts.at[0].estimate, 2.0, 1.0 / 3.0_f64.sqrt(), 3);
        close(ts.ask_seconds_total, 3.0);
        close(ts.ask_seconds_mean, 0.5);
        let [first, last] = &summary.differences[..] else { panic!("a checkpoint and the end") };
        // 1, 0, −1: mean 0, s = 1. 2, 3, 4: mean 3, s = 1.
        check(first.estimate, 0.0, 1.0 / 3.0_f64.sqrt(), 3);
        assert_eq!(
            (first.iteration, first.verdict, first.gain),
            (Some(1), Verdict::Unclear, false)
        );
        check(last.estimate, 3.0, 1.0 / 3.0_f64.sqrt(), 3);
        // The difference is not a gain after correction for two comparisons, but is a gain as a
        // single comparison.
        assert_eq!((last.iteration, last.verdict, last.gain), (None, Verdict::Unclear, false));
        assert_eq!(summary.arms[1].gain_over_every_control, Some(false));
        assert_eq!(ts.gain_over_every_control, None);
        let alone = summarize(&rows(), &at_the_end());
        let last = &alone.differences[0];
        assert_eq!((last.verdict, last.gain), (Verdict::Gain, true));
        assert_eq!(alone.arms[1].gain_over_every_control, Some(true));
    }

    #[test]
    fn a_gain_follows_the_direction_and_regret_improves_downwards() {
        let minimize = SummaryRequest { direction: Direction::Minimize, ..at_the_end() };
        assert_eq!(summarize(&rows(), &minimize).differences[0].verdict, Verdict::Loss);
        // The regret of the test rows is 1 − best: the sign of the difference changes, but the
        // verdict does not.
        let regret = summarize(&rows(), &SummaryRequest { metric: Metric::Regret, ..minimize });
        check(regret.differences[0].estimate, -3.0, 1.0 / 3.0_f64.sqrt(), 3);
        assert_eq!(regret.differences[0].verdict, Verdict::Gain);
    }

    /// The 0.975 quantile of Student's distribution with 8 degrees of freedom is 2.306: two
    /// standard errors are not enough.
    #[test]
    fn a_gain_must_exceed_students_quantile() {
        let verdict = |mean: f64, n, p_adjusted: Option<f64>| {
            let estimate = Estimate { mean, standard_error: Some(1.0), n };
            let mut difference = Difference {
                arm: "fts".to_owned(),
                control: "ts".to_owned(),
                iteration: None,
                estimate: Some(estimate),
                interval: estimate.interval(),
                p_value: estimate.p_value(),
                p_adjusted: p_adjusted.or(estimate.p_value()),
                primary: false,
                repeats: None,
                dropped: 0,
                verdict: Verdict::Unclear,
                gain: false,
            };
            difference.judge(Metric::Best, Direction::Maximize);
            assert_eq!(difference.gain, difference.verdict == Verdict::Gain);
            difference.verdict
        };
        assert_eq!(verdict(2.3, 9, None), Verdict::Unclear);
        assert_eq!(verdict(2.31, 9, None), Verdict::Gain);
        assert_eq!(verdict(-2.3, 9, None), Verdict::Unclear);
        assert_eq!(verdict(-2.31, 9, None), Verdict::Loss);
        assert_eq!(verdict(2.31, 9, Some(0.06)), Verdict::Unclear, "after the correction");
        assert_eq!(verdict(1e9, 2, None), Verdict::Unclear, "two values may happen to agree");
    }

    /// Checked by hand: at iteration 1 the differences are 1, 0, −1, so p = 1. At the end they are
    /// 2, 3, 4, so t = 3√3 with 2 degrees of freedom and p = 1 − t/√(2 + t²) = 0.0351. Corrected
    /// for two comparisons: 2 · 0.0351 = 0.0702.
    #[test]
    fn the_correction_is_over_all_comparisons_of_all_configurations() {
        let t = 3.0 * 3.0_f64.sqrt();
        let p = 1.0 - t / (2.0 + t * t).sqrt();
        let one = summarize(&rows(), &at_the_end());
        assert_eq!((one.comparisons, one.differences[0].verdict), (1, Verdict::Gain));
        close(one.differences[0].p_adjusted.expect("three values"), p);
        let two = summarize(&rows(), &request());
        assert_eq!((two.comparisons, two.differences[1].verdict), (2, Verdict::Unclear));
        close(two.differences[1].p_value.expect("three values"), p);
        close(two.differences[1].p_adjusted.expect("three values"), 2.0 * p);

        let mut rows = rows();
        let other = rows.iter().map(|row| Row { experiment: "other".to_owned(), ..row.clone() });
        rows.extend(other.collect::<Vec<_>>());
        let request = at_the_end();
        let both = summarize_configurations(&rows, &request, |_| request.pairs.clone());
        assert_eq!(both.comparisons, 2);
        for part in &both.configurations {
            assert_eq!(part.comparisons, 2);
            close(part.differences[0].p_adjusted.expect("three values"), 2.0 * p);
            assert_eq!(part.arms[1].gain_over_every_control, Some(false));
        }
    }

    /// Uses the comparisons of [`request`]. The end coincides with the second checkpoint, at
    /// iteration 2, so it is not a third comparison. If the second comparison is declared in
    /// advance, each one is the only comparison of its rank.
    #[test]
    fn the_correction_is_by_rank_and_counts_no_comparison_twice() {
        let p = |difference: &Difference| difference.p_value.expect("three values");
        let twice = SummaryRequest { checkpoints: vec![1, 2], ..request() };
        let found = summarize(&rows(), &twice);
        assert_eq!((found.comparisons, found.primary_comparisons), (2, 0));
        let [_, checkpoint, end] = &found.differences[..] else { panic!("three differences") };
        assert_eq!((end.p_adjusted, end.verdict), (checkpoint.p_adjusted, checkpoint.verdict));
        close(end.p_adjusted.expect("three values"), 2.0 * p(checkpoint));

        let primary = PrimaryComparison {
            experiment: "test".to_owned(),
            arm: "fts".to_owned(),
            control: "ts".to_owned(),
            iteration: 2,
        };
        let elsewhere = PrimaryComparison { experiment: "other".to_owned(), ..primary.clone() };
        let declared = SummaryRequest { primary: vec![primary, elsewhere], ..twice };
        let found = summarize(&rows(), &declared);
        assert_eq!((found.comparisons, found.primary_comparisons), (1, 1));
        let [first, checkpoint, end] = &found.differences[..] else { panic!("three differences") };
        assert_eq!((first.primary, checkpoint.primary, end.primary), (false, true, true));
        for each in [first, checkpoint] {
            assert_eq!(each.p_adjusted, each.p_value);
        }
        assert_eq!((end.p_adjusted, end.verdict), (checkpoint.p_value, Verdict::Gain));
    }

    #[test]
    fn a_pair_that_lacks_a_side_is_dropped_and_counted() {
        let mut rows = rows();
        rows.push(row("fts", "c", 0, 1, Some(100.0))); // not in ts
        rows.push(row("ts", "d", 0, 1, None)); // no value, and not in fts
        let summary = summarize(&rows, &request());
        let last = &summary.differences[1];
        check(last.estimate, 3.0, 1.0 / 3.0_f64.sqrt(), 3);
        assert_eq!(last.dropped, 2);
        assert_eq!((summary.arms[0].n, summary.arms[0].failed_trials), (4, 1));
        let missing =
            SummaryRequest { pairs: vec![("fts".to_owned(), "placebo".to_owned())], ..request() };
        let missing = &summarize(&rows, &missing).differences[1];
        assert_eq!((missing.estimate, missing.dropped, missing.gain), (None, 4, false));
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
        rows.push(Row { ask_seconds: 0.0, ..row("ts", "a", 0, 0, Some(0.0)) });
        let ts = &summarize(&rows, &request()).arms[0];
        assert_eq!(ts.sources, BTreeMap::from([("initial".to_owned(), 1), ("own".to_owned(), 6)]));
        close(ts.ask_seconds_mean, 0.5);
    }

    #[test]
    fn the_file_reads_back_and_promises_no_privacy() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let summary = summarize(&rows(), &request());
        summary.write(folder.path()).expect("a writable folder");
        assert_eq!(Summary::read(folder.path()).expect("a readable summary"), summary);
        let path = folder.path().join(SUMMARY_FILE);
        let text = std::fs::read_to_string(&path).expect("a readable file");
        assert!(
            !text.contains("priva"), // threat model, mode `plain`: the file must not suggest any privacy
            "{text}"
        );
        assert!(
            text.contains("\"schema_version\": 2") && text.contains("\"direction\": \"maximize\""),
            "{text}"
        );
        let of_version = |version: &str| {
            let text =
                text.replace("\"schema_version\": 2", &format!("\"schema_version\": {version}"));
            std::fs::write(&path, text).expect("a writable file");
        };
        of_version("9");
        let error = Summary::read(folder.path()).expect_err("another version");
        assert!(error.to_string().contains("schema_version 9"), "{error}");
        of_version("1");
        assert!(Summary::read(folder.path()).is_ok());
    }

    /// Files from before Student's t-test have neither intervals nor p-values, and the reader does
    /// not add them.
    #[test]
    fn a_file_without_p_values_is_read() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut old = serde_json::to_value(summarize(&rows(), &at_the_end())).expect("JSON");
        old["schema_version"] = 1.into();
        old.as_object_mut().expect("a summary").remove("comparisons").expect("a count");
        for name in ["interval", "p_value", "p_adjusted"] {
            let difference = old["differences"][0].as_object_mut().expect("a difference");
            difference.remove(name).expect("a field");
        }
        std::fs::write(folder.path().join(SUMMARY_FILE), old.to_string()).expect("a writable file");
        let read = Summary::read(folder.path()).expect("a readable summary");
        let found = &read.differences[0];
        assert_eq!((found.interval, found.p_value, found.p_adjusted), (None, None, None));
        assert_eq!((read.comparisons, found.verdict), (0, Verdict::Gain));
        check(found.estimate, 3.0, 1.0 / 3.0_f64.sqrt(), 3);
    }
}
