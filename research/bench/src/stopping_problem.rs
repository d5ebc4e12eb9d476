//! The stopping problem of one trial under BO-BOS, as a whole and in parts: fit, distribution of
//! the continuation, paths, and induction.

use anyhow::{Context, Result};
use fedbo_gp::{Continuation, DecayAverage, DecayProcess};
use fedbo_strategies::early_stopping::{
    BosProblem, BosRule, BosSettings, CellPaths, CurveBelief, LearningCurve, SparseCells, solve,
};
use fedbo_streams::{Purpose, Seed, Stream};
use serde_json::{Map, Value, json};

use crate::measure::{Limits, Timing, columns, count, measure};

/// Number of paths drawn at a time, as in the rule.
const BLOCK: usize = 1024;

/// A problem to solve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Number N of epochs.
    pub(crate) n_epochs: usize,
    /// Number of drawn paths.
    pub(crate) n_paths: usize,
    /// Number of cells per epoch.
    pub(crate) n_cells: usize,
    /// True to average the curve's process over its hyperparameters; false to use the
    /// hyperparameters with the highest evidence.
    pub(crate) is_averaged: bool,
}

/// Distributions of a curve's continuation, with their weights.
type Laws = Vec<(f64, Continuation)>;

/// Returns rows for every problem: the whole problem, with the time limit `seconds_most`, then its
/// parts.
///
/// The parts repeat the rule's work with the same distribution. The rest of the whole problem's
/// time is spent on sorting paths into cells.
pub(crate) fn rows(settings: &[Setting], seconds_most: f64, limits: &Limits) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    for setting in settings {
        let problem = Problem::new(setting);
        let (whole, mut rules) = measure(
            limits,
            |draw| Ok(stream(draw)),
            |stream| {
                let rule = problem.rule(stream)?;
                rule.context("a curve that has no rule")
            },
        )?;
        let rule = rules.swap_remove(rules.len() - 1);
        let mut row = row("whole", setting, &whole);
        row.insert("paths_kept".into(), json!(rule.n_paths_kept()));
        row.insert("seconds_most".into(), json!(seconds_most));
        row.insert("held".into(), json!(whole.median() <= seconds_most));
        rows.push(Value::Object(row));
        rows.extend(problem.parts(setting, limits)?);
    }
    Ok(rows)
}

/// Stopping problem of a trial after its first epochs.
struct Problem {
    settings: BosSettings,
    curve: LearningCurve,
    errors: Vec<f64>,
    stds: Vec<f64>,
}

impl Problem {
    /// The incumbent's value, close to the curve's final value so that the decision is not trivial.
    const INCUMBENT: f64 = 0.9;

    fn new(setting: &Setting) -> Self {
        let averaged = BosSettings {
            n_paths: setting.n_paths,
            n_cells: setting.n_cells,
            ..BosSettings::for_epochs(setting.n_epochs)
        };
        let settings = match setting.is_averaged {
            true => averaged,
            false => averaged.with_one_process(),
        };
        let bounds = settings.bounds();
        let values = errors(settings.first_epochs()).into_iter();
        let curve = LearningCurve::new(values.map(|error| bounds.value(error)).collect());
        // Use the rule's own representation, because a conversion through values would change the
        // last digits.
        let errors = curve.values().iter().map(|v| bounds.error(*v)).collect();
        Self { curve, stds: vec![0.1; setting.n_epochs], errors, settings }
    }

    fn rule(&self, stream: &mut Stream) -> Result<Option<BosRule>> {
        let problem =
            BosProblem { curve: &self.curve, incumbent: Self::INCUMBENT, t: 10, stds: &self.stds };
        Ok(BosRule::solve(&self.settings, &problem, stream)?)
    }

    fn fit(&self) -> Result<DecayAverage> {
        Ok(match self.settings.belief {
            CurveBelief::Averaged { noise } => DecayAverage::fit(&self.errors, noise)?,
            CurveBelief::Certain { fit, level_variance } => {
                DecayAverage::certain(DecayProcess::fit(&self.errors, level_variance, fit)?)
            }
        })
    }

