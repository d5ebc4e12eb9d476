//! The BO-BOS rule for one trial: the trial's stopping problem, solved after the first epochs.

use fedbo_gp::{Continuation, DecayAverage, DecayProcess};
use fedbo_streams::Stream;

use super::optimal_stopping::{CellPaths, CellRule, Decision, solve};
use super::{Average, BosSettings, CurveBelief, Grid, LearningCurve, ValueBounds};
use crate::StrategyError;

/// The data, in addition to the settings, from which a trial's rule is solved.
#[derive(Clone, Debug)]
pub struct BosProblem<'a> {
    /// The trial's first N₀ values (larger is better). Later values are ignored.
    pub curve: &'a LearningCurve,
    /// y*_{t−1}: the best last value of any other trial, including stopped trials.
    pub incumbent: f64,
    /// t: the number of trials that the strategy has proposed so far, including this one.
    pub t: u64,
    /// σ_{t−1}([x, n]) at n = 1, …, N.
    pub stds: &'a [f64],
}

/// The cells at one epoch with their rules.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochRules {
    /// Epoch n.
    pub epoch: usize,
    /// Lower end of the first cell.
    pub low: f64,
    /// Upper end of the last cell.
    pub high: f64,
    /// Rules of the cells in ascending order of the average error; `None` for cells without paths.
    pub cells: Vec<Option<CellRule>>,
    /// True if condition C2 holds: σ([x, N]) ≤ κ σ([x, n]).
    pub may_stop: bool,
}

impl EpochRules {
    /// Returns the rule of the cell that contains a statistic, or of the nearest cell with paths.
    /// Returns `None` for a statistic below all of these cells, because the cells of worse trials
    /// cannot judge a trial that does better than every path.
    fn at(&self, statistic: f64) -> Option<&CellRule> {
        let last = self.cells.len().checked_sub(1)?;
        let home = usize::from(cell_of(statistic, self.low, self.scale(), last));
        let lowest = self.cells.iter().position(Option::is_some)?;
        if home < lowest || statistic < self.low {
            return None;
        }
        (0..=last).find_map(|distance| {
            let below = home.checked_sub(distance).and_then(|at| self.cells[at].as_ref());
            below.or_else(|| self.cells.get(home + distance)?.as_ref())
        })
    }

    /// Returns the number of cells per unit of the statistic.
    fn scale(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "at most 65 536 cells")]
        let n_cells = self.cells.len() as f64;
        n_cells / (self.high - self.low)
    }
}

/// The rule for one trial: a table of decisions by epoch and average error (thesis Fig. A.2).
/// Immutable once solved.
#[derive(Clone, Debug, PartialEq)]
pub struct BosRule {
    settings: BosSettings,
    first: LearningCurve,
    incumbent: f64,
    /// The error of y*_{t−1} − ξ_t. Only smaller errors beat the incumbent.
    target_error: f64,
    belief: DecayAverage,
    n_paths_kept: usize,
    epochs: Vec<EpochRules>,
}

/// A rule's decision about a trial after an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BosAnswer {
    /// The decision with the smallest expected loss. Condition C1 holds if the decision is to stop.
    pub decision: Decision,
    /// True if the trial is stopped, because both C1 and C2 hold.
    pub stops: bool,
    /// Among the sampled continuations with a similar average so far, the fraction that ends above
    /// the incumbent.
    pub p_better: f64,
}

