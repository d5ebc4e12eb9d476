//! Optimal stopping of a single trial by backward induction on sampled paths (thesis Eq. (4.1),
//! Algorithm 1.1; Müller et al. 2007).

/// A decision about a trial after an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// d₀: observe one more epoch.
    Continue,
    /// d₁: stop, and conclude that the complete run would not beat the incumbent.
    StopEarly,
    /// d₂: stop observing, and conclude that the complete run would beat the incumbent. Training
    /// then continues to the end, because the search needs the final value.
    RunToEnd,
}

/// Losses of an optimal stopping problem, all positive. The first two can be infinite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoppingLosses {
    /// K₁: the loss of wrongly concluding that a trial would not beat the incumbent.
    pub wrong_stop: f64,
    /// K₂: the loss of wrongly concluding that a trial would beat the incumbent.
    pub wrong_continue: f64,
    /// c: the loss of each additional epoch that is observed.
    pub epoch: f64,
}

impl StoppingLosses {
    /// Returns the expected losses of d₁ and d₂ if the trial beats the incumbent with probability
    /// `p_better` (Eq. (4.3)). An infinite loss stays infinite at probability 0, so the
    /// corresponding decision is never recommended.
    pub fn terminal(&self, p_better: f64) -> (f64, f64) {
        let expected = |loss: f64, p: f64| {
            if loss.is_infinite() { loss } else { loss * p }
        };
        (expected(self.wrong_stop, p_better), expected(self.wrong_continue, 1.0 - p_better))
    }
}

/// Sampled paths of a summary statistic, discretized into cells at each epoch, with the outcome of
/// each path.
///
/// `cells` contains the cells of all paths at the first epoch, then those at the second epoch, and
/// so on. Each cell is below `n_cells`. `better` is true for each path on which the complete run
/// beats the incumbent.
#[derive(Clone, Copy, Debug)]
pub struct CellPaths<'a> {
    /// Cells of S paths at E epochs, epoch by epoch.
    pub cells: &'a [u16],
    /// Outcomes of the S paths.
    pub better: &'a [bool],
    /// Number of cells M at each epoch.
    pub n_cells: usize,
}

/// The solution for a cell that contains paths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellRule {
    /// Decision with the smallest expected loss.
    pub decision: Decision,
    /// Number of paths through the cell.
    pub n_paths: u32,
    /// Fraction of these paths that beat the incumbent.
    pub p_better: f64,
    /// Expected losses of d₀ (`None` at the last epoch), d₁ and d₂.
    pub losses: (Option<f64>, f64, f64),
}

/// The rule for each cell at each epoch; `None` for cells without paths.
pub type DecisionTable = Vec<Vec<Option<CellRule>>>;

/// Treatment of cells with few paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SparseCells {
    /// Treats them like all other cells.
    Plain,
    /// As in the authors' code: a cell with at most `n_paths_max` paths always continues, at
    /// loss 0. This loss propagates to earlier cells, where continuing then looks cheaper than it
    /// is.
    ContinueFree {
        /// Maximum number of paths in a sparse cell, 30 in the authors' code.
        n_paths_max: u32,
    },
}

