//! Comparison of arms over many tasks without a common unit: ranks, quantiles, and wins, ties and
//! losses with the sign test.
//!
//! A row's task is its agent. If outcomes span orders of magnitude, a few tasks dominate a
//! difference of means. Ranks and signs count each task once.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};
use statrs::function::beta::beta_reg;

use super::metric::Metric;
use super::row::Row;
use super::student::{LEVEL, holm};
use super::summary::{Clusters, Summary, Verdict};
use super::table::p_value_text;
use super::trace::{Trace, Unit, arm_names, traces};

/// The quantiles in the table.
const SHARES: [f64; 5] = [0.1, 0.25, 0.5, 0.75, 0.9];

/// The input of [`Summary::rank`] in addition to the rows.
#[derive(Clone, Debug)]
pub struct RankingRequest {
    /// The control arm.
    pub control: String,
    /// Iterations at which arms are ranked, in addition to the end.
    pub checkpoints: Vec<i64>,
    /// The groups of each task, by task name. A task may belong to groups in several groupings.
    pub groups: BTreeMap<String, Vec<TaskGroup>>,
}

/// A group of tasks, such as those with five dimensions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskGroup {
    /// The grouping, such as "dimensions".
    pub by: String,
    /// The group's name within its grouping.
    pub name: String,
}

/// Ranks, quantiles and signs of the arms in one configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// Mean ranks over all tasks and per group, at each checkpoint and at the end.
    pub ranks: Vec<MeanRanks>,
    /// Quantiles of the metric per arm, at each checkpoint and at the end.
    pub quantiles: Vec<Quantiles>,
    /// Wins, ties and losses of each arm against the control, over all tasks and per group, at each
    /// checkpoint and at the end.
    pub signs: Vec<Signs>,
    /// Number of sign tests in Holm's correction: all tests over all tasks, in all configurations
    /// together.
    pub comparisons: usize,
}

/// The mean rank of each arm over tasks and runs. Rank 1 is the best. Arms with equal outcomes
/// share the mean of their ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanRanks {
    /// The checkpoint; `None` for the end.
    pub iteration: Option<i64>,
    /// The group; `None` for all tasks.
    pub group: Option<TaskGroup>,
    /// Number of tasks with at least one run in which every arm has an outcome.
    pub tasks: usize,
    /// Each arm with its mean rank, in the order of the file. A task counts once: its runs are
    /// averaged first.
    pub arms: Vec<(String, f64)>,
}

/// Quantiles over all tasks and runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// The checkpoint; `None` for the end.
    pub iteration: Option<i64>,
    /// The arm.
    pub arm: String,
    /// Number of outcomes.
    pub n: usize,
    /// Pairs of probability and quantile.
    pub values: Vec<(f64, f64)>,
}

/// Wins, ties and losses against the control. Each task counts once, with the mean of its paired
/// differences over runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signs {
    /// The checkpoint; `None` for the end.
    pub iteration: Option<i64>,
    /// The group; `None` for all tasks.
    pub group: Option<TaskGroup>,
    /// The arm.
    pub arm: String,
    /// The control arm.
    pub control: String,
    /// Tasks on which the arm is better.
    pub wins: usize,
    /// Tasks with equal outcomes.
    pub ties: usize,
    /// Tasks on which the arm is worse.
    pub losses: usize,
    /// Two-sided p-value of the sign test, uncorrected; `None` if all tasks are ties.
    pub p_value: Option<f64>,
    /// The p-value after Holm's correction over [`Ranking::comparisons`]; `None` for a group, which
    /// is only descriptive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_adjusted: Option<f64>,
    /// Gain or loss if the adjusted p-value is below 5 %.
    pub verdict: Verdict,
}

/// Returns the p-value of the sign test: the probability of at least as large a majority if wins
/// and losses are equally likely, without ties:
///
/// p = min(1, 2 P(K ≤ k)),   K ~ Bin(n, 1/2),   P(K ≤ k) = I(1/2; n − k, k + 1),   k = min(wins,
/// losses),   n = wins + losses
///
/// with I the regularized incomplete beta function. `None` for n = 0.
#[must_use]
pub fn sign_test(wins: usize, losses: usize) -> Option<f64> {
    let (n, k) = (wins + losses, wins.min(losses));
    if n == 0 {
        return None;
    }
    if wins == losses {
        return Some(1.0);
    }
    Some((2.0 * beta_reg((n - k) as f64, k as f64 + 1.0, 0.5)).clamp(0.0, 1.0))
}

