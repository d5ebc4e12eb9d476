//! Regret of a team of agents that optimize the same function: best, worst and average, by round.

use std::path::Path;

use super::error::ReportError;
use super::folder::{table_bytes, write_whole};

/// File name of the team regret in a results folder.
pub const TEAM_REGRET_FILE: &str = "regret.csv";

/// Regret of a team in rounds 1, 2, …, T (Zerefa et al., section D), computed from the instant
/// regret f* − f(x_{t,i}) of each query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TeamRegret {
    /// R_B(t): the minimum over all agents and rounds up to t.
    pub best: Vec<f64>,
    /// R_W(t): the maximum over the agents in round t.
    pub worst: Vec<f64>,
    /// R_A(t): the mean over the agents in round t.
    pub average: Vec<f64>,
}

impl TeamRegret {
    /// Computes the regret from the agents' instant regrets in each round. Agents with failed
    /// trials are omitted.
    ///
    /// A round without regrets repeats the worst and average of the previous round. `None` if the
    /// first round has no regrets.
    #[must_use]
    pub fn of(rounds: &[Vec<f64>]) -> Option<Self> {
        let mut regret = Self::default();
        for instants in rounds {
            let before = regret.best.last().copied().unwrap_or(f64::INFINITY);
            regret.best.push(instants.iter().copied().fold(before, f64::min));
            let (worst, average) = if instants.is_empty() {
                let before = regret.worst.last().copied();
                before.zip(regret.average.last().copied())?
            } else {
                let worst = instants.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                (worst, instants.iter().sum::<f64>() / instants.len() as f64)
            };
            regret.worst.push(worst);
            regret.average.push(average);
        }
        Some(regret)
    }

    /// Sums over rounds 1..=t for each t, which are the paper's cumulative regrets.
    #[must_use]
    pub fn cumulative(&self) -> Self {
        let sums = |values: &[f64]| {
            let mut sum = 0.0;
            let running = values.iter().map(|value| {
                sum += value;
                sum
            });
            running.collect()
        };
        Self { best: sums(&self.best), worst: sums(&self.worst), average: sums(&self.average) }
    }
}

/// The regret of one team in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct TeamRun {
    /// Name of the experiment or of one of its configurations.
    pub experiment: String,
    /// The algorithm or control arm.
    pub arm: String,
    /// Index of the repetition.
    pub run: u32,
    /// The team's regret.
    pub regret: TeamRegret,
}

/// Writes [`TEAM_REGRET_FILE`]: one row per round of each run, with the regrets and their sums.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn write_team_regret(folder: &Path, runs: &[TeamRun]) -> Result<(), ReportError> {
    let head = [
        "experiment",
        "arm",
        "run",
        "round",
        "best",
        "worst",
        "average",
        "cumulative_best",
        "cumulative_worst",
        "cumulative_average",
    ];
    let path = folder.join(TEAM_REGRET_FILE);
    let refused = |cause: std::io::Error| ReportError::Write { path: path.clone(), cause };
    let rows = runs.iter().flat_map(|run| {
        let (regret, sums) = (&run.regret, run.regret.cumulative());
        (0..regret.best.len()).map(move |round| {
            [
                run.experiment.clone(),
                run.arm.clone(),
                run.run.to_string(),
                (round + 1).to_string(),
                regret.best[round].to_string(),
                regret.worst[round].to_string(),
                regret.average[round].to_string(),
                sums.best[round].to_string(),
                sums.worst[round].to_string(),
                sums.average[round].to_string(),
            ]
        })
    });
    let bytes = table_bytes(head, rows).map_err(refused)?;
    write_whole(&path, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regrets_are_those_of_the_definitions() {
        let regret = TeamRegret::of(&[vec![3.0, 5.0], vec![4.0], vec![], vec![1.0, 7.0]]).unwrap();
        assert_eq!(regret.best, [3.0, 3.0, 3.0, 1.0]);
        assert_eq!(regret.worst, [5.0, 4.0, 4.0, 7.0]);
        assert_eq!(regret.average, [4.0, 4.0, 4.0, 4.0]);
        let sums = regret.cumulative();
        assert_eq!(sums.best, [3.0, 6.0, 9.0, 10.0]);
        assert_eq!(sums.worst, [5.0, 9.0, 13.0, 20.0]);
        assert_eq!(sums.average, [4.0, 8.0, 12.0, 16.0]);
        assert_eq!(TeamRegret::of(&[vec![], vec![1.0]]), None);
    }

    #[test]
    fn a_file_has_a_row_for_each_round() {
        let folder = tempfile::tempdir().unwrap();
        let run = TeamRun {
            experiment: "a, b".into(),
            arm: "ts".into(),
            run: 3,
            regret: TeamRegret::of(&[vec![2.0], vec![1.0]]).unwrap(),
        };
        write_team_regret(folder.path(), &[run]).unwrap();
        let text = std::fs::read_to_string(folder.path().join(TEAM_REGRET_FILE)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[2], "\"a, b\",ts,3,2,1,1,1,3,3,3");
    }
}
