//! The shared prior: information from other parties changes the model in every query and under any
//! acquisition function.

mod message;
mod mixture;
mod options;
mod party;
mod settings;
mod told;
mod units;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use fedbo_gp::{
    FeatureMap, FunctionBasis, Posterior, Prior, Remainder, SharedPosterior, Units, WeightPrior,
    WeightStatistics,
};
use fedbo_optim::{Function, Points};
use fedbo_streams::{Seed, Stream};

pub use message::{MessageTerms, SharedMessage};
pub use options::SharedPriorOptions;
pub use party::MessageParty;
pub use settings::{OthersUse, SharedAcquisition, SharedPriorSettings};

use self::mixture::{Component, Mixture, Part, UpperBound};
use self::told::Told;
use self::units::UnitsPrior;
use crate::meta::{MetaTask, Transfer, check_dims};
use crate::proposer::Proposer;
use crate::{
    Domain, Incumbent, Observation, Proposal, Source, Strategy, StrategyError, Surrogate,
    SurrogateSettings,
};

/// A party that learns from others through a prior of functions.
///
/// # Model
///
/// A party's function is f = s (ψ(x)·w + r(x) + level) with w ~ N(m, Λ) and r ~ GP(0, ρ k). The
/// shared functions ψ are given by a [`FunctionBasis`], and k is the party's own kernel. (m, Λ) and
/// the distributions of the level and the scale s are fitted to the messages of the other parties
/// ([`WeightPrior::fit`]).
///
/// There are two more models. One uses the negated functions of the other parties, with negative
/// scales. The other is the party's own Gaussian process without shared functions. Predictions come
/// from a mixture of the three models, each weighted by its evidence for the party's own outputs y:
///
/// π_k ∝ π_k⁰ p(y | model k)
///
/// A party with a function similar to the negated functions of the others learns from the second
/// model as other parties learn from the first. Each model is itself a mixture over scales s and
/// has its own level. Half of the party's own model uses the level and scale of the other parties,
/// and the other half allows any level and scale. The total weight of the shared model, the
/// *trust*, therefore depends only on the shape of the function. The trust falls as the party's own
/// outputs contradict the other parties.
///
/// # Queries
///
/// The next query maximizes the logarithm of the mixture's expected improvement Σ π_k EI_k(x), or
/// the function that [`SharedAcquisition`] selects. The first queries are restricted to the best
/// points of the other parties, as long as these parties are trusted. A random query follows the
/// first of these queries, to show whether the best points are better than other points.
///
/// A misled party then tries one best point elsewhere, if there is one, because the first could
/// have come from a different group of parties. After that, it restarts with random points far from
/// all known ones. A party with only outputs below the level of the other parties occasionally
/// tries one of their best points.
#[derive(Clone)]
pub struct SharedPrior {
    proposer: Proposer,
    settings: SharedPriorSettings,
    basis: Arc<FunctionBasis>,
    parties: BTreeMap<u32, SharedMessage>,
    /// (m, Λ), if it comes from a source other than messages.
    given: Option<WeightPrior>,
    /// (m, Λ) fitted to the messages, computed on first use.
    prior: OnceLock<Option<WeightPrior>>,
    /// Number of finished queries, excluding initial points.
    n_queries: usize,
    /// True once a random query has finished.
    has_random: bool,
}

impl fmt::Debug for SharedPrior {
    /// Prints only counts, so that neither observations nor messages reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedPrior {{ queries: {}, parties: {} }}", self.n_queries, self.parties.len())
    }
}

impl SharedPrior {
    /// Trust, or the initial weight if that is smaller, below which the other parties do not
    /// contribute to a query. The threshold is needed because a model that is probably wrong can
    /// still promise the largest improvement.
    const LEAST_TRUST: f64 = 0.1;
    /// Numbers of queries, including running ones, at which a party tries one of the other parties'
    /// best points if its own best output is below their level. Does not apply if the party
    /// restarts at that number.
    const BEHIND_AFTER: [usize; 4] = [3, 6, 12, 24];
    /// Number of random points that a misled party draws, of which it takes the one farthest from
    /// all known points.
    const N_SPREAD: usize = 8;
    /// A point counts as little known if its variance exceeds this fraction of the prior variance
    /// in the party's own model.
    const LITTLE_KNOWN: f64 = 0.5;
    /// Initial weight of the model with negated functions, as a fraction of the weight of the
    /// shared model or of the remainder, whichever is less.
    const NEGATED_SHARE: f64 = 0.5;
    /// κ in the upper bound, mean + κ · standard deviation, as in [`crate::GpUcbOptions::default`].
    const UCB_MULTIPLIER: f64 = 2.0;

