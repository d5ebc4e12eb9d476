//! Conversion of finished trials to rows of `results.csv`, with iteration numbers, the best value
//! so far and regret.

use fedbo_objective::Outcome;
use fedbo_space::{Direction, Point};
use fedbo_strategies::Source;

use crate::session::TrialRecord;
use fedbo_report::Row;

/// The labels that a [`RowBuilder`] writes into every row.
#[derive(Clone, Debug)]
pub struct RowLabels {
    /// Name of the experiment or federation.
    pub experiment: String,
    /// The arm.
    pub arm: String,
    /// The agent's name.
    pub agent: String,
    /// The repetition.
    pub run: u32,
}

impl RowLabels {
    /// Creates the labels for the rows of an agent in one repetition.
    pub fn new(
        experiment: impl Into<String>,
        arm: impl Into<String>,
        agent: impl Into<String>,
        run: u32,
    ) -> Self {
        Self { experiment: experiment.into(), arm: arm.into(), agent: agent.into(), run }
    }
}

/// Converts an agent's trials, in order, to rows.
#[derive(Clone, Debug)]
pub struct RowBuilder {
    unit: RowLabels,
    direction: Direction,
    /// Iteration of the next trial. The last initial point has iteration 0.
    iteration: i64,
    best: Option<f64>,
    optimum: Option<f64>,
    regret_of: RegretOf,
    regret: Option<f64>,
}

/// The trial, among all trials so far, that determines the regret of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RegretOf {
    /// The trial with the lowest regret, even if its observation is not the best.
    #[default]
    Least,
    /// The trial with the best observation.
    BestObserved,
}

impl RowBuilder {
    /// Creates a builder for the rows of an agent with `n_initial` initial points. `optimum` is the
    /// optimal noise-free value, if known.
    pub fn new(
        unit: RowLabels,
        direction: Direction,
        n_initial: usize,
        optimum: Option<f64>,
    ) -> Self {
        let n_initial = i64::try_from(n_initial).unwrap_or(i64::MAX);
        Self {
            unit,
            direction,
            iteration: 1 - n_initial,
            best: None,
            optimum,
            regret_of: RegretOf::default(),
            regret: None,
        }
    }

    /// Reports the regret of the trial with the best observation so far, which is the one that a
    /// user would choose. With noise, this regret can increase. By default, the lowest regret so
    /// far is reported.
    #[must_use]
    pub fn with_regret_of_best_observed(self) -> Self {
        Self { regret_of: RegretOf::BestObserved, ..self }
    }

    /// Returns the best value so far.
    pub fn best(&self) -> Option<f64> {
        self.best
    }

    /// Returns the regret of a noise-free value, if the optimum is known.
    pub fn regret_at(&self, true_value: f64) -> Option<f64> {
        let gap =
            |optimum| self.direction.to_maximize(optimum) - self.direction.to_maximize(true_value);
        self.optimum.map(gap)
    }

    /// Sets the iteration of the next row, for experiments that count something other than trials.
    pub fn at(&mut self, iteration: i64) {
        self.iteration = iteration;
    }

    /// Converts a trial to a row. `true_value` is the noise-free objective at its point, if known.
    /// `name_of` returns the names of message senders.
    pub fn row(
        &mut self,
        record: &TrialRecord,
        true_value: Option<f64>,
        name_of: impl Fn(u32) -> String,
    ) -> Row {
        let source = match &record.trial.source {
            Source::Message { sender } => format!("message:{}", name_of(*sender)),
            other => other.to_string(),
        };
        let ended = match &record.outcome {
            Outcome::Value(value) => Ok(Some(*value)),
            Outcome::Failed(failure) => Err(failure.to_string()),
            // Trials in a federation have a single value. Outcomes with several numbers count as
            // failed.
            Outcome::Interrupted | Outcome::Numbers(_) | Outcome::Measured(_) => Ok(None),
        };
        self.next(&record.point, source, ended, true_value, record.ask_seconds)
    }

