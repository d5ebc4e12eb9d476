//! The stopping problem of one trial under BO-BOS, as a whole and in parts: fit, law of the continuation, paths, induction.

use anyhow::{Context, Result};
use fedbo_algorithms::early_stopping::{
    BosProblem, BosRule, BosSettings, CellPaths, LearningCurve, SparseCells, solve,
};
use fedbo_gp::{Continuation, DecayProcess};
use fedbo_streams::{Purpose, Seed, Stream};
use serde_json::{Map, Value, json};

use crate::measure::{Limits, Timing, columns, count, measure};

/// Paths that are drawn together, as the rule does.
const BLOCK: usize = 1024;

/// A problem to be solved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// N.
    pub(crate) n_epochs: usize,
    /// Paths that are drawn.
    pub(crate) n_paths: usize,
    /// Cells an epoch.
    pub(crate) n_cells: usize,
    /// a², of the level that curves decay to.
    pub(crate) level_variance: f64,
}

/// Rows for every problem: the whole of it, which may take no longer than `seconds_most`, then its parts. The parts do what the
/// rule does with the same law; what the whole takes beyond them sorts paths into cells.
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

/// A trial after its first epochs.
struct Problem {
    settings: BosSettings,
    curve: LearningCurve,
    errors: Vec<f64>,
    stds: Vec<f64>,
}

impl Problem {
    /// The incumbent's value: about what the curve comes to, so that the decision is not plain.
    const INCUMBENT: f64 = 0.9;

    fn new(setting: &Setting) -> Self {
        let settings = BosSettings {
            n_paths: setting.n_paths,
            n_cells: setting.n_cells,
            level_variance: setting.level_variance,
            ..BosSettings::for_epochs(setting.n_epochs)
        };
        let errors = errors(settings.first_epochs);
        let values = errors.iter().map(|error| settings.bounds.value(*error));
        Self {
            curve: LearningCurve::new(values.collect()),
            stds: vec![0.1; setting.n_epochs],
            errors,
            settings,
        }
    }

    fn rule(&self, stream: &mut Stream) -> Result<Option<BosRule>> {
        let problem = BosProblem {
            curve: &self.curve,
            incumbent: Self::INCUMBENT,
            t: 10,
            stds: &self.stds,
        };
        Ok(BosRule::solve(&self.settings, &problem, stream)?)
    }

    fn fit(&self) -> Result<DecayProcess> {
        let BosSettings {
            level_variance,
            fit,
            ..
        } = self.settings;
        Ok(DecayProcess::fit(&self.errors, level_variance, fit)?)
    }

    fn parts(&self, setting: &Setting, limits: &Limits) -> Result<Vec<Value>> {
        let process = self.fit()?;
        let (fit, _) = measure(limits, |_| Ok(()), |()| self.fit())?;
        let law_of = || Ok(process.continuation(&self.errors, setting.n_epochs)?);
        let (continuation, _) = measure(limits, |_| Ok(()), |()| law_of())?;
        let law = law_of()?;
        let (draw, _) = measure(
            limits,
            |draw| Ok(stream(draw)),
            |stream| {
                // The last block's sum, so that what is drawn is needed and not kept.
                let blocks = blocks(setting.n_paths).map(|n| law.draw(n, stream)[0]);
                Ok(blocks.sum::<f64>())
            },
        )?;
        let (cells, better) = self.cells(&law, setting, &mut stream(0));
        let losses = self.settings.losses(10);
        let (induction, _) = measure(
            limits,
            |_| Ok(()),
            |()| {
                let paths = CellPaths {
                    cells: &cells,
                    better: &better,
                    n_cells: setting.n_cells,
                };
                Ok(solve(paths, losses, SparseCells::Plain))
            },
        )?;
        let parts = [
            ("fit", fit),
            ("continuation", continuation),
            ("draw", draw),
            ("induction", induction),
        ];
        let parts = parts
            .iter()
            .map(|(what, timing)| Value::Object(row(what, setting, timing)));
        Ok(parts.collect())
    }