    /// Creates a party without observations or messages. All parties must use the same `map`.
    /// `seed` is used for hyperparameter fits.
    ///
    /// # Errors
    /// If a setting is out of range, or the dimensions of the map and the domain differ.
    pub fn new(
        domain: Domain,
        settings: SharedPriorSettings,
        map: Arc<FeatureMap>,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let settings = settings.validate()?;
        domain.check_features(&map)?;
        let own = settings.own.clone();
        Ok(Self {
            proposer: Proposer::new(
                domain,
                own.surrogate,
                own.maximizer,
                own.repeats,
                false,
                seed,
            )?,
            basis: Arc::new(FunctionBasis::new(map, settings.rank)?),
            settings,
            parties: BTreeMap::new(),
            given: None,
            prior: OnceLock::new(),
            n_queries: 0,
            has_random: false,
        })
    }

    /// Returns the model of the party's own objective.
    pub fn surrogate(&self) -> &Surrogate {
        self.proposer.surrogate()
    }

    /// Returns the domain of the queries.
    pub fn domain(&self) -> &Domain {
        self.proposer.domain()
    }

    /// Returns the shared functions.
    pub fn basis(&self) -> &FunctionBasis {
        &self.basis
    }

    /// Stores another party's message, replacing an older one.
    ///
    /// # Errors
    /// If no observations could have produced the message. The older message is then kept.
    pub fn receive(&mut self, sender: u32, message: SharedMessage) -> Result<(), StrategyError> {
        message.check(&self.basis, self.settings.least_noise)?;
        self.parties.insert(sender, message);
        self.prior = OnceLock::new();
        Ok(())
    }

    /// Removes a party's message.
    pub fn forget(&mut self, sender: u32) {
        if self.parties.remove(&sender).is_some() {
            self.prior = OnceLock::new();
        }
    }

    /// Sets a prior to use instead of the one fitted to messages. `None` removes it again.
    ///
    /// # Errors
    /// If the prior and the basis differ in the number of functions.
    pub fn set_prior(&mut self, prior: Option<WeightPrior>) -> Result<(), StrategyError> {
        if let Some(found) = prior.as_ref().map(|prior| prior.mean().len())
            && found != self.basis.rank()
        {
            return Err(StrategyError::setting(
                "number of coefficients of a prior",
                found,
                "the number of shared functions",
            ));
        }
        self.given = prior;
        Ok(())
    }

    /// Returns the shape of this party's function without its scale: R w̄/‖w̄‖, the M feature
    /// weights normalized to length 1, where w̄ is the mean of the party's coefficients under w ~
    /// N(0, I). Zero before any output, and if all outputs are equal.
    ///
    /// # Errors
    /// Same as [`SharedPrior::message`].
    pub fn direction(&self) -> Result<Vec<f64>, StrategyError> {
        let outputs = self.proposer.surrogate().posterior().outputs();
        if is_flat(outputs) {
            return Ok(vec![0.0; self.basis.map().n_features()]);
        }
        let mut mean = self.message()?.statistics.mean()?;
        let length = mean.iter().map(|w| w * w).sum::<f64>().sqrt();
        if length > 0.0 {
            mean.iter_mut().for_each(|w| *w /= length);
        }
        Ok(self.basis.weights(&mean))
    }

    /// Returns the number of parties with a stored message.
    pub fn n_parties(&self) -> usize {
        self.parties.len()
    }

    /// Creates this party's message: the statistics of its outputs, their level and scale, and the
    /// point of the best output.
    ///
    /// # Errors
    /// If the covariance has no Cholesky factor.
    pub fn message(&self) -> Result<SharedMessage, StrategyError> {
        self.message_of(self.proposer.surrogate())
    }