/// Returns a quantile of sorted values by linear interpolation; `None` if there are no values.
#[must_use]
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index of the values"
    )]
    let (below, rest) = {
        let position = share.clamp(0.0, 1.0) * last as f64;
        (position as usize, position.fract())
    };
    let above = (below + 1).min(last);
    Some(sorted[below] + rest * (sorted[above] - sorted[below]))
}

impl Summary {
    /// Adds ranks, quantiles and counts of wins and losses computed from these rows, separately for
    /// each configuration. The
    /// sign tests over all tasks are corrected together.
    pub fn rank(&mut self, rows: &[Row], request: &RankingRequest) {
        let mut parts: Vec<&mut Summary> = if self.configurations.is_empty() {
            vec![self]
        } else {
            self.configurations.iter_mut().collect()
        };
        for part in &mut parts {
            let own: Vec<&Row> =
                rows.iter().filter(|row| row.experiment == part.experiment).collect();
            part.ranking = Some(Ranking::of(&own, part, request));
        }
        let mut rankings: Vec<&mut Ranking> =
            parts.into_iter().filter_map(|part| part.ranking.as_mut()).collect();
        judge(&mut rankings);
    }
}

/// Applies Holm's correction to the sign tests over all tasks, and sets the verdicts.
fn judge(rankings: &mut [&mut Ranking]) {
    let overall = |signs: &&Signs| signs.group.is_none();
    let all = rankings.iter().flat_map(|ranking| ranking.signs.iter().filter(overall));
    let p_values: Vec<Option<f64>> = all.map(|signs| signs.p_value).collect();
    let comparisons = p_values.iter().flatten().count();
    let mut adjusted = holm(&p_values).into_iter();
    for ranking in rankings {
        ranking.comparisons = comparisons;
        for signs in ranking.signs.iter_mut().filter(|signs| signs.group.is_none()) {
            signs.p_adjusted = adjusted.next().flatten();
            let counts = signs.p_adjusted.is_some_and(|p| p < LEVEL);
            signs.verdict = match signs.wins.cmp(&signs.losses) {
                std::cmp::Ordering::Greater if counts => Verdict::Gain,
                std::cmp::Ordering::Less if counts => Verdict::Loss,
                _ => Verdict::Unclear,
            };
        }
    }
}

/// The outcomes of all arms at one iteration.
struct Outcomes<'a> {
    iteration: Option<i64>,
    /// Outcomes per arm, in the order of the file.
    arms: Vec<(&'a str, BTreeMap<Unit<'a>, f64>)>,
}