/// Solves the problem backwards from the last epoch (Algorithm 1.1):
///
/// ρ_E(m) = min(K₁ P(better | m), K₂ P(worse | m))
/// ρ_n(m) = min(K₁ P(better | m), K₂ P(worse | m), c + mean of ρ_{n+1} over the cells that the paths through m reach next)
///
/// In a tie, a terminal decision wins over continuing, and d₂ wins over d₁. Probabilities and means
/// are taken over the paths. The result is therefore exact if the input contains all paths of a
/// discrete problem in proportion to their probabilities, and every history has its own cell. Cost:
/// O(E S).
///
/// # Panics
/// If the length of `cells` is not a multiple of the number of flags, or a cell is not below
/// `n_cells`.
pub fn solve(paths: CellPaths<'_>, losses: StoppingLosses, sparse: SparseCells) -> DecisionTable {
    let n_paths = paths.better.len();
    if n_paths == 0 {
        return Vec::new();
    }
    assert_eq!(paths.cells.len() % n_paths, 0, "epochs with another number of paths than flags");
    let epochs: Vec<&[u16]> = paths.cells.chunks_exact(n_paths).collect();
    let mut table: DecisionTable = Vec::with_capacity(epochs.len());
    let mut next: Option<(&[u16], Vec<f64>)> = None;
    for cells in epochs.into_iter().rev() {
        let mut tally = vec![CellSums::default(); paths.n_cells];
        match &next {
            None => {
                for (cell, better) in cells.iter().zip(paths.better) {
                    tally[usize::from(*cell)].add(*better, 0.0);
                }
            }
            Some((reached, values)) => {
                let pairs = cells.iter().zip(paths.better).zip(*reached);
                for ((cell, better), reached) in pairs {
                    tally[usize::from(*cell)].add(*better, values[usize::from(*reached)]);
                }
            }
        }
        let rules: Vec<Option<CellRule>> =
            tally.iter().map(|tally| tally.rule(losses, next.is_some(), sparse)).collect();
        // Every cell that a path reaches has a rule, so the value of the others does not matter.
        let values = rules.iter().map(|rule| rule.map_or(0.0, |rule| value(&rule, sparse)));
        next = Some((cells, values.collect()));
        table.push(rules);
    }
    table.reverse();
    table
}

/// Sums over the paths through one cell.
#[derive(Clone, Copy, Default)]
struct CellSums {
    n_paths: u32,
    n_better: u32,
    next: f64,
}

impl CellSums {
    #[inline(always)]
    fn add(&mut self, better: bool, next: f64) {
        self.n_paths += 1;
        self.n_better += u32::from(better);
        self.next += next;
    }

    fn rule(
        &self,
        losses: StoppingLosses,
        continues: bool,
        sparse: SparseCells,
    ) -> Option<CellRule> {
        if self.n_paths == 0 {
            return None;
        }
        let n = f64::from(self.n_paths);
        let p_better = f64::from(self.n_better) / n;
        let (stop, run) = losses.terminal(p_better);
        let continues = continues.then(|| losses.epoch + self.next / n);
        let terminal = match stop < run {
            true => Decision::StopEarly,
            false => Decision::RunToEnd,
        };
        let is_sparse = match sparse {
            SparseCells::Plain => false,
            SparseCells::ContinueFree { n_paths_max } => self.n_paths <= n_paths_max,
        };
        let decision = match continues {
            Some(_) if is_sparse => Decision::Continue,
            Some(loss) if loss < stop.min(run) => Decision::Continue,
            _ => terminal,
        };
        Some(CellRule { decision, n_paths: self.n_paths, p_better, losses: (continues, stop, run) })
    }
}