    /// Creates the message that a party with the observations of a finished task would send.
    /// `surrogate` contains the settings of the party's model, and `seed` is used for the
    /// hyperparameter fit. Cost: O(n³).
    ///
    /// # Errors
    /// If the dimension of the task differs from the dimension of the domain, or the task has no
    /// finite output or no posterior.
    pub fn message_of_task(
        &self,
        task: &MetaTask,
        surrogate: &SurrogateSettings,
        seed: Seed,
    ) -> Result<SharedMessage, StrategyError> {
        check_dims(self.domain(), [(task.inputs.dim(), &task.name[..])].into_iter())?;
        self.message_of(&task.surrogate(surrogate, seed)?)
    }

    /// Creates a message of the same length that contains no information about the objective: a
    /// draw from the prior at random inputs, with as many outputs as the party has.
    ///
    /// # Errors
    /// Same as [`SharedPrior::message`].
    pub fn placebo(&self, stream: &mut Stream) -> Result<SharedMessage, StrategyError> {
        let own = self.proposer.surrogate().posterior();
        self.settings.terms().placebo(&self.basis, own, self.domain(), stream)
    }

    /// Creates the message for a surrogate's observations, with the surrogate's hyperparameters.
    fn message_of(&self, surrogate: &Surrogate) -> Result<SharedMessage, StrategyError> {
        let (terms, posterior) = (self.settings.terms(), surrogate.posterior());
        let inputs = posterior.inputs();
        if !self.settings.compares_units {
            return terms.message(&self.basis, posterior, inputs, posterior.outputs(), None);
        }
        let (outputs, standardizer) = surrogate.standardized();
        let level_and_size = (standardizer.restore(0.0), standardizer.restore_std(1.0));
        terms.message(&self.basis, posterior, inputs, &outputs, Some(level_and_size))
    }

    /// Returns the weight of the shared model in the next query, in `[0, 1]`, or 0 if there are no
    /// messages.
    ///
    /// # Errors
    /// If a model cannot be conditioned.
    pub fn trust(&self) -> Result<f64, StrategyError> {
        Ok(self.finished_mixture()?.trust())
    }

    /// Returns the mixture of all models, without running trials.
    fn finished_mixture(&self) -> Result<Mixture, StrategyError> {
        self.mixture(&Points::new(self.domain().dim()), [0.0; 2])
    }

    /// Iterates over the messages that contain information. A party without outputs sends a message
    /// without information.
    fn informative(&self) -> impl Iterator<Item = &SharedMessage> {
        self.parties.values().filter(|message| message.is_informative())
    }

    /// Returns the given (m, Λ), or the one fitted to the stored messages. Returns `None` if there
    /// are no messages, or if they yield no prior.
    fn prior(&self) -> Option<&WeightPrior> {
        if let Some(given) = &self.given {
            return Some(given).filter(|_| self.settings.others == OthersUse::Prior);
        }
        if let Some(prior) = self.prior.get() {
            return prior.as_ref();
        }
        let statistics: Vec<&WeightStatistics> =
            self.informative().map(|message| &message.statistics).collect();
        let used = self.settings.others == OthersUse::Prior && !statistics.is_empty();
        // If the messages yield no prior although each of them is plausible, the party ignores them
        // and continues on its own.
        let fitted = if used {
            WeightPrior::fit(&statistics, self.basis.rank(), &self.settings.prior).ok()
        } else {
            None
        };
        self.prior.get_or_init(|| fitted).as_ref()
    }

    /// Returns the initial weights of the models with the other parties' functions, first
    /// unchanged, then negated.
    fn weights_before(&self) -> [f64; 2] {
        let trust = self.settings.trust_before;
        [trust, Self::NEGATED_SHARE * trust.min(1.0 - trust)]
    }

    /// Returns the weights below which these models do not contribute to a query.
    fn least_weights(&self) -> [f64; 2] {
        self.weights_before().map(|before| Self::LEAST_TRUST.min(before))
    }