impl Ranking {
    fn of(rows: &[&Row], summary: &Summary, request: &RankingRequest) -> Self {
        let names = arm_names(rows.iter().copied());
        let courses: Vec<(&str, BTreeMap<Unit<'_>, Trace>)> = names
            .into_iter()
            .map(|arm| (arm, traces(rows.iter().copied(), arm, summary.metric)))
            .collect();
        let mut groups: Vec<Option<TaskGroup>> =
            request.groups.values().flatten().cloned().map(Some).collect();
        groups.push(None);
        groups.sort();
        groups.dedup();
        let mut ranking =
            Self { ranks: Vec::new(), quantiles: Vec::new(), signs: Vec::new(), comparisons: 0 };
        for iteration in request.checkpoints.iter().copied().map(Some).chain([None]) {
            let at = |trace: &Trace| iteration.map_or(trace.last(), |i| trace.at(i));
            let arms = courses.iter().map(|(arm, traces)| {
                let known = traces.iter().filter_map(|(unit, trace)| Some((*unit, at(trace)?)));
                (*arm, known.collect())
            });
            let outcomes = Outcomes { iteration, arms: arms.collect() };
            ranking.quantiles.extend(outcomes.quantiles());
            for group in &groups {
                let is_in = |task: &str| {
                    let of_task = request.groups.get(task);
                    group
                        .as_ref()
                        .is_none_or(|group| of_task.is_some_and(|groups| groups.contains(group)))
                };
                let of_group = outcomes.only(is_in);
                ranking.ranks.extend(of_group.ranks(group.as_ref(), summary));
                ranking.signs.extend(of_group.signs(group.as_ref(), summary, &request.control));
            }
        }
        ranking
    }

    /// Formats the Markdown tables: ranks per group at the end, ranks over all tasks at the
    /// checkpoints, quantiles, and wins, ties and losses.
    #[must_use]
    pub fn tables(&self, metric: Metric) -> String {
        let parts = [self.rank_table(), self.quantile_table(metric), self.sign_table()];
        parts.join("\n\n")
    }

    fn rank_table(&self) -> String {
        let arms: Vec<&str> = self.ranks.first().map_or_else(Vec::new, |ranks| {
            ranks.arms.iter().map(|(arm, _)| arm.as_str()).collect()
        });
        let header = ["mean rank", "at", "tasks"].into_iter().chain(arms);
        let shown = self.ranks.iter().filter(|ranks| {
            ranks.group.is_none() || ranks.iteration.is_none() // groups only at the end
        });
        let rows = shown.map(|ranks| {
            let means = ranks.arms.iter().map(|(_, mean)| format!("{mean:.2}"));
            let lead =
                [group_text(ranks.group.as_ref()), at(ranks.iteration), ranks.tasks.to_string()];
            lead.into_iter().chain(means).collect()
        });
        markdown(header, rows)
    }

    fn quantile_table(&self, metric: Metric) -> String {
        let lead = match metric {
            Metric::LogRegret => "log10 regret",
            Metric::Best => "best",
            Metric::Regret => "regret",
            Metric::Mean => "mean value",
            Metric::MeanRegret => "mean regret",
        };
        let shares: Vec<String> =
            SHARES.iter().map(|share| format!("{:.0} %", 100.0 * share)).collect();
        let header = [lead, "at", "n"].into_iter().chain(shares.iter().map(String::as_str));
        let rows = self.quantiles.iter().map(|each| {
            let values = each.values.iter().map(|(_, v)| format!("{v:.2}").replace('-', "−"));
            let lead = [each.arm.clone(), at(each.iteration), each.n.to_string()];
            lead.into_iter().chain(values).collect()
        });
        markdown(header, rows)
    }

    fn sign_table(&self) -> String {
        let header = ["against", "at", "wins", "ties", "losses", "p", "p (Holm)"];
        let overall = self.signs.iter().filter(|signs| signs.group.is_none());
        let rows = overall.map(|signs| {
            let mark = match signs.verdict {
                Verdict::Gain => " ▲",
                Verdict::Loss => " ▼",
                Verdict::Unclear => "",
            };
            vec![
                format!("{} − {}", signs.arm, signs.control),
                at(signs.iteration),
                signs.wins.to_string(),
                signs.ties.to_string(),
                signs.losses.to_string(),
                p_value_text(signs.p_value),
                p_value_text(signs.p_adjusted) + mark,
            ]
        });
        let note = format!(
            "Rank 1 is the best; equal outcomes share a rank. Quantiles are over tasks and runs. A win is a task with a better \
             mean over runs. p: two-sided sign test without ties, for each comparison on its own; p (Holm): corrected over {} \
             comparisons, ▲ better and ▼ worse if it is below {LEVEL}.",
            self.comparisons
        );
        format!("{}\n\n{}\n\n{note}", markdown(header, rows), self.group_table())
    }

    /// Formats the wins, ties and losses of each arm per group, at the end.
    fn group_table(&self) -> String {
        let at_the_end = || self.signs.iter().filter(|signs| signs.iteration.is_none());
        let arms: Vec<String> = at_the_end()
            .filter(|signs| signs.group.is_none())
            .map(|signs| format!("{} − {}", signs.arm, signs.control))
            .collect();
        let header = ["wins/ties/losses at the end"].into_iter();
        let header = header.chain(arms.iter().map(String::as_str));
        let mut rows: Vec<Vec<String>> = Vec::new();
        for signs in at_the_end() {
            let group = group_text(signs.group.as_ref());
            if rows.last().is_none_or(|row| row[0] != group) {
                rows.push(vec![group]);
            }
            if let Some(row) = rows.last_mut() {
                row.push(format!("{}/{}/{}", signs.wins, signs.ties, signs.losses));
            }
        }
        markdown(header, rows.into_iter())
    }
}

impl<'a> Outcomes<'a> {
    /// Returns the outcomes of the selected tasks.
    fn only(&self, is_in: impl Fn(&str) -> bool) -> Self {
        let arms = self.arms.iter().map(|(arm, units)| {
            let own = units.iter().filter(|((_, task, _), _)| is_in(task));
            (*arm, own.map(|(unit, value)| (*unit, *value)).collect())
        });
        Self { iteration: self.iteration, arms: arms.collect() }
    }

