//! The arms of the early-stopping experiments.

use std::sync::atomic::AtomicBool;

use fedbo_gp::{DecayFit, FitCriterion};
use fedbo_rivals::{Boca, CurvePredictionRule, CurvePredictionSettings};
use fedbo_space::Space;
use fedbo_strategies::early_stopping::{
    AshaOptions, AshaRule, BoBos, BoBosOptions, BosSettings, CurveBelief, EpochGpUcb,
    EpochGpUcbSettings, EpochScale, MedianOptions, MedianRule,
};
use fedbo_strategies::{
    Domain, GpUcb, GpUcbSettings, HyperparameterPolicy, RandomSearch, Refit, Repeats,
    SurrogateSettings, UcbMultiplier,
};
use fedbo_streams::Seed;

use super::training_run::{RunTrace, TrainingRun};
use super::tuner::{Bos, CurveRuleTuner, MultiFidelity, PlaceboRule, Predicted, Proposals, Tuner};
use fedbo_runner::Ended;

/// The tuning method of an arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Method {
    /// GP-UCB over complete training runs.
    GpUcb,
    /// GP-UCB over points and epochs, without a stopping rule. This arm shows the benefit of
    /// intermediate values.
    EpochGpUcb,
    /// BO-BOS with K_1 divided by this number after each trial.
    BoBos(f64),
    /// Like [`Self::BoBos`], with n/N as the epoch's coordinate, as in the thesis.
    BoBosLinear(f64),
    /// Like [`Self::BoBos`], with one process per curve, as in the thesis.
    BoBosOneProcess(f64),
    /// BO-BOS as in a study: one process per curve, schedule b, and the given value at the end of a
    /// stopped trial.
    BoBosOfStudy(ToldEnd),
    /// BO-BOS as in the authors' code.
    BoBosAuthors,
    /// BO-BOS with α and β from the Bayesian update, as in the thesis' text.
    BoBosUpdate,
    /// A placebo: the stops of [`Method::BoBos`] with this schedule, assigned to different trials.
    DealtStops(f64),
    /// Random search.
    Random,
    /// Random search with asynchronous halving.
    Asha,
    /// Like [`Self::Asha`], with points from GP-UCB over epochs.
    AshaGp,
    /// The median rule with points from GP-UCB over epochs.
    MedianGp,
    /// Hyperband with η = 3.
    Hyperband,
    /// BOCA.
    Boca,
    /// Learning-curve prediction.
    Prediction,
}

/// The value at epoch N that BO-BOS's model is told for a stopped trial, in addition to the trial's
/// reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToldEnd {
    /// No value.
    Nothing,
    /// The mean of the predicted curves.
    Expected,
    /// The last reported value.
    Last,
}

/// Name and method of an arm.
pub(super) type Arm = (&'static str, Method);

/// The schedule used in the thesis' other experiments.
pub(super) const SCHEDULE_B: f64 = 0.95;
pub(super) const BO_BOS: &str = "bo-bos b";
pub(super) const GP_UCB: &str = "gp-ucb";

/// Returns the index of the arm that represents BO-BOS: the one with the usual schedule, or
/// otherwise the first.
pub(super) fn bo_bos(arms: &[Arm]) -> Option<usize> {
    let usual = arms.iter().position(|(name, _)| *name == BO_BOS);
    usual.or_else(|| {
        let mut methods = arms.iter().map(|(_, method)| method);
        methods.position(|method| matches!(method, Method::BoBos(_)))
    })
}

/// Returns pairs of an arm and its control.
pub(super) fn pairs(arms: &[Arm]) -> Vec<(String, String)> {
    let names: Vec<&str> = arms.iter().map(|(name, _)| *name).collect();
    let mut pairs: Vec<(String, String)> = Vec::new();
    let bos = bo_bos(arms).map(|place| names[place]);
    for (name, method) in arms {
        if matches!(method, Method::BoBos(_)) && names.contains(&GP_UCB) {
            pairs.push(((*name).to_owned(), GP_UCB.to_owned()));
        }
    }
    let untold = Method::BoBosOfStudy(ToldEnd::Nothing);
    if let Some((untold, _)) = arms.iter().find(|(_, method)| *method == untold) {
        let others = names.iter().filter(|name| *name != untold);
        pairs.extend(others.map(|other| ((*untold).to_owned(), (*other).to_owned())));
    }
    if let Some(bos) = bos {
        for (name, method) in arms {
            if *name != GP_UCB && *name != bos && !matches!(method, Method::Random) {
                pairs.push((bos.to_owned(), (*name).to_owned()));
            }
        }
    }
    pairs
}

/// Settings shared by all arms of a run.
pub(super) struct Setup {
    pub(super) space: Space,
    pub(super) n_epochs: usize,
    /// Root seed of the arm, which is the same for all arms of a run.
    pub(super) seed: Seed,
    pub(super) modelling: Modelling,
    /// Settings of a trial's stopping problem, except for K_1, and bounds on the values.
    pub(super) bos: BosSettings,
}

/// The Gaussian process models of the arms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modelling {
    /// As in fedbo's studies, with β = 2.
    Ours,
    /// As in the thesis and its authors' code: one length scale for all coordinates including n/N,
    /// maximum-evidence hyperparameters every ten observations, and β_t = 0.2 d ln 2t. Outputs are
    /// standardized, whereas the authors use raw outputs.
    Paper,
}