    /// Returns the distribution of the outputs' level and scale that the other parties' messages
    /// predict, in units of this party's standardized outputs, followed by the same for the negated
    /// outputs. Returns `None` before any output, or if the other parties' units have nothing in
    /// common.
    fn units(&self) -> Option<[UnitsPrior; 2]> {
        if !self.settings.compares_units || self.proposer.surrogate().is_empty() {
            return None;
        }
        let found: Vec<Units> = self.informative().filter_map(|message| message.units).collect();
        let (_, standardizer) = self.proposer.surrogate().standardized();
        let here = |units: UnitsPrior| {
            units.in_units(standardizer.restore(0.0), standardizer.restore_std(1.0))
        };
        let found = UnitsPrior::fit(&found)?;
        Some([here(found)?, here(found.negated())?])
    }

    /// Returns true if the party's best output is below the level of the other parties, but within
    /// the spread of their levels. The party then has no good point, and its outputs, which are all
    /// bad, reveal nothing about the other parties.
    fn is_behind(&self) -> bool {
        let (outputs, _) = self.proposer.surrogate().standardized();
        let best = outputs.iter().copied().fold(f64::MIN, f64::max);
        self.units().is_some_and(|[units, _]| units.is_above(best))
    }

    /// Returns the mixture of models, in which running trials count as observations at their
    /// posterior means. The models with the other parties' functions, unchanged and negated, are
    /// omitted if their weight is below `least_weights`.
    fn mixture(&self, pending: &Points, least_weights: [f64; 2]) -> Result<Mixture, StrategyError> {
        let surrogate = self.proposer.surrogate();
        let mut own = surrogate.posterior().clone();
        if !pending.is_empty() {
            let modelled = Proposer::modelled(pending);
            let means = own.mean_variances(&modelled).0;
            own = own.extended(&modelled, &means)?;
        }
        let incumbent = match self.settings.own.incumbent {
            _ if own.is_empty() => 0.0,
            Incumbent::BestObservation => own.outputs().iter().copied().fold(f64::MIN, f64::max),
            Incumbent::BestMean => own.largest_mean(),
        };
        let told = match self.settings.compares_units && !own.is_empty() {
            true => Told::standardized(surrogate, own.outputs(), incumbent),
            false => Told::as_modelled(own.outputs(), incumbent),
        };
        let (inputs, y) = (own.inputs(), &told.outputs[..]);
        let alone = |remainder: Remainder, y: &[f64]| {
            SharedPosterior::alone(own.kernel().clone(), remainder, inputs, y)
        };
        let shared = |prior: &WeightPrior, remainder: Remainder, y: &[f64]| {
            let basis = Arc::clone(&self.basis);
            SharedPosterior::new(basis, prior, own.kernel().clone(), remainder, inputs, y)
        };
        let (of_shared, of_own) =
            (self.settings.remainder(true, &own), self.settings.remainder(false, &own));
        let [trust, negated] = self.weights_before();
        let any_size = self.settings.any_size();
        // The model that the party would use on its own, with transformed outputs.
        let by_itself = |weight: f64, unit: f64| -> Result<Component, StrategyError> {
            let found = alone(of_own, &told.modelled)?;
            let sizes: Vec<(f64, f64)> = any_size
                .iter()
                .map(|(size, share)| (unit * told.unit * size, share + told.log_slopes))
                .collect();
            Ok(Component::new(found, weight, &sizes).at_level(told.level))
        };
        let components = match (self.prior(), self.units()) {
            (None, _) => vec![by_itself(1.0, 1.0)?],
            (Some(prior), None) => vec![
                Component::new(shared(prior, of_shared, y)?, trust, &any_size)
                    .with(Part::Same)
                    .at_level(-told.incumbent),
                by_itself(1.0 - trust, 1.0)?,
            ],
            (Some(prior), Some([units, negated_units])) => {
                let (level, sizes) = (units.level, units.sizes());
                // Equal outputs have no scale, so their unit is arbitrary.
                let own_unit = if is_flat(y) { units.log_size.exp() } else { 1.0 };
                let level_variance = units.level_variance;
                let less = |level: f64| -> Vec<f64> { y.iter().map(|y| y - level).collect() };
                let of_shared = Remainder { level_variance, ..of_shared };
                let of_own_there = Remainder { level_variance, ..of_own };
                let there = shared(prior, of_shared, &less(level))?;
                let there_negated = shared(prior, of_shared, &less(negated_units.level))?;
                let alone_there = alone(of_own_there, &less(level))?;
                let at = |level: f64| level - told.incumbent;
                let half = 0.5 * (1.0 - trust - negated);
                let below: Vec<(f64, f64)> =
                    sizes.iter().map(|(s, weight)| (-s, *weight)).collect();
                vec![
                    Component::new(there, trust, &sizes).with(Part::Same).at_level(at(level)),
                    Component::new(there_negated, negated, &below)
                        .with(Part::Negated)
                        .at_level(at(negated_units.level)),
                    Component::new(alone_there, half, &sizes).at_level(at(level)),
                    by_itself(half, own_unit)?,
                ]
            }
        };
        Mixture::new(Arc::clone(&self.basis), components, least_weights)
    }