    /// Paths as cells of their average error, five standard deviations about its mean; none is left out.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of the number of cells, which a u16 counts"
    )]
    fn cells(
        &self,
        law: &Continuation,
        setting: &Setting,
        stream: &mut Stream,
    ) -> (Vec<u16>, Vec<bool>) {
        let paths = law.draw(setting.n_paths, stream);
        let mut sums = vec![0.0; setting.n_paths];
        let mut cells = Vec::with_capacity(paths.len());
        let most = count(setting.n_cells - 1);
        let epochs = paths.chunks_exact(setting.n_paths).zip(law.averages());
        for ((errors, (mean, std)), n) in epochs.zip(1_u32..) {
            for (sum, error) in sums.iter_mut().zip(errors) {
                *sum += error;
                let share = (*sum / f64::from(n) - mean) / (10.0 * std) + 0.5;
                cells.push((share * count(setting.n_cells)).clamp(0.0, most) as u16);
            }
        }
        let target = self.settings.bounds.error(Self::INCUMBENT);
        let ends = &paths[paths.len() - setting.n_paths..];
        (cells, ends.iter().map(|error| *error < target).collect())
    }
}

/// Errors as a small network has them on images: a decay of 12 % an epoch from 0.45 to 0.11, with noise of 0.004.
fn errors(n_first: usize) -> Vec<f64> {
    let mut noise = Seed::new(2).stream(Purpose::Problem, 0, 0);
    let mut gap = 0.34;
    let errors = (0..n_first).map(|_| {
        gap *= 0.88;
        0.11 + gap + 0.004 * noise.normal()
    });
    errors.collect()
}

/// Sizes of the blocks that make up so many paths.
fn blocks(n_paths: usize) -> impl Iterator<Item = usize> {
    (0..n_paths)
        .step_by(BLOCK)
        .map(move |begin| BLOCK.min(n_paths - begin))
}

fn stream(draw: u64) -> Stream {
    Seed::new(1).stream(Purpose::EarlyStopping, draw, 0)
}

fn row(what: &str, setting: &Setting, timing: &Timing) -> Map<String, Value> {
    let mut row = columns(json!({
        "peer": "fedbo", "what": what, "epochs": setting.n_epochs, "paths": setting.n_paths,
        "cells": setting.n_cells, "level_variance": setting.level_variance,
    }));
    row.extend(timing.columns());
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Setting = Setting {
        n_epochs: 20,
        n_paths: 2500,
        n_cells: 40,
        level_variance: 0.0,
    };

    #[test]
    fn the_whole_and_every_part_have_a_row() {
        let limits = Limits {
            budget_s: 0.0,
            min_reps: 1,
            max_reps: 1,
        };
        let held = |seconds_most| {
            let rows = rows(&[SMALL], seconds_most, &limits).unwrap();
            let names: Vec<&Value> = rows.iter().map(|row| &row["what"]).collect();
            assert_eq!(names, ["whole", "fit", "continuation", "draw", "induction"]);
            assert!(rows.iter().all(|row| row["seconds"].as_f64() > Some(0.0)));
            rows[0]["held"].clone()
        };
        assert_eq!((held(1e3), held(0.0)), (json!(true), json!(false)));
    }

    /// The parts' cells are what the rule makes of a curve: both tables say the same of as many paths at the first epoch, and the
    /// share of paths that do better is the same to five standard errors.
    #[test]
    fn the_parts_are_those_of_the_rule() {
        let problem = Problem::new(&SMALL);
        let rule = problem.rule(&mut stream(0)).unwrap().unwrap();
        assert_eq!(rule.n_paths_kept(), SMALL.n_paths);
        let process = problem.fit().unwrap();
        assert_eq!(rule.process(), process);
        let law = process
            .continuation(&problem.errors, SMALL.n_epochs)
            .unwrap();
        let (cells, better) = problem.cells(&law, &SMALL, &mut stream(1));
        assert_eq!(cells.len(), better.len() * law.n_epochs());
        let p_better = count(better.iter().filter(|b| **b).count()) / count(better.len());
        let of_rule: f64 = rule.epochs()[0]
            .cells
            .iter()
            .flatten()
            .map(|cell| cell.p_better * f64::from(cell.n_paths))
            .sum();
        let expected = of_rule / count(rule.n_paths_kept());
        let tolerance = 5.0 * (0.5 / count(SMALL.n_paths)).sqrt();
        assert!(
            (p_better - expected).abs() < tolerance,
            "{p_better} {expected}"
        );
        assert!(expected > 0.01 && expected < 0.99, "{expected}");
        assert_eq!(blocks(2500).collect::<Vec<_>>(), [1024, 1024, 452]);
    }
}