impl BosRule {
    /// Solves the trial's stopping problem.
    ///
    /// Fits the belief about the curve to the first errors, draws continuations, drops those that
    /// leave (0, 1), and works backwards from epoch N to N₀ + 1 (Algorithm 1.1). The authors drop
    /// the same continuations, since Assumption 4.1a bounds the values. Paths are noise-free
    /// curves. Cost: O(paths · (N − N₀) · r), tens of milliseconds.
    ///
    /// A value below the bounds counts as the worst value. Returns `None`, so that the trial is
    /// never stopped, if one of its values or the incumbent is better than the best possible value,
    /// or if fewer than one in a hundred continuations stay within the bounds.
    ///
    /// # Errors
    /// If no process can be fitted to the curve.
    ///
    /// # Panics
    /// If the curve is shorter than N₀, or the number of standard deviations differs from the
    /// number of epochs.
    pub fn solve(
        settings: &BosSettings,
        problem: &BosProblem<'_>,
        stream: &mut Stream,
    ) -> Result<Option<Self>, StrategyError> {
        let (n_first, n_epochs) = (settings.first_epochs(), settings.n_epochs);
        assert!(problem.curve.n_epochs() >= n_first, "a rule is solved after the first epochs");
        assert_eq!(problem.stds.len(), n_epochs, "one deviation per epoch");
        let first = problem.curve.until(n_first);
        let bounds = settings.bounds();
        let errors: Vec<f64> = first.values().iter().map(|v| error(bounds, *v)).collect();
        let margin = settings.incumbent_margin.at(problem.t);
        let target_error = bounds.error(problem.incumbent - margin);
        if errors.iter().any(|error| *error < 0.0) || bounds.error(problem.incumbent) < 0.0 {
            return Ok(None);
        }
        let belief = match settings.belief {
            CurveBelief::Averaged { noise } => DecayAverage::fit(&errors, noise)?,
            CurveBelief::Certain { fit, level_variance } => {
                DecayAverage::certain(DecayProcess::fit(&errors, level_variance, fit)?)
            }
        };
        let laws = belief.continuations(&errors, n_epochs)?;
        let ranges = ranges(settings, &errors, &laws);
        let paths = Paths::draw(settings, &errors, &laws, &ranges, target_error, stream);
        if paths.better.len() < settings.n_paths.div_ceil(100) {
            return Ok(None);
        }
        let cells = paths.cells.concat();
        let paths_in_cells =
            CellPaths { cells: &cells, better: &paths.better, n_cells: settings.n_cells };
        let table = solve(paths_in_cells, settings.losses(problem.t), settings.sparse);
        let at_end = problem.stds[n_epochs - 1];
        let epochs = table.into_iter().zip(&ranges).enumerate();
        let epochs = epochs.map(|(index, (cells, (low, high)))| {
            let epoch = n_first + 1 + index;
            EpochRules {
                epoch,
                low: *low,
                high: *high,
                cells,
                may_stop: at_end <= settings.options.stop_std_ratio * problem.stds[epoch - 1],
            }
        });
        Ok(Some(Self {
            settings: *settings,
            first,
            incumbent: problem.incumbent,
            target_error,
            belief,
            n_paths_kept: paths.better.len(),
            epochs: epochs.collect(),
        }))
    }

    /// Decides after the last epoch of the curve, which must start with the values for which the
    /// rule was solved. Returns `None` up to epoch N₀, from epoch N on, and if the average error is
    /// below those of all sampled continuations. In these cases the trial continues.
    pub fn answer(&self, curve: &LearningCurve) -> Option<BosAnswer> {
        let n = curve.n_epochs();
        let index = n.checked_sub(self.settings.first_epochs() + 1)?;
        if n >= self.settings.n_epochs {
            return None;
        }
        let rules = self.epochs.get(index)?;
        let rule = rules.at(self.statistic(curve))?;
        Some(BosAnswer {
            decision: rule.decision,
            stops: rule.decision == Decision::StopEarly && rules.may_stop,
            p_better: rule.p_better,
        })
    }

    /// Returns the average error of a curve over the epochs that [`Average`] selects.
    pub fn statistic(&self, curve: &LearningCurve) -> f64 {
        let skipped = match self.settings.average {
            Average::All => 0,
            Average::AfterFirst => self.settings.first_epochs(),
        };
        let values = &curve.values()[skipped.min(curve.n_epochs() - 1)..];
        let sum: f64 = values.iter().map(|v| error(self.settings.bounds(), *v)).sum();
        #[expect(clippy::cast_precision_loss, reason = "numbers of epochs are far below 2^53")]
        let count = values.len() as f64;
        sum / count
    }

    /// Returns the settings with which the rule was solved.
    pub fn settings(&self) -> &BosSettings {
        &self.settings
    }

    /// Returns the values of the trial's first N₀ epochs.
    pub fn first(&self) -> &LearningCurve {
        &self.first
    }

    /// Returns the incumbent y*_{t−1} for which the rule was solved.
    pub fn incumbent(&self) -> f64 {
        self.incumbent
    }

    /// Returns the belief about the curve after the first epochs.
    pub fn belief(&self) -> &DecayAverage {
        &self.belief
    }

    /// Returns the number of paths that stayed within the bounds.
    pub fn n_paths_kept(&self) -> usize {
        self.n_paths_kept
    }

    /// Returns the decisions at epochs N₀ + 1 to N.
    pub fn epochs(&self) -> &[EpochRules] {
        &self.epochs
    }
}

/// Returns the error of a value, at most 1.
fn error(bounds: ValueBounds, value: f64) -> f64 {
    bounds.error(value).min(1.0)
}