    fn quantiles(&self) -> Vec<Quantiles> {
        let of_arm = |(arm, units): &(&str, BTreeMap<Unit<'a>, f64>)| {
            let mut sorted: Vec<f64> = units.values().copied().collect();
            sorted.sort_by(f64::total_cmp);
            let values =
                SHARES.iter().filter_map(|share| Some((*share, quantile(&sorted, *share)?)));
            Quantiles {
                iteration: self.iteration,
                arm: (*arm).to_owned(),
                n: sorted.len(),
                values: values.collect(),
            }
        };
        self.arms.iter().map(of_arm).collect()
    }

    /// Returns the mean ranks; `None` if no unit has outcomes of all arms.
    fn ranks(&self, group: Option<&TaskGroup>, summary: &Summary) -> Option<MeanRanks> {
        let (_, first) = self.arms.first()?;
        let mut by_arm: Vec<BTreeMap<Unit<'a>, f64>> = vec![BTreeMap::new(); self.arms.len()];
        for unit in first.keys() {
            let found: Option<Vec<f64>> =
                self.arms.iter().map(|(_, units)| units.get(unit).copied()).collect();
            let Some(found) = found else { continue };
            let better = |a: f64, b: f64| summary.metric.improvement(summary.direction, a - b);
            for (own, ranks) in found.iter().zip(&mut by_arm) {
                // 1 + number of better arms + half the number of ties.
                let beaten = found.iter().map(|other| match better(*other, *own) {
                    gain if gain > 0.0 => 1.0,
                    gain if gain < 0.0 => 0.0,
                    _ => 0.5,
                });
                ranks.insert(*unit, 0.5 + beaten.sum::<f64>());
            }
        }
        let mut tasks = 0;
        let mut arms = Vec::new();
        for ((arm, _), ranks) in self.arms.iter().zip(&by_arm) {
            let means = Clusters::Agents.means(ranks.iter().map(|(unit, rank)| (unit, *rank)));
            tasks = means.len();
            arms.push(((*arm).to_owned(), means.iter().sum::<f64>() / tasks.max(1) as f64));
        }
        let iteration = self.iteration;
        (tasks > 0).then(|| MeanRanks { iteration, group: group.cloned(), tasks, arms })
    }

    fn signs(&self, group: Option<&TaskGroup>, summary: &Summary, control: &str) -> Vec<Signs> {
        let Some((_, of_control)) = self.arms.iter().find(|(arm, _)| *arm == control) else {
            return Vec::new();
        };
        let of_arm = |(arm, units): &(&str, BTreeMap<Unit<'a>, f64>)| {
            let paired = units.iter().filter_map(|(unit, value)| {
                Some((unit, value - of_control.get(unit)?)) // arm − control
            });
            let (mut wins, mut ties, mut losses) = (0, 0, 0);
            for difference in Clusters::Agents.means(paired) {
                match summary.metric.improvement(summary.direction, difference) {
                    gain if gain > 0.0 => wins += 1,
                    gain if gain < 0.0 => losses += 1,
                    _ => ties += 1,
                }
            }
            Signs {
                iteration: self.iteration,
                group: group.cloned(),
                arm: (*arm).to_owned(),
                control: control.to_owned(),
                wins,
                ties,
                losses,
                p_value: sign_test(wins, losses),
                p_adjusted: None,
                verdict: Verdict::Unclear,
            }
        };
        self.arms.iter().filter(|(arm, _)| *arm != control).map(of_arm).collect()
    }
}

fn at(iteration: Option<i64>) -> String {
    iteration.map_or_else(|| "end".to_owned(), |iteration| iteration.to_string())
}

fn group_text(group: Option<&TaskGroup>) -> String {
    group.map_or_else(|| "all".to_owned(), |group| format!("{}: {}", group.by, group.name))
}

fn markdown<'t>(
    header: impl IntoIterator<Item = &'t str>,
    rows: impl Iterator<Item = Vec<String>>,
) -> String {
    let mut table = Table::new();
    let header: Vec<&str> = header.into_iter().collect();
    let n_columns = header.len();
    table.set_header(header);
    table.load_style(presets::ASCII_MARKDOWN);
    for row in rows {
        table.add_row(row.iter().map(|cell| cell.replace('|', "/")));
    }
    for index in 1..n_columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests;
