//! A network's accuracy as a function of its hyperparameters, replayed from records.

use fedbo_objective::{Direction, Failure, Objective, Outcome, TrialId};
use fedbo_research_problems::{CnnRecord, CnnRecords, Problem};
use fedbo_space::{ParameterSpec, Point, Space};
use fedbo_strategies::{Observation, Points, Source, Surrogate, SurrogateSettings};
use fedbo_streams::{Purpose, Seed};

/// The posterior median of a Gaussian process fitted to all records of a data set, clipped to the
/// range of the records. This surface is smooth, without training noise, and unreliable far from
/// the records. No network is trained.
pub(super) struct CnnReplay {
    data_set: &'static str,
    space: Space,
    surrogate: Surrogate,
    /// Smallest and largest recorded accuracy.
    range: (f64, f64),
    /// Number of distinct recorded hyperparameter settings.
    pub(super) n_records: usize,
    /// Root mean square distance of the records from the surface.
    pub(super) residual: f64,
}

impl CnnReplay {
    /// Fits the surface to the 50 observations and the initial points. Inputs that were trained
    /// several times count once, with their mean accuracy.
    ///
    /// # Errors
    /// If the records cannot be modelled.
    pub(super) fn new(records: &CnnRecords, seed: Seed) -> anyhow::Result<Self> {
        let names = ["learning_rate", "decay", "l2"];
        let range = ParameterSpec::float(1e-7, 1e-2);
        let distinct = distinct(records);
        let observed: Vec<Observation> = distinct
            .iter()
            .map(|record| {
                Observation::new(record.x.to_vec(), Some(record.accuracy), Source::Initial)
            })
            .collect();
        let settings = SurrogateSettings::for_study(names.len(), true);
        let seed = seed.child(Purpose::PROBLEM, 0);
        let mut surrogate = Surrogate::new(names.len(), settings, None, seed)?;
        surrogate.tell(&observed)?;
        let accuracies = distinct.iter().map(|record| record.accuracy);
        let mut replay = Self {
            range: (accuracies.clone().fold(1.0, f64::min), accuracies.fold(0.0, f64::max)),
            n_records: distinct.len(),
            data_set: records.data_set,
            space: Space::from_specs(names.map(|name| (name, &range)))?,
            surrogate,
            residual: 0.0,
        };
        let squares =
            distinct.iter().map(|record| (replay.accuracy(&record.x) - record.accuracy).powi(2));
        #[expect(clippy::cast_precision_loss, reason = "some sixty records")]
        let n = distinct.len() as f64;
        replay.residual = (squares.sum::<f64>() / n).sqrt();
        Ok(replay)
    }

    fn accuracy(&self, unit: &[f64]) -> f64 {
        let (low, high) = self.range;
        self.surrogate.predict(unit).0.min(high).max(low)
    }
}

/// Returns all records with distinct inputs, each with the mean of its accuracies.
fn distinct(records: &CnnRecords) -> Vec<CnnRecord> {
    let mut distinct: Vec<(CnnRecord, f64)> = Vec::new();
    let all = records.observations.iter();
    for record in all.chain(records.initial.iter().flatten()) {
        let is_same = |known: &CnnRecord| {
            let pairs = known.x.iter().zip(record.x);
            pairs.clone().all(|(a, b)| (a - b).abs() < 1e-12)
        };
        match distinct.iter_mut().find(|(known, _)| is_same(known)) {
            Some((known, n)) => {
                known.accuracy = (known.accuracy * *n + record.accuracy) / (*n + 1.0);
                *n += 1.0;
            }
            None => distinct.push((*record, 1.0)),
        }
    }
    distinct.into_iter().map(|(record, _)| record).collect()
}

impl CnnReplay {
    /// Returns the observations as an earlier task.
    pub(super) fn task(records: &CnnRecords) -> fedbo_strategies::meta::MetaTask {
        let mut inputs = Points::new(3);
        for record in &records.observations {
            inputs.push(&record.x);
        }
        fedbo_strategies::meta::MetaTask {
            name: records.data_set.to_owned(),
            inputs,
            outputs: records.observations.iter().map(|r| r.accuracy).collect(),
        }
    }
}

impl Objective for CnnReplay {
    fn evaluate(&self, point: &Point, _: TrialId) -> Outcome {
        match self.space.encode(point) {
            Ok(unit) => Outcome::Value(self.accuracy(&unit)),
            Err(error) => Outcome::Failed(Failure::BadPoint { message: error.to_string() }),
        }
    }
}

impl Problem for CnnReplay {
    fn name(&self) -> String {
        format!("cnn replay {}", self.data_set)
    }

    fn space(&self) -> &Space {
        &self.space
    }

    fn direction(&self) -> Direction {
        Direction::Maximize
    }

    fn noiseless(&self, point: &Point) -> Option<f64> {
        Some(self.accuracy(&self.space.encode(point).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses records of a paraboloid. The surface is close to it between the records, and replicates
    /// count once.
    #[test]
    fn the_surface_follows_the_records() {
        let truth = |x: [f64; 3]| 0.8 - x.iter().map(|v| (v - 0.4) * (v - 0.4)).sum::<f64>();
        let mut stream = Seed::new(4).stream(Purpose::TEST, 0, 0);
        let mut record = || {
            let x = [(); 3].map(|()| stream.uniform());
            CnnRecord { x, accuracy: truth(x) }
        };
        let observations: Vec<CnnRecord> = (0..50).map(|_| record()).collect();
        let mut replicate = record();
        let initial = (0..10)
            .map(|run| {
                replicate.accuracy = truth(replicate.x) + 0.01 * f64::from(run - 5) + 0.005;
                vec![replicate]
            })
            .collect();
        let records = CnnRecords { data_set: "svhn", observations, initial };
        let all = distinct(&records);
        assert_eq!(all.len(), 51);
        assert!((all[50].accuracy - truth(replicate.x)).abs() < 1e-12);
        let replay = CnnReplay::new(&records, Seed::new(0)).unwrap();
        assert!(replay.residual < 0.02, "{}", replay.residual);
        let mut worst: f64 = 0.0;
        for _ in 0..50 {
            let at = record();
            let point = replay.space().decode(&at.x);
            let trial = TrialId { agent: 0, trial: 0 };
            let Outcome::Value(value) = replay.evaluate(&point, trial) else {
                panic!("a point of the space");
            };
            assert_eq!(replay.noiseless(&point), Some(value));
            assert!((replay.range.0..=replay.range.1).contains(&value));
            worst = worst.max((value - at.accuracy).abs());
        }
        assert!(worst < 0.1, "{worst}"); // the values span about 0.8
        assert_eq!(CnnReplay::task(&records).outputs.len(), 50);
    }
}