/// Returns the cell of a statistic. Values outside the range belong to the first or last cell.
#[inline(always)]
fn cell_of(statistic: f64, low: f64, scale: f64, last: usize) -> u16 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the conversion keeps within the type, and the number of cells fits it"
    )]
    let (cell, last) = (((statistic - low) * scale) as u16, last as u16);
    cell.min(last)
}

/// Returns the range of the statistic at each epoch after N₀.
fn ranges(settings: &BosSettings, errors: &[f64], laws: &[(f64, Continuation)]) -> Vec<(f64, f64)> {
    const REACH: f64 = 5.0;
    let before = sum_before(settings, errors);
    let n_after = settings.n_epochs - errors.len();
    // First and second moments of the average error over the epochs after N₀.
    let mut moments = vec![(0.0, 0.0); n_after];
    for (weight, law) in laws {
        for ((first, second), (mean, std)) in moments.iter_mut().zip(law.averages()) {
            *first += weight * mean;
            *second += weight * (mean * mean + std * std);
        }
    }
    moments
        .into_iter()
        .zip(1_u32..)
        .map(|((mean, square), k)| {
            if settings.grid == Grid::Unit {
                return (0.0, 1.0);
            }
            let std = (square - mean * mean).max(0.0).sqrt();
            let count = before.1 + f64::from(k);
            let (mean, std) =
                ((before.0 + f64::from(k) * mean) / count, f64::from(k) * std / count);
            // Paths within (0, 1) stay in this range.
            let (least, most) = (before.0 / count, (before.0 + f64::from(k)) / count);
            let reach = (REACH * std).max(1e-9);
            let low = (mean - reach).clamp(least, most - 1e-9);
            (low, (mean + reach).clamp(low + 1e-9, most))
        })
        .collect()
}

/// Returns the sum and the number of the errors up to epoch N₀ that enter the average.
fn sum_before(settings: &BosSettings, errors: &[f64]) -> (f64, f64) {
    match settings.average {
        Average::AfterFirst => (0.0, 0.0),
        Average::All => {
            #[expect(clippy::cast_precision_loss, reason = "numbers of epochs are far below 2^53")]
            let count = errors.len() as f64;
            (errors.iter().sum(), count)
        }
    }
}

/// Sampled continuations, discretized into cells at each epoch.
struct Paths {
    cells: Vec<Vec<u16>>,
    better: Vec<bool>,
}

impl Paths {
    /// Number of paths that are drawn together. Small enough for their values to stay in the cache.
    const BLOCK: usize = 1024;

    /// Draws paths from each distribution in proportion to its weight.
    fn draw(
        settings: &BosSettings,
        errors: &[f64],
        laws: &[(f64, Continuation)],
        ranges: &[(f64, f64)],
        target_error: f64,
        stream: &mut Stream,
    ) -> Self {
        let mut paths = Self {
            cells: vec![Vec::with_capacity(settings.n_paths); ranges.len()],
            better: Vec::with_capacity(settings.n_paths),
        };
        let before = sum_before(settings, errors);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of the number of paths, which is far below 2^53"
        )]
        let upto = |share: f64| (share * settings.n_paths as f64).round() as usize;
        let (mut share, mut n_drawn) = (0.0, 0);
        for (weight, law) in laws {
            share += weight;
            let mut left = upto(share.min(1.0)).saturating_sub(n_drawn);
            n_drawn += left;
            while left > 0 {
                let n_paths = left.min(Self::BLOCK);
                left -= n_paths;
                let values = law.draw(n_paths, stream);
                paths.add(settings, &values, n_paths, before, ranges, target_error);
            }
        }
        paths
    }

    /// Adds the paths that stay within (0, 1). The errors are given epoch by epoch.
    fn add(
        &mut self,
        settings: &BosSettings,
        values: &[f64],
        n_paths: usize,
        before: (f64, f64),
        ranges: &[(f64, f64)],
        target_error: f64,
    ) {
        let last_cell = settings.n_cells - 1;
        let mut within = vec![true; n_paths];
        for epoch in values.chunks_exact(n_paths) {
            for (within, error) in within.iter_mut().zip(epoch) {
                *within &= *error > 0.0 && *error < 1.0;
            }
        }
        let mut sums = vec![before.0; n_paths];
        let mut count = before.1;
        let epochs = values.chunks_exact(n_paths).zip(ranges);
        for ((epoch, (low, high)), cells) in epochs.zip(&mut self.cells) {
            count += 1.0;
            #[expect(clippy::cast_precision_loss, reason = "at most 65 536 cells")]
            let scale = settings.n_cells as f64 / (high - low);
            for ((sum, error), within) in sums.iter_mut().zip(epoch).zip(&within) {
                *sum += error;
                if *within {
                    cells.push(cell_of(*sum / count, *low, scale, last_cell));
                }
            }
        }
        let ends = &values[values.len() - n_paths..];
        let kept = ends.iter().zip(&within).filter(|(_, within)| **within);
        self.better.extend(kept.map(|(error, _)| *error < target_error));
    }
}