    fn parts(&self, setting: &Setting, limits: &Limits) -> Result<Vec<Value>> {
        let belief = self.fit()?;
        let (fit, _) = measure(limits, |_| Ok(()), |()| self.fit())?;
        let laws_of = || Ok(belief.continuations(&self.errors, setting.n_epochs)?);
        let (continuation, _) = measure(limits, |_| Ok(()), |()| laws_of())?;
        let laws = laws_of()?;
        let (draw, _) = measure(
            limits,
            |draw| Ok(stream(draw)),
            |stream| {
                // Add up one number per block, so that the draws are used but not stored.
                let mut sum = 0.0;
                for ((_, law), n_paths) in laws.iter().zip(shares(&laws, setting.n_paths)) {
                    sum += blocks(n_paths).map(|n| law.draw(n, stream)[0]).sum::<f64>();
                }
                Ok(sum)
            },
        )?;
        let (cells, better) = self.cells(&laws, setting, &mut stream(0));
        let losses = self.settings.losses(10);
        let (induction, _) = measure(
            limits,
            |_| Ok(()),
            |()| {
                let paths = CellPaths { cells: &cells, better: &better, n_cells: setting.n_cells };
                Ok(solve(paths, losses, SparseCells::Plain))
            },
        )?;
        let parts = [
            ("fit", fit),
            ("continuation", continuation),
            ("draw", draw),
            ("induction", induction),
        ];
        let parts = parts.iter().map(|(what, timing)| Value::Object(row(what, setting, timing)));
        Ok(parts.collect())
    }

    /// Draws paths and sorts them into cells of their average error. Also compares the paths' final
    /// values with the incumbent.
    ///
    /// The cells span five standard deviations on both sides of the mean. Paths outside that range
    /// are assigned to the outermost cells, so no path is dropped.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of the number of cells, which a u16 counts"
    )]
    fn cells(&self, laws: &Laws, setting: &Setting, stream: &mut Stream) -> (Vec<u16>, Vec<bool>) {
        let n_after = setting.n_epochs - self.errors.len();
        let mut paths: Vec<Vec<f64>> = vec![Vec::with_capacity(setting.n_paths); n_after];
        for ((_, law), n_paths) in laws.iter().zip(shares(laws, setting.n_paths)) {
            let drawn = law.draw(n_paths, stream);
            for (paths, drawn) in paths.iter_mut().zip(drawn.chunks_exact(n_paths.max(1))) {
                paths.extend_from_slice(drawn);
            }
        }
        let mut sums = vec![0.0; setting.n_paths];
        let mut cells = Vec::with_capacity(n_after * setting.n_paths);
        let most = count(setting.n_cells - 1);
        for (errors, n) in paths.iter().zip(1_u32..) {
            for (sum, error) in sums.iter_mut().zip(errors) {
                *sum += error;
            }
            let averages = sums.iter().map(|sum| sum / f64::from(n));
            let mean = averages.clone().sum::<f64>() / count(setting.n_paths);
            let square: f64 = averages.clone().map(|v| (v - mean).powi(2)).sum();
            let std = (square / count(setting.n_paths)).sqrt();
            cells.extend(averages.map(|average| {
                let share = (average - mean) / (10.0 * std) + 0.5;
                (share * count(setting.n_cells)).clamp(0.0, most) as u16
            }));
        }
        let target = self.settings.bounds().error(Self::INCUMBENT);
        let ends = &paths[n_after - 1];
        (cells, ends.iter().map(|error| *error < target).collect())
    }
}

/// Returns the number of paths drawn from each distribution, out of `n_paths`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a number of paths"
)]
fn shares(laws: &Laws, n_paths: usize) -> Vec<usize> {
    let (mut share, mut n_drawn) = (0.0, 0);
    let each = laws.iter().map(|(weight, _)| {
        share += weight;
        let upto = (share.min(1.0) * count(n_paths)).round() as usize;
        let n = upto.saturating_sub(n_drawn);
        n_drawn += n;
        n
    });
    each.collect()
}

