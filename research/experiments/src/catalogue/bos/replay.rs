//! Replays all rules on the same trials, so that their error rates can be compared at equal
//! savings.

use fedbo_rivals::{CurvePredictionRule, CurvePredictionSettings};
use fedbo_strategies::early_stopping::{
    AshaOptions, AshaRule, BoBosOptions, BosProblem, BosRule, BosSettings, LearningCurve,
    MedianOptions, MedianRule, StoppingRule, TrainedTrial, Training,
};
use fedbo_streams::Seed;

use super::training_run::TrialTrace;
use super::wrong_stops::StopCount;

/// A rule with a given strictness.
pub(super) enum Replayed {
    /// A rule that uses only curves.
    Curves(Box<dyn StoppingRule>),
    /// BO-BOS's losses, with C2 always satisfied.
    Bos(BosSettings),
    /// Stops a trial after a random epoch with this probability: the placebo.
    Coin(f64),
}

/// Returns the rules, from lenient to strict.
///
/// # Errors
/// If a setting is out of range.
pub(super) fn rules(bos: &BosSettings) -> anyhow::Result<Vec<(String, Replayed)>> {
    let n_epochs = bos.n_epochs;
    let mut rules = Vec::new();
    for loss in [1000.0, 300.0, 100.0, 30.0] {
        let settings = BosSettings {
            options: BoBosOptions { wrong_stop_loss: loss, wrong_stop_growth: 1.0, ..bos.options },
            ..*bos
        };
        rules.push((format!("bo-bos K1 = {loss}"), Replayed::Bos(settings)));
        let one = settings.with_one_process();
        rules.push((format!("bo-bos, one process, K1 = {loss}"), Replayed::Bos(one)));
    }
    for warmup_epochs in [30, 15, 5] {
        let options = MedianOptions {
            warmup_epochs: u32::try_from(warmup_epochs * n_epochs / 50)?,
            trials_min: 5,
        };
        let rule = MedianRule::new(options);
        let name = format!("median from epoch {}", options.warmup_epochs + 1);
        rules.push((name, Replayed::Curves(Box::new(rule))));
    }
    for (reduction, first_rung) in [(2, 16), (2, 1), (3, 1)] {
        let options = AshaOptions { reduction, first_rung };
        let rule = AshaRule::new(options, n_epochs)?;
        let name = format!("asha eta = {reduction} from epoch {first_rung}");
        rules.push((name, Replayed::Curves(Box::new(rule))));
    }
    for prob_min in [0.01, 0.05, 0.2] {
        let settings = CurvePredictionSettings {
            range: Some((bos.bounds().low, bos.bounds().high)),
            prob_min,
            ..CurvePredictionSettings::for_epochs(n_epochs)
        };
        let rule = CurvePredictionRule::new(settings, Seed::new(0))?;
        let name = format!("lc prediction delta = {prob_min}");
        rules.push((name, Replayed::Curves(Box::new(rule))));
    }
    for p in [0.5, 0.9] {
        rules.push((format!("coin p = {p}"), Replayed::Coin(p)));
    }
    Ok(rules)
}

impl Replayed {
    /// Replays the rule on these trials in order. The incumbent and the other trials' curves are
    /// the ones that result from this rule.
    ///
    /// # Errors
    /// If a stopping problem cannot be solved.
    pub(super) fn replay(&self, trials: &[TrialTrace], seed: Seed) -> anyhow::Result<StopCount> {
        let mut count = StopCount::default();
        let mut others: Vec<TrainedTrial> = Vec::new();
        let mut incumbent: Option<f64> = None;
        for trial in trials {
            let n_trained = match (trial.is_initial, incumbent) {
                (false, Some(incumbent)) => self.end(trial, incumbent, &others, seed)?,
                _ => trial.values.len(),
            };
            let replayed = TrialTrace {
                n_trained,
                is_stopped: n_trained < trial.values.len(),
                incumbent,
                ..trial.clone()
            };
            count.add(&replayed);
            let curve = LearningCurve::new(trial.values[..n_trained].to_vec());
            let end = curve.last();
            incumbent = Some(incumbent.map_or(end, |best| best.max(end)));
            others.push(TrainedTrial {
                number: trial.number,
                curve,
                training: match replayed.is_stopped {
                    true => Training::Stopped,
                    false => Training::Complete,
                },
            });
        }
        Ok(count)
    }

    /// Returns the epoch at which the rule ends the trial.
    fn end(
        &self,
        trial: &TrialTrace,
        incumbent: f64,
        others: &[TrainedTrial],
        seed: Seed,
    ) -> anyhow::Result<usize> {
        let n_epochs = trial.values.len();
        let whole = LearningCurve::new(trial.values.clone());
        let mut stream = seed.stream(fedbo_strategies::EARLY_STOPPING, trial.number, 1);
        let stopped = match self {
            Self::Curves(rule) => (1..n_epochs).find(|n| {
                let running = TrainedTrial {
                    number: trial.number,
                    curve: whole.until(*n),
                    training: Training::Running,
                };
                rule.judge(&running, others).stops()
            }),
            Self::Bos(settings) => {
                let problem =
                    BosProblem { curve: &whole, incumbent, t: 1, stds: &vec![1.0; n_epochs] };
                let rule = BosRule::solve(settings, &problem, &mut stream)?;
                rule.and_then(|rule| {
                    (settings.first_epochs() + 1..n_epochs).find(|n| {
                        let answer = rule.answer(&whole.until(*n));
                        answer.is_some_and(|answer| answer.stops)
                    })
                })
            }
            Self::Coin(p) => stream.bernoulli(*p).then(|| 1 + stream.below(n_epochs - 1)),
        };
        Ok(stopped.unwrap_or(n_epochs))
    }
}