#[cfg(test)]
mod tests {
    use fedbo_streams::{Purpose, Seed};

    use super::*;
    use crate::early_stopping::{BoBosOptions, StoppingLosses};

    /// Returns accuracies end − 0.5 · 0.85ⁿ at epochs n = 1, 2, ….
    fn curve(end: f64, n_epochs: i32) -> LearningCurve {
        LearningCurve::new((1..=n_epochs).map(|n| end - 0.5 * 0.85_f64.powi(n)).collect())
    }

    fn settings() -> BosSettings {
        BosSettings { n_paths: 20_000, ..BosSettings::for_epochs(50) }
    }

    fn rule(settings: &BosSettings, end: f64, incumbent: f64) -> BosRule {
        let problem = BosProblem { curve: &curve(end, 8), incumbent, t: 1, stds: &[0.1; 50] };
        let mut stream = Seed::new(8).stream(Purpose::TEST, 0, 0);
        BosRule::solve(settings, &problem, &mut stream).unwrap().unwrap()
    }

    fn stopped_at(rule: &BosRule, end: f64) -> Option<usize> {
        (9..50).find(|n| {
            let answer = rule.answer(&curve(end, i32::try_from(*n).unwrap()));
            answer.is_some_and(|answer| answer.stops)
        })
    }

    #[test]
    fn a_poor_trial_is_stopped_and_a_good_one_is_not() {
        let poor = rule(&settings(), 0.6, 0.9);
        assert!(stopped_at(&poor, 0.6).is_some_and(|epoch| epoch < 20));
        let good = rule(&settings(), 0.95, 0.8);
        assert_eq!(stopped_at(&good, 0.95), None);
        // A rule applies only to its own epochs.
        assert_eq!(poor.answer(&curve(0.6, 8)), None);
        assert_eq!(poor.answer(&curve(0.6, 50)), None);
        assert_eq!(poor.epochs().len(), 42);
        assert_eq!(poor.epochs()[0].epoch, 9);
    }

    #[test]
    fn nothing_is_stopped_where_c2_does_not_hold_or_a_wrong_stop_costs_infinitely() {
        let mut problem = BosProblem {
            curve: &curve(0.6, 8),
            incumbent: 0.9,
            t: 1,
            stds: &[&[0.1; 49][..], &[0.3]].concat(),
        };
        let mut stream = Seed::new(8).stream(Purpose::TEST, 0, 0);
        let unsure = BosRule::solve(&settings(), &problem, &mut stream).unwrap().unwrap();
        assert_eq!(stopped_at(&unsure, 0.6), None);
        assert_eq!(unsure.answer(&curve(0.6, 20)).unwrap().decision, Decision::StopEarly);
        let stds = [0.1; 50];
        problem.stds = &stds;
        let dear = BosSettings {
            options: BoBosOptions {
                wrong_stop_loss: f64::INFINITY,
                wrong_stop_growth: 1.0,
                ..settings().options
            },
            ..settings()
        };
        let never = BosRule::solve(&dear, &problem, &mut stream).unwrap().unwrap();
        let cells = never.epochs().iter().flat_map(|epoch| &epoch.cells).flatten();
        assert!(cells.clone().count() > 1000);
        assert!(cells.clone().all(|rule| rule.decision != Decision::StopEarly));
    }

    /// The paths are the same for all incumbents, so a higher incumbent stops more trials. This
    /// would be exact if the average were a sufficient statistic of a path. Since the average is
    /// only approximately sufficient, one in a hundred cells is allowed to differ.
    #[test]
    fn decisions_are_monotone_in_the_incumbent() {
        for settings in [settings(), settings().with_one_process()] {
            let mut before: Option<BosRule> = None;
            let (mut n_stopped, mut n_other) = (0, 0);
            for incumbent in [0.6, 0.7, 0.75, 0.8, 0.85, 0.9] {
                let rule = rule(&settings, 0.75, incumbent);
                if let Some(before) = &before {
                    for (old, new) in before.epochs().iter().zip(rule.epochs()) {
                        let cells = old.cells.iter().zip(&new.cells);
                        for (old, new) in cells.filter_map(|(old, new)| old.zip(*new)) {
                            let stopped = old.decision == Decision::StopEarly;
                            n_stopped += u32::from(stopped);
                            n_other += u32::from(stopped && new.decision != Decision::StopEarly);
                        }
                    }
                }
                before = Some(rule);
            }
            assert!(n_stopped > 1000 && n_other * 100 <= n_stopped, "{n_other} of {n_stopped}");
        }
    }