/// Returns ρ of a cell.
fn value(rule: &CellRule, sparse: SparseCells) -> f64 {
    let (continues, stop, run) = rule.losses;
    match sparse {
        SparseCells::ContinueFree { n_paths_max }
            if rule.n_paths <= n_paths_max && continues.is_some() =>
        {
            0.0
        }
        _ => continues.unwrap_or(f64::INFINITY).min(stop).min(run),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fedbo_streams::{Purpose, Seed};

    use super::*;

    const LOSSES: StoppingLosses =
        StoppingLosses { wrong_stop: 100.0, wrong_continue: 99.0, epoch: 1.0 };

    /// A discrete problem. The training run is good or bad, and each epoch emits one of
    /// `n_outcomes` signals with probabilities that depend on which. A history is encoded as a
    /// number with its signals as digits.
    struct Discrete {
        n_outcomes: usize,
        n_epochs: usize,
        p_good: f64,
        /// Probabilities of each signal for a good and for a bad run.
        chances: [Vec<f64>; 2],
    }

    impl Discrete {
        fn random(index: u64, n_outcomes: usize, n_epochs: usize) -> Self {
            let mut stream = Seed::new(5).stream(Purpose::TEST, index, 0);
            let mut law = || {
                // Multiples of 1/8, so that whole numbers of paths represent the probabilities
                // exactly.
                let mut parts = vec![1_u32; n_outcomes];
                for _ in n_outcomes..8 {
                    parts[stream.below(n_outcomes)] += 1;
                }
                parts.into_iter().map(|part| f64::from(part) / 8.0).collect()
            };
            let chances = [law(), law()];
            Self { n_outcomes, n_epochs, p_good: 0.25 * (1 + stream.below(3)) as f64, chances }
        }

        /// Returns the joint probability of a history and a good or bad run.
        fn joint(&self, history: &[usize], good: bool) -> f64 {
            let law = &self.chances[usize::from(!good)];
            let start = if good { self.p_good } else { 1.0 - self.p_good };
            history.iter().fold(start, |p, signal| p * law[*signal])
        }

        /// Computes ρ and the decisions for all continuations of a history directly from Eq. (4.1).
        fn exact(
            &self,
            history: &mut Vec<usize>,
            losses: StoppingLosses,
            found: &mut BTreeMap<Vec<usize>, Decision>,
        ) -> f64 {
            let (good, bad) = (self.joint(history, true), self.joint(history, false));
            let p = good / (good + bad);
            let stop = losses.wrong_stop * p;
            let run = losses.wrong_continue * (1.0 - p);
            let mut rho = stop.min(run);
            let mut decision = if stop < run { Decision::StopEarly } else { Decision::RunToEnd };
            if history.len() < self.n_epochs {
                let mut continues = losses.epoch;
                for signal in 0..self.n_outcomes {
                    history.push(signal);
                    let chance =
                        (self.joint(history, true) + self.joint(history, false)) / (good + bad);
                    continues += chance * self.exact(history, losses, found);
                    history.pop();
                }
                if continues < rho - 1e-9 {
                    (rho, decision) = (continues, Decision::Continue);
                } else if continues < rho + 1e-9 {
                    // Rounding decides ties, so they are not compared.
                    return rho.min(continues);
                }
            }
            if (stop - run).abs() > 1e-9 {
                found.insert(history.clone(), decision);
            }
            rho
        }

        /// Returns all histories as paths, in proportion to their probabilities.
        fn paths(&self) -> (Vec<u16>, Vec<bool>) {
            let n_histories = self.n_outcomes.pow(u32::try_from(self.n_epochs).unwrap());
            let mut cells = vec![Vec::new(); self.n_epochs];
            let mut better = Vec::new();
            for number in 0..n_histories {
                let history: Vec<usize> = (0..self.n_epochs)
                    .map(|n| {
                        number / self.n_outcomes.pow(u32::try_from(n).unwrap()) % self.n_outcomes
                    })
                    .collect();
                for good in [true, false] {
                    // Probabilities are multiples of 1/(4·8^E).
                    let scale = 4.0 * 8_f64.powi(i32::try_from(self.n_epochs).unwrap());
                    let mut left = (self.joint(&history, good) * scale).round();
                    while left > 0.0 {
                        left -= 1.0;
                        better.push(good);
                        for (n, cells) in cells.iter_mut().enumerate() {
                            cells.push(self.cell(&history[..=n]));
                        }
                    }
                }
            }
            (cells.concat(), better)
        }

        fn cell(&self, history: &[usize]) -> u16 {
            let number =
                history.iter().rev().fold(0, |number, signal| number * self.n_outcomes + signal);
            u16::try_from(number).unwrap()
        }
    }

    #[test]
    fn decisions_are_those_of_exact_dynamic_programming() {
        let (mut n_compared, mut seen) = (0, std::collections::BTreeSet::new());
        for (index, n_outcomes) in (0..40).zip([2, 3].into_iter().cycle()) {
            let problem = Discrete::random(index, n_outcomes, 3);
            for losses in [
                LOSSES,
                StoppingLosses { epoch: 8.0, ..LOSSES },
                StoppingLosses { wrong_stop: 400.0, ..LOSSES },
            ] {
                let mut exact = BTreeMap::new();
                problem.exact(&mut Vec::new(), losses, &mut exact);
                let (cells, better) = problem.paths();
                let paths = CellPaths { cells: &cells, better: &better, n_cells: 27 };
                let table = solve(paths, losses, SparseCells::Plain);
                for (history, decision) in exact.iter().filter(|(history, _)| !history.is_empty()) {
                    let cell = usize::from(problem.cell(history));
                    let rule = table[history.len() - 1][cell].unwrap();
                    assert_eq!(rule.decision, *decision, "{index} {losses:?} {history:?} {rule:?}");
                    n_compared += 1;
                    seen.insert(format!("{decision:?}"));
                }
            }
        }
        assert!(n_compared > 1000 && seen.len() == 3, "{n_compared} {seen:?}");
    }

    #[test]
    fn what_loses_infinitely_is_never_recommended() {
        let problem = Discrete::random(7, 3, 3);
        let (cells, mut better) = problem.paths();
        for all in [None, Some(true), Some(false)] {
            if let Some(all) = all {
                better.fill(all);
            }
            let decisions = |losses| {
                let paths = CellPaths { cells: &cells, better: &better, n_cells: 27 };
                let table = solve(paths, losses, SparseCells::Plain);
                let rules = table.into_iter().flatten().flatten();
                rules.map(|rule| rule.decision).collect::<Vec<_>>()
            };
            let no_stop = decisions(StoppingLosses { wrong_stop: f64::INFINITY, ..LOSSES });
            assert!(!no_stop.contains(&Decision::StopEarly));
            let no_run = decisions(StoppingLosses { wrong_continue: f64::INFINITY, ..LOSSES });
            assert!(!no_run.contains(&Decision::RunToEnd));
        }
    }

    /// The higher the incumbent, the fewer paths beat it. A cell that stops also stops for a higher
    /// incumbent, and a cell that runs to the end does not stop for a lower one.
    #[test]
    fn decisions_are_monotone_in_the_incumbent() {
        let mut stream = Seed::new(6).stream(Purpose::TEST, 0, 0);
        let n_paths = 20_000;
        let mut values = vec![0.0; n_paths];
        let mut cells = Vec::new();
        for _ in 0..6 {
            for value in &mut values {
                *value += stream.normal();
                let below = (0_u16..79).filter(|cell| f64::from(*cell) < *value * 2.0 + 40.0);
                cells.push(u16::try_from(below.count()).unwrap());
            }
        }
        let mut before: Option<DecisionTable> = None;
        let mut n_changed = 0;
        for incumbent in [-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0] {
            let better: Vec<bool> = values.iter().map(|value| *value > incumbent).collect();
            let paths = CellPaths { cells: &cells, better: &better, n_cells: 80 };
            let table = solve(paths, LOSSES, SparseCells::Plain);
            if let Some(before) = &before {
                for (old, new) in before.iter().flatten().zip(table.iter().flatten()) {
                    let (Some(old), Some(new)) = (old, new) else {
                        continue;
                    };
                    n_changed += usize::from(old.decision != new.decision);
                    if old.decision == Decision::StopEarly {
                        assert_eq!(new.decision, Decision::StopEarly, "{old:?} {new:?}");
                    }
                    if new.decision == Decision::RunToEnd {
                        assert_eq!(old.decision, Decision::RunToEnd, "{old:?} {new:?}");
                    }
                }
            }
            before = Some(table);
        }
        assert!(n_changed > 20, "{n_changed}");
    }

    #[test]
    fn sparse_cells_of_the_authors_continue_for_nothing() {
        // One path of eleven passes through cell 1 at the second epoch; all beat the incumbent.
        let cells = [vec![0; 11], [vec![1], vec![0; 10]].concat(), vec![0; 11]].concat();
        let paths = CellPaths { cells: &cells, better: &[true; 11], n_cells: 2 };
        let losses = StoppingLosses { wrong_continue: f64::INFINITY, ..LOSSES };
        let plain = solve(paths, losses, SparseCells::Plain);
        let authors = solve(paths, losses, SparseCells::ContinueFree { n_paths_max: 1 });
        let loss = |table: &DecisionTable, n: usize, cell: usize| table[n][cell].unwrap().losses.0;
        assert_eq!(loss(&plain, 1, 1), Some(101.0));
        assert_eq!(loss(&plain, 0, 0), Some(101.0));
        assert_eq!(loss(&authors, 0, 0), Some(1.0 + 10.0 * 100.0 / 11.0));
        assert_eq!(authors[1][1].unwrap().decision, Decision::Continue);
    }
}