    /// Among the other parties' best points about which the party's outputs reveal little, returns
    /// the one with the largest mean in the shared model. Returns `None` if there is no such point,
    /// or if the weight of the shared model is too small for computations.
    ///
    /// If the other parties fall into groups, they have best points in several places. The first
    /// point could have come from a different group than the party's; this point shows whether the
    /// party belongs to one of the groups at all.
    fn best_elsewhere(
        &self,
        best: &Points,
        pending: &Points,
    ) -> Result<Option<Vec<f64>>, StrategyError> {
        let own = self.proposer.surrogate().posterior();
        let little_known = Self::LITTLE_KNOWN * own.kernel().outputscale();
        let mut elsewhere = Points::new(best.dim());
        for (unit, variance) in best.rows().zip(own.mean_variances(best).1) {
            if variance > little_known {
                elsewhere.push(unit);
            }
        }
        if elsewhere.is_empty() {
            return Ok(None);
        }
        let mixture = self.mixture(pending, [0.0; 2])?;
        if !mixture.has_shared() {
            return Ok(None);
        }
        let means = mixture.shared_means(&elsewhere);
        let largest = (0..elsewhere.len()).max_by(|a, b| means[*a].total_cmp(&means[*b]));
        Ok(largest.map(|index| elsewhere.row(index).to_vec()))
    }

    /// Returns the other parties' best points that can still be queried.
    fn best_points(&self, pending: &Points) -> Result<Points, StrategyError> {
        let open = self.proposer.open(pending)?;
        let mut points = Points::new(self.domain().dim());
        if self.settings.others == OthersUse::Nothing {
            return Ok(points);
        }
        for best in self.parties.values().filter_map(|message| message.best.as_ref()) {
            let unit = self.domain().snapped(best);
            let is_in = self.domain().points().is_none_or(|all| all.rows().any(|x| x == unit));
            if is_in && open.is_untried(&unit) && points.rows().all(|known| known != unit) {
                points.push(&unit);
            }
        }
        Ok(points)
    }
}

/// Returns true if standardized outputs are all equal up to rounding. They then have neither shape
/// nor scale.
fn is_flat(outputs: &[f64]) -> bool {
    outputs.iter().all(|y| y.abs() < 1e-12)
}