impl Setup {
    fn domain(&self) -> Domain {
        Domain::Space(self.space.clone())
    }

    fn ucb(&self) -> UcbMultiplier {
        match self.modelling {
            Modelling::Ours => UcbMultiplier::Constant(2.0),
            Modelling::Paper => UcbMultiplier::LogarithmicSquare,
        }
    }

    /// Returns the model with `n_further` coordinates in addition to those of the space.
    fn surrogate(&self, n_further: usize) -> SurrogateSettings {
        match (self.modelling, n_further) {
            (Modelling::Ours, 0) => SurrogateSettings::for_space(&self.space, true),
            (Modelling::Ours, _) => SurrogateSettings::for_trainings(&self.space),
            (Modelling::Paper, _) => {
                let mut settings = SurrogateSettings::default_for(self.space.dim() + n_further);
                if let HyperparameterPolicy::Fitted { options, refit, .. } =
                    &mut settings.hyperparameters
                {
                    options.isotropic = true;
                    options.criterion = FitCriterion::MaximumLikelihood;
                    *refit = Refit::Every(10);
                }
                settings
            }
        }
    }

    fn gp_ucb(&self) -> anyhow::Result<GpUcb> {
        let dim = self.space.dim();
        let settings = GpUcbSettings {
            surrogate: self.surrogate(0),
            ucb_multiplier: self.ucb(),
            repeats: Repeats::Avoid,
            ..GpUcbSettings::for_study(dim, true)
        };
        Ok(GpUcb::new(self.domain(), settings, self.seed)?)
    }

    fn epoch_settings(&self) -> EpochGpUcbSettings {
        let settings = EpochGpUcbSettings::for_study(&self.space, false, self.n_epochs);
        EpochGpUcbSettings {
            surrogate: self.surrogate(1),
            ucb_multiplier: self.ucb(),
            epoch_scale: match self.modelling {
                Modelling::Ours => settings.epoch_scale,
                Modelling::Paper => EpochScale::Linear,
            },
            ..settings
        }
    }

    /// Returns the settings of BOCA, which uses the squared-exponential kernel (thesis A.4).
    fn boca_settings(&self) -> EpochGpUcbSettings {
        let settings = Boca::for_study(&self.space, false, self.n_epochs);
        let surrogate = match self.modelling {
            Modelling::Ours => settings.surrogate,
            Modelling::Paper => Boca::squared_exponential(self.surrogate(1)),
        };
        EpochGpUcbSettings { surrogate, ucb_multiplier: self.ucb(), ..settings }
    }

    /// Returns settings with the epoch's coordinate as in the thesis.
    fn linear_settings(&self) -> EpochGpUcbSettings {
        EpochGpUcbSettings { epoch_scale: EpochScale::Linear, ..self.epoch_settings() }
    }

    fn epoch_gp_ucb(&self) -> anyhow::Result<EpochGpUcb> {
        Ok(EpochGpUcb::new(self.domain(), self.epoch_settings(), self.seed)?)
    }

    fn bo_bos(
        &self,
        strategy: EpochGpUcbSettings,
        settings: BosSettings,
    ) -> anyhow::Result<Box<dyn Tuner>> {
        let told_end = match self.modelling {
            Modelling::Ours => ToldEnd::Expected,
            Modelling::Paper => ToldEnd::Nothing,
        };
        self.bo_bos_told(strategy, settings, told_end)
    }

    fn bo_bos_told(
        &self,
        strategy: EpochGpUcbSettings,
        settings: BosSettings,
        told_end: ToldEnd,
    ) -> anyhow::Result<Box<dyn Tuner>> {
        Ok(Box::new(Bos {
            bo_bos: BoBos::new(self.domain(), strategy, settings, self.seed)?,
            dim: self.space.dim(),
            seed: self.seed,
            told_end,
            rule: None,
        }))
    }

    /// Returns settings with K_{1,t} = K_{1,t−1}/`divisor`.
    fn scheduled(&self, divisor: f64) -> BosSettings {
        let settings = BosSettings {
            options: BoBosOptions { wrong_stop_growth: 1.0 / divisor, ..self.bos.options },
            ..self.bos
        };
        match self.modelling {
            Modelling::Ours => settings,
            Modelling::Paper => settings.with_one_process(),
        }
    }