    /// With 20 000 paths, p_better over all cells at the first epoch is within 0.02 of the exact
    /// probability.
    #[test]
    fn probabilities_are_those_of_the_curves_law() {
        let settings = settings();
        let rule = rule(&settings, 0.75, 0.75);
        let errors: Vec<f64> = curve(0.75, 8).values().iter().map(|v| 1.0 - v).collect();
        let laws = rule.belief().continuations(&errors, 50).unwrap();
        let below = laws.iter().map(|(weight, law)| {
            let z = (0.25 - law.mean()[41]) / law.std()[41];
            weight * 0.5 * (1.0 + erf((z / std::f64::consts::SQRT_2).clamp(-3.0, 3.0)))
        });
        let exact: f64 = below.sum();
        let cells = rule.epochs()[0].cells.iter().flatten();
        let n_paths: u32 = cells.clone().map(|cell| cell.n_paths).sum();
        let better: f64 = cells.map(|cell| cell.p_better * f64::from(cell.n_paths)).sum();
        let kept = f64::from(n_paths);
        assert_eq!(n_paths as usize, rule.n_paths_kept());
        if kept > 19_900.0 {
            assert!((better / kept - exact).abs() < 0.02, "{} {exact}", better / kept);
        }
        assert!(kept > 10_000.0);
    }

    /// Computes erf by its power series.
    fn erf(x: f64) -> f64 {
        let (mut term, mut sum) = (x, x);
        for n in 1..60 {
            let n = f64::from(n);
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }

    #[test]
    fn values_outside_the_bounds_are_the_worst_or_leave_a_trial_alone() {
        let diverged = LearningCurve::new((1..=8).map(|n| -f64::from(n)).collect());
        let worst = BosProblem { curve: &diverged, incumbent: 0.5, t: 1, stds: &[0.1; 50] };
        let mut stream = Seed::new(8).stream(Purpose::TEST, 0, 0);
        let rule = BosRule::solve(&BosSettings::for_epochs(50), &worst, &mut stream).unwrap();
        let rule = rule.unwrap();
        let still = LearningCurve::new((1..=30).map(|n| -f64::from(n)).collect());
        assert!((rule.statistic(&still) - 1.0).abs() < 1e-12);
        assert!(
            (9..=30).any(|n| { rule.answer(&still.until(n)).is_some_and(|answer| answer.stops) })
        );
        let problem = BosProblem { curve: &curve(1.4, 8), incumbent: 0.9, t: 1, stds: &[0.1; 50] };
        let mut stream = Seed::new(8).stream(Purpose::TEST, 0, 0);
        assert_eq!(BosRule::solve(&settings(), &problem, &mut stream), Ok(None));
    }

    /// If the errors of a trial suddenly fall to the smallest possible value, its average is below
    /// every path.
    #[test]
    fn a_trial_better_than_every_path_trains_on() {
        let rule = rule(&settings(), 0.6, 0.9);
        let mut values = curve(0.6, 8).values().to_vec();
        values.extend([1.0; 12]);
        let better = LearningCurve::new(values);
        assert!((9..20).all(|n| rule.answer(&better.until(n)).is_none()));
        assert!(stopped_at(&rule, 0.6).is_some());
    }

    #[test]
    fn the_authors_grid_and_average_are_another_rule() {
        let settings = settings().as_in_authors_code();
        let rule = rule(&settings, 0.6, 0.9);
        assert!(rule.epochs().iter().all(|epoch| epoch.cells.len() == 99));
        let after = (0.4 + 0.5 * 0.85_f64.powi(9) + 0.4 + 0.5 * 0.85_f64.powi(10)) / 2.0;
        assert!((rule.statistic(&curve(0.6, 10)) - after).abs() < 1e-12);
        let losses = StoppingLosses { wrong_stop: 1.0, wrong_continue: 1.0, epoch: 1.0 };
        assert_eq!(losses.terminal(0.25), (0.25, 0.75));
    }
}