/// Returns errors typical of a small network on images: decay from 0.45 to 0.11 by 12 % per epoch,
/// with noise of 0.004.
fn errors(n_first: usize) -> Vec<f64> {
    let mut noise = Seed::new(2).stream(Purpose::PROBLEM, 0, 0);
    let mut gap = 0.34;
    let errors = (0..n_first).map(|_| {
        gap *= 0.88;
        0.11 + gap + 0.004 * noise.normal()
    });
    errors.collect()
}

/// Returns the block sizes, which add up to `n_paths`.
fn blocks(n_paths: usize) -> impl Iterator<Item = usize> {
    (0..n_paths).step_by(BLOCK).map(move |begin| BLOCK.min(n_paths - begin))
}

fn stream(draw: u64) -> Stream {
    Seed::new(1).stream(fedbo_strategies::EARLY_STOPPING, draw, 0)
}

fn row(what: &str, setting: &Setting, timing: &Timing) -> Map<String, Value> {
    let mut row = columns(json!({
        "peer": "fedbo", "what": what, "epochs": setting.n_epochs, "paths": setting.n_paths,
        "cells": setting.n_cells, "belief": if setting.is_averaged { "averaged" } else { "one process" },
    }));
    row.extend(timing.columns());
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Setting = Setting { n_epochs: 20, n_paths: 2500, n_cells: 40, is_averaged: true };

    #[test]
    fn the_whole_and_every_part_have_a_row() {
        let limits = Limits { budget_s: 0.0, min_reps: 1, max_reps: 1 };
        let held = |seconds_most| {
            let rows = rows(&[SMALL], seconds_most, &limits).unwrap();
            let names: Vec<&Value> = rows.iter().map(|row| &row["what"]).collect();
            assert_eq!(names, ["whole", "fit", "continuation", "draw", "induction"]);
            assert!(rows.iter().all(|row| row["seconds"].as_f64() > Some(0.0)));
            rows[0]["held"].clone()
        };
        assert_eq!((held(1e3), held(0.0)), (json!(true), json!(false)));
    }

    /// Compares the parts' cells of a curve with the rule's cells. Both tables must have the same
    /// number of paths at the first epoch, and nearly the same share of better paths.
    #[test]
    fn the_parts_are_those_of_the_rule() {
        let problem = Problem::new(&SMALL);
        let rule = problem.rule(&mut stream(0)).unwrap().unwrap();
        // The rule drops paths that leave (0, 1). It drops more when it averages over
        // hyperparameters, because those processes are wide.
        let left_out = 1.0 - count(rule.n_paths_kept()) / count(SMALL.n_paths);
        assert!(left_out < 0.2, "{left_out}");
        let belief = problem.fit().unwrap();
        assert!(*rule.belief() == belief, "the fit");
        let laws = belief.continuations(&problem.errors, SMALL.n_epochs);
        let laws = laws.unwrap();
        let (cells, better) = problem.cells(&laws, &SMALL, &mut stream(1));
        assert_eq!(cells.len(), better.len() * laws[0].1.n_epochs());
        let p_better = count(better.iter().filter(|b| **b).count()) / count(better.len());
        let of_rule: f64 = rule.epochs()[0]
            .cells
            .iter()
            .flatten()
            .map(|cell| cell.p_better * f64::from(cell.n_paths))
            .sum();
        let expected = of_rule / count(rule.n_paths_kept());
        // Five standard errors, plus the share of paths that the rule omits.
        let tolerance = 5.0 * (0.5 / count(SMALL.n_paths)).sqrt() + left_out;
        assert!((p_better - expected).abs() < tolerance, "{p_better} {expected}");
        assert!(expected > 0.01 && expected < 0.99, "{expected}");
        assert_eq!(blocks(2500).collect::<Vec<_>>(), [1024, 1024, 452]);
    }
}