    /// Creates the row of the next trial from its point, source, value or failure reason,
    /// noise-free value, and the seconds that the proposal took.
    pub fn next(
        &mut self,
        point: &Point,
        source: String,
        ended: Result<Option<f64>, String>,
        true_value: Option<f64>,
        ask_seconds: f64,
    ) -> Row {
        let value = ended.as_ref().ok().copied().flatten();
        let is_best = value.is_some_and(|value| {
            self.best.is_none_or(|best| self.direction.is_better(value, best))
        });
        if is_best {
            self.best = value;
        }
        let regret = true_value.and_then(|true_value| self.regret_at(true_value));
        if let (Some(regret), Some(_)) = (regret, value) {
            self.regret = match (self.regret, self.regret_of) {
                (None, _) => Some(regret),
                (Some(before), RegretOf::Least) => Some(before.min(regret)),
                (Some(before), RegretOf::BestObserved) => {
                    Some(if is_best { regret } else { before })
                }
            };
        }
        let iteration = self.iteration;
        self.iteration += 1;
        Row {
            experiment: self.unit.experiment.clone(),
            arm: self.unit.arm.clone(),
            agent: self.unit.agent.clone(),
            run: self.unit.run,
            iteration,
            source,
            parameters: point
                .iter()
                .map(|(name, value)| (name.to_owned(), value.to_string()))
                .collect(),
            value,
            best: self.best,
            regret: self.regret,
            ask_seconds,
            status: match ended {
                Err(reason) => Row::failed_status(reason),
                Ok(_) => Row::ok_status(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use fedbo_objective::Failure;
    use fedbo_protocol::Trial;
    use fedbo_space::Value;

    use super::*;

    fn record(index: u64, outcome: Outcome, source: Source) -> TrialRecord {
        let trial = Trial { index, round: 0, unit: vec![0.5], source };
        let point = Point::new(vec![("x".into(), Value::Float(0.5))]);
        TrialRecord { agent: 0, trial, point, outcome, ask_seconds: 0.0 }
    }

    #[test]
    fn rows_number_iterations_and_keep_the_best() {
        let unit =
            RowLabels { experiment: "e".into(), arm: "fts".into(), agent: "north".into(), run: 3 };
        let mut tally = RowBuilder::new(unit, Direction::Minimize, 2, Some(1.0));
        let outcomes = [
            (Outcome::Value(4.0), Source::Initial),
            (Outcome::Failed(Failure::NotFinite(f64::NAN)), Source::Initial),
            (Outcome::Value(6.0), Source::Own),
            (Outcome::Value(3.0), Source::Message { sender: 1 }),
        ];
        let rows: Vec<Row> = (0..)
            .zip(outcomes)
            .map(|(i, (outcome, source))| {
                let truth = if let Outcome::Value(v) = outcome { Some(v - 0.5) } else { None };
                tally.row(&record(i, outcome, source), truth, |id| format!("agent {id}"))
            })
            .collect();
        assert_eq!(rows.iter().map(|r| r.iteration).collect::<Vec<_>>(), [-1, 0, 1, 2]);
        assert_eq!(
            rows.iter().map(|r| r.best).collect::<Vec<_>>(),
            [Some(4.0), Some(4.0), Some(4.0), Some(3.0)]
        );
        assert_eq!(
            rows.iter().map(|r| r.regret).collect::<Vec<_>>(),
            [Some(2.5), Some(2.5), Some(2.5), Some(1.5)]
        );
        assert_eq!(rows[3].source, "message:agent 1");
        assert!(rows[1].is_failed() && rows[1].value.is_none() && !rows[2].is_failed());
    }

    /// Observations are 4, 5 and 3, with noise-free values 3.5, 1.5 and 2.5. The second has the
    /// best noise-free value. The best observation is the first, and later the third.
    #[test]
    fn regret_is_the_least_or_that_of_the_best_observation() {
        let unit =
            RowLabels { experiment: "e".into(), arm: "a".into(), agent: "north".into(), run: 0 };
        let least = RowBuilder::new(unit, Direction::Minimize, 0, Some(1.0));
        let observed = least.clone().with_regret_of_best_observed();
        for (mut tally, expected) in [(least, [2.5, 0.5, 0.5]), (observed, [2.5, 2.5, 1.5])] {
            for ((seen, truth), expected) in
                [(4.0, 3.5), (5.0, 1.5), (3.0, 2.5)].into_iter().zip(expected)
            {
                let record = record(0, Outcome::Value(seen), Source::Own);
                let row = tally.row(&record, Some(truth), |_| String::new());
                assert_eq!(row.regret, Some(expected));
            }
        }
    }
}