impl Strategy for SharedPrior {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        let best = self.best_points(pending)?;
        let n_queries = self.n_queries + pending.len();
        let n_told = self.proposer.n_told() + pending.len();
        let uses_others = self.prior().is_some();
        // Like a random query, initial points show whether the other parties' best points are
        // better than other points.
        let has_initial = n_told > n_queries;
        let probes = self.settings.probes && uses_others && !has_initial;
        let is_early = n_queries < self.settings.n_best_first + usize::from(probes);
        if is_early && !best.is_empty() && self.settings.others == OthersUse::BestPoints {
            let unit = best.row(stream.below(best.len())).to_vec();
            return Ok(Proposal { unit, source: Source::MetaTasks });
        }
        if !uses_others && n_told < self.settings.n_random_first {
            let unit = self.proposer.open(pending)?.random(stream)?;
            return Ok(Proposal { unit, source: Source::Random });
        }
        let n_led = self.settings.n_best_first.min(1);
        let is_probe = probes && n_led > 0 && n_queries == n_led && !self.has_random;
        let least_weights = self.least_weights();
        let mixture = self.mixture(pending, least_weights)?;
        // A misled party knows only bad points. It restarts with more random queries than it would
        // make on its own, but with at most one more than a linear function has coefficients.
        let n_random = n_led + (2 * self.settings.n_random_first).min(self.domain().dim() + 2);
        // Running trials do not count as evidence against the other parties.
        let finished_mixture =
            if pending.is_empty() { None } else { Some(self.finished_mixture()?) };
        let told = finished_mixture.as_ref().unwrap_or(&mixture);
        let (trust, negated) = (told.trust(), told.negated());
        let is_misled = uses_others
            && self.proposer.n_told() > 0
            && trust < least_weights[0]
            && negated < least_weights[1];
        let is_second = self.settings.n_best_first > 1 && n_queries == n_led + usize::from(probes);
        if is_misled
            && is_second
            && let Some(unit) = self.best_elsewhere(&best, pending)?
        {
            return Ok(Proposal { unit, source: Source::MetaTasks });
        }
        if is_probe {
            let unit = self.proposer.open(pending)?.random(stream)?;
            return Ok(Proposal { unit, source: Source::Random });
        }
        if is_misled && !has_initial && n_queries < n_random {
            let mut known = self.proposer.surrogate().posterior().inputs().clone();
            pending.rows().for_each(|unit| known.push(unit));
            let unit = self.proposer.open(pending)?.random_away(&known, Self::N_SPREAD, stream)?;
            return Ok(Proposal { unit, source: Source::Random });
        }
        if uses_others
            && Self::BEHIND_AFTER.contains(&n_queries)
            && !best.is_empty()
            && !told.is_opposed(least_weights[1])
            && self.is_behind()
        {
            let unit = best.row(stream.below(best.len())).to_vec();
            return Ok(Proposal { unit, source: Source::MetaTasks });
        }
        let (draw, bound);
        let acquisition: &dyn Function = match self.settings.acquisition {
            SharedAcquisition::LogEi => &mixture,
            SharedAcquisition::Ts => {
                draw = mixture.draw(Prior::default(), stream)?;
                &draw
            }
            SharedAcquisition::GpUcb => {
                bound = UpperBound { mixture: &mixture, multiplier: Self::UCB_MULTIPLIER };
                &bound
            }
        };
        let is_trusted = trust >= 0.999 * self.settings.trust_before;
        if is_early && is_trusted && !best.is_empty() {
            // Before any output, there is nothing to improve on.
            let values = if n_told == 0 { mixture.means(&best) } else { acquisition.values(&best) };
            let proposal = self.proposer.propose_ranked(&values, &best, pending, stream)?;
            return Ok(mixture.named(proposal, least_weights[1]));
        }
        let n = self.proposer.surrogate().len() * mixture.n_components();
        let proposal =
            self.proposer.propose_acquisition_from(acquisition, n, &best, pending, stream)?;
        Ok(mixture.named(proposal, least_weights[1]))
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.proposer.tell(observed)?;
        self.n_queries += observed.iter().filter(|o| o.source != Source::Initial).count();
        self.has_random |= observed.iter().any(|o| o.source == Source::Random);
        Ok(())
    }

    fn surrogate(&self) -> Option<&Surrogate> {
        Some(self.proposer.surrogate())
    }

    fn transfer(&self) -> Option<Transfer> {
        let meta_share = self.finished_mixture().ok()?.signed_trust(self.least_weights()[1]);
        Some(Transfer { meta_share, tasks: Vec::new(), gap_unit: 1.0 })
    }
}

impl SharedPriorSettings {
    /// Returns the remainder of the shared model, or of a party's own model. In the latter, the
    /// remainder contains the whole function and the fitted noise.
    fn remainder(&self, is_shared: bool, own: &Posterior) -> Remainder {
        let terms = self.terms();
        match is_shared {
            true => terms.remainder(own),
            false => MessageTerms { own_variance: 1.0, least_noise: 0.0, ..terms }.remainder(own),
        }
    }

    /// Returns the scales with the logarithms of their weights, which are all equal.
    fn any_size(&self) -> Vec<(f64, f64)> {
        #[expect(clippy::cast_precision_loss, reason = "a handful")]
        let weight = -(self.sizes.len() as f64).ln();
        self.sizes.iter().map(|size| (*size, weight)).collect()
    }
}

#[cfg(test)]
mod tests;