    fn ruled(
        &self,
        proposals: Proposals,
        rule: Option<Box<dyn fedbo_strategies::early_stopping::StoppingRule>>,
    ) -> Box<dyn Tuner> {
        Box::new(CurveRuleTuner {
            proposals,
            rule,
            dim: self.space.dim(),
            n_epochs: self.n_epochs,
            seed: self.seed,
        })
    }

    pub(super) fn prediction_rule(&self) -> anyhow::Result<CurvePredictionRule> {
        let bounds = self.bos.bounds();
        let settings = CurvePredictionSettings {
            range: Some((bounds.low, bounds.high)),
            ..CurvePredictionSettings::for_epochs(self.n_epochs)
        };
        let seed = self.seed.child(fedbo_strategies::EARLY_STOPPING, 0);
        Ok(CurvePredictionRule::new(settings, seed)?)
    }

    /// Runs the arm.
    ///
    /// # Errors
    /// If it cannot continue.
    pub(super) fn run(
        &self,
        method: Method,
        run: &TrainingRun<'_>,
        stop: &AtomicBool,
    ) -> anyhow::Result<(RunTrace, Ended)> {
        let without_initial = TrainingRun { initial: &[], unit: run.unit, ..*run };
        let random = || RandomSearch::new(self.domain(), Repeats::Avoid);
        let asha = AshaOptions { reduction: 3, first_rung: 1 };
        let asha = || AshaRule::new(asha, self.n_epochs).map(Box::new);
        let mut tuner = match method {
            Method::GpUcb => self.ruled(Proposals::Final(self.gp_ucb()?), None),
            Method::EpochGpUcb => self.ruled(Proposals::Epochs(self.epoch_gp_ucb()?), None),
            Method::BoBos(divisor) => {
                self.bo_bos(self.epoch_settings(), self.scheduled(divisor))?
            }
            Method::BoBosLinear(divisor) => {
                self.bo_bos(self.linear_settings(), self.scheduled(divisor))?
            }
            Method::BoBosAuthors => {
                self.bo_bos(self.linear_settings(), self.bos.as_in_authors_code())?
            }
            Method::BoBosUpdate => self.bo_bos(
                self.epoch_settings(),
                BosSettings {
                    belief: CurveBelief::Certain {
                        fit: DecayFit::BayesianUpdate {
                            shape: 0.0,
                            rate: 0.0,
                            noise_variance: 1e-3,
                        },
                        level_variance: 0.0,
                    },
                    ..self.scheduled(SCHEDULE_B)
                },
            )?,
            Method::BoBosOneProcess(divisor) => {
                self.bo_bos(self.epoch_settings(), self.scheduled(divisor).with_one_process())?
            }
            Method::BoBosOfStudy(told_end) => {
                let settings = self.scheduled(SCHEDULE_B).with_one_process();
                self.bo_bos_told(self.epoch_settings(), settings, told_end)?
            }
            Method::DealtStops(divisor) => {
                let (course, ended) = self.run(Method::BoBos(divisor), run, stop)?;
                if ended == Ended::Interrupted {
                    return Ok((RunTrace::default(), ended));
                }
                let after_initial = course.trials.iter().filter(|trial| !trial.is_initial);
                let mut ends: Vec<usize> = after_initial.map(|trial| trial.n_trained).collect();
                let mut stream = self.seed.stream(fedbo_protocol::PLACEBO, 0, 0);
                stream.shuffle(&mut ends);
                Box::new(PlaceboRule {
                    strategy: self.epoch_gp_ucb()?,
                    ends,
                    dim: self.space.dim(),
                    seed: self.seed,
                })
            }
            Method::Random => {
                let mut tuner = self.ruled(Proposals::Random(random()?), None);
                return without_initial.trials(tuner.as_mut(), stop);
            }
            Method::Asha => {
                let mut tuner = self.ruled(Proposals::Random(random()?), Some(asha()?));
                return without_initial.trials(tuner.as_mut(), stop);
            }
            Method::AshaGp => self.ruled(Proposals::Epochs(self.epoch_gp_ucb()?), Some(asha()?)),
            Method::MedianGp => {
                let rule = MedianRule::new(MedianOptions::default());
                self.ruled(Proposals::Epochs(self.epoch_gp_ucb()?), Some(Box::new(rule)))
            }
            Method::Hyperband => return run.hyperband(3, self.seed, stop),
            Method::Boca => Box::new(MultiFidelity {
                boca: Boca::new(self.domain(), self.boca_settings(), self.seed)?,
                dim: self.space.dim(),
                seed: self.seed,
            }),
            Method::Prediction => Box::new(Predicted {
                strategy: self.gp_ucb()?,
                rule: self.prediction_rule()?,
                dim: self.space.dim(),
                n_epochs: self.n_epochs,
                seed: self.seed,
            }),
        };
        run.trials(tuner.as_mut(), stop)
    }
}
