//! The shared part of all strategies with a Gaussian process: the model, the search for a maximum,
//! and the choice among candidates.

use std::sync::Arc;

use fedbo_gp::JointSampler;
use fedbo_optim::{Function, MultiStart, Points};
use fedbo_space::Space;
use fedbo_streams::{Seed, Stream};

use crate::domain::Candidates;
use crate::feasibility::{Feasibility, FeasibilityWeighted};
use crate::snapped_search::SnappedSearch;
use crate::trials::{Open, Trials};
use crate::{
    Domain, Maximizer, Observation, OutputOption, OwnSampler, Proposal, Repeats, Source,
    StrategyError, Surrogate, SurrogateSettings,
};

/// A surrogate with a domain, and the steps that turn a function of the surrogate into a query.
/// Shared by all strategies with a Gaussian process.
///
/// A custom strategy passes all observations to [`Proposer::tell`] and lets the proposer maximize
/// an acquisition function.
///
/// ```
/// use fedbo_strategies::{
///     Acquisition, Observation, Points, Proposal, Proposer, Score, Strategy, StrategyError,
/// };
/// use fedbo_streams::Stream;
///
/// /// Queries where the model is least certain.
/// #[derive(Clone)]
/// struct Explorer(Proposer);
///
/// impl Strategy for Explorer {
///     fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
///         let predictor = self.0.surrogate().posterior().predictor();
///         let uncertainty = Acquisition::new(&predictor, |_mean, std| Score {
///             value: std,
///             d_mean: 0.0,
///             d_std: 1.0,
///         });
///         self.0.propose_acquisition(&uncertainty, pending, stream)
///     }
///
///     fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
///         self.0.tell(observed)
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Proposer {
    trials: Trials,
    surrogate: Surrogate,
    maximizer: Maximizer,
    /// The probability that a trial succeeds, estimated once a trial has failed. Used only in a
    /// single-party study, because the papers' algorithms do not consider failures.
    feasibility: Option<Feasibility>,
}

impl Proposer {
    /// Creates a proposer without observations. `seed` is used for hyperparameter fits. `samples`
    /// must be true if functions are drawn from the posterior; on a finite domain, the proposer
    /// then keeps a Cholesky factor for these draws.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(
        domain: Domain,
        surrogate: SurrogateSettings,
        maximizer: Maximizer,
        repeats: Repeats,
        samples: bool,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let trials = Trials::new(domain, repeats)?;
        let domain = trials.domain();
        let joint = match (domain, surrogate.sampler) {
            (Domain::Factored(sampler), _) => Some(Arc::clone(sampler)),
            (Domain::Finite(points), OwnSampler::Exact(_)) if samples => {
                let kernel = surrogate.initial().kernel.clone();
                Some(Arc::new(JointSampler::new(kernel, points.as_ref().clone())?))
            }
            _ => None,
        };
        Ok(Self {
            surrogate: Surrogate::new(domain.dim(), surrogate, joint, seed)?,
            trials,
            maximizer,
            feasibility: None,
        })
    }

    /// Creates a proposer for a surrogate with `n_context` additional coordinates after the query's
    /// coordinates, such as the training epoch.
    ///
    /// `surrogate` covers all coordinates, but the function to maximize depends only on the query.
    /// See [`Proposer::tell_in_context`].
    ///
    /// # Errors
    /// If a setting is out of range.
    pub(crate) fn with_context(
        domain: Domain,
        n_context: usize,
        surrogate: SurrogateSettings,
        maximizer: Maximizer,
        repeats: Repeats,
        seed: Seed,
    ) -> Result<Self, StrategyError> {
        let trials = Trials::new(domain, repeats)?;
        let dim = trials.domain().dim() + n_context;
        Ok(Self {
            surrogate: Surrogate::new(dim, surrogate, None, seed)?,
            trials,
            maximizer,
            feasibility: None,
        })
    }

    /// Creates a proposer for a single-party study.
    ///
    /// Proposals are points that the space can represent, and failures make nearby points less
    /// attractive. No point is proposed again unless the objective is noisy. `seed` is used for
    /// hyperparameter fits.
    ///
    /// # Errors
    /// If the surrogate does not support the space.
    pub fn for_study(space: &Space, noisy: bool, seed: Seed) -> Result<Self, StrategyError> {
        Self::new(
            Domain::Space(space.clone()),
            SurrogateSettings::for_space(space, noisy).with_outputs(OutputOption::default()),
            Maximizer::of_acquisition(space.dim()),
            Repeats::for_study(noisy),
            false,
            seed,
        )
    }

    /// Returns the model of the objective.
    pub fn surrogate(&self) -> &Surrogate {
        &self.surrogate
    }

    /// Returns the number of finished trials, including failed ones.
    pub(crate) fn n_told(&self) -> usize {
        self.trials.n_told()
    }

    /// Returns the free coordinates of the neglected branch that the next query is in, if any.
    pub(crate) fn neglected(&self, pending: &Points) -> Option<Vec<bool>> {
        match self.maximizer {
            Maximizer::Snapped(_) => self.trials.neglected(pending),
            _ => None,
        }
    }

    /// Restricts the next queries to a part of the space, as [`crate::Strategy::restrict`] does.
    ///
    /// # Errors
    /// If the domain is not a space, or the proposer is not for a single-party study.
    pub fn restrict(&mut self, part: Option<&Space>) -> Result<(), StrategyError> {
        match part.is_none() || self.is_for_study() {
            true => self.trials.restrict(part),
            false => Err(StrategyError::NoGivenValues),
        }
    }

    /// Returns the part of the space that the next queries are restricted to, if any.
    pub(crate) fn restriction(&self) -> Option<&Space> {
        self.trials.restriction()
    }

    /// Returns the domain of queries.
    pub fn domain(&self) -> &Domain {
        self.trials.domain()
    }

    /// Adds finished observations, as [`crate::Strategy::tell`] does.
    ///
    /// # Errors
    /// If the surrogate cannot be conditioned; in that case nothing is added.
    pub fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.tell_in_context(observed, observed)
    }

    /// Adds finished trials, and separate observations for the surrogate. The observations include
    /// the context coordinates. A trial can have several observations.
    ///
    /// # Errors
    /// If the surrogate cannot be conditioned; in that case nothing is added.
    pub(crate) fn tell_in_context(
        &mut self,
        trials: &[Observation],
        modelled: &[Observation],
    ) -> Result<(), StrategyError> {
        self.surrogate.tell(modelled)?;
        self.trials.tell(trials);
        if self.is_for_study() {
            let dim = self.domain().dim();
            let failed = first_coordinates(self.surrogate.failed(), dim);
            self.feasibility = match failed.is_empty() {
                true => None,
                false => {
                    let inputs = first_coordinates(self.surrogate.inputs(), dim);
                    Feasibility::of(&inputs, &failed)
                }
            };
        }
        Ok(())
    }

    /// Returns the points that can be queried while the trials at `pending` are running.
    ///
    /// # Errors
    /// If no point of a study's discrete space is left.
    pub(crate) fn open(&self, pending: &Points) -> Result<Open<'_>, StrategyError> {
        let open = self.trials.with_pending(pending);
        if self.is_for_study() {
            open.check_exhausted()?;
        }
        Ok(open)
    }

    /// Returns the running trials on which a model is conditioned. Only the newest ones are used,
    /// because the cost of a query grows with the square of their number. In a study,
    /// [`Open::pick`] skips points that are crowded by the other running trials.
    pub(crate) fn modelled(pending: &Points) -> Points {
        const N_MODELLED: usize = 64;
        let rows = pending.rows().skip(pending.len().saturating_sub(N_MODELLED));
        Points::from_rows(pending.dim(), rows)
    }

    /// Returns true for a single-party study, which learns from failures and ends when a discrete
    /// space is exhausted. An agent of a federation must make a query in each round, so it repeats
    /// a point instead.
    fn is_for_study(&self) -> bool {
        matches!(self.maximizer, Maximizer::Snapped(_))
    }

    /// Proposes the maximum of a function on the domain.
    ///
    /// # Errors
    /// If no finite query exists.
    pub(crate) fn propose_maximum(
        &self,
        function: &dyn Function,
        source: Source,
        pending: &Points,
        stream: &mut Stream,
    ) -> Result<Proposal, StrategyError> {
        let open = self.open(pending)?;
        let extra = self.extra_starts(stream);
        let candidates = self.search(&self.maximizer, function, &extra, pending, stream)?;
        open.pick(candidates, source, stream)
    }

    /// Proposes the largest local maximum found by ascents from the best trials, from points near
    /// the best trial, and from one point elsewhere.
    ///
    /// Before the first value, and in a discrete space that is small enough to enumerate, behaves
    /// like [`Proposer::propose_maximum`].
    ///
    /// # Errors
    /// If no finite query exists.
    pub(crate) fn propose_local_maximum(
        &self,
        function: &dyn Function,
        pending: &Points,
        stream: &mut Stream,
    ) -> Result<Proposal, StrategyError> {
        let open = self.open(pending)?;
        let extra = self.extra_starts(stream);
        let maximizer = match &self.maximizer {
            Maximizer::Snapped(search) if !extra.is_empty() && !self.is_enumerable(search) => {
                Maximizer::Snapped(MultiStart { n_starts: 1, ..*search })
            }
            other => other.clone(),
        };
        let candidates = self.search(&maximizer, function, &extra, pending, stream)?;
        open.pick(candidates, Source::Own, stream)
    }

    /// Returns true if the search evaluates every point of the space.
    fn is_enumerable(&self, search: &MultiStart) -> bool {
        match self.trials.part() {
            Domain::Space(space) => space.n_points().is_some_and(|n| n <= search.n_starts as u64),
            _ => true,
        }
    }

    /// Proposes the maximum of an acquisition function that costs O(n²) per evaluation, where n is
    /// the posterior's number of observations.
    ///
    /// Running trials, given in `pending`, are not proposed again unless repeats are allowed.
    ///
    /// # Errors
    /// If no finite query exists, or a discrete space is exhausted.
    pub fn propose_acquisition(
        &self,
        function: &dyn Function,
        pending: &Points,
        stream: &mut Stream,
    ) -> Result<Proposal, StrategyError> {
        let n = self.surrogate.posterior().len();
        let no_more = Points::new(self.domain().dim());
        self.propose_acquisition_from(function, n, &no_more, pending, stream)
    }

    /// Like [`Proposer::propose_acquisition`], but with additional starts for the search, and with
    /// the cost of an evaluation given as the number of observations n of a GP that costs as much.
    ///
    /// # Errors
    /// If no finite query exists.
    pub fn propose_acquisition_from(
        &self,
        function: &dyn Function,
        n: usize,
        starts: &Points,
        pending: &Points,
        stream: &mut Stream,
    ) -> Result<Proposal, StrategyError> {
        let open = self.open(pending)?;
        let mut extra = self.extra_starts(stream);
        for start in starts.rows() {
            extra.push(start);
        }
        let maximizer = self.maximizer.within(n);
        let candidates = self.search(&maximizer, function, &extra, pending, stream)?;
        open.pick(candidates, Source::Own, stream)
    }

    /// Returns candidates for the maximum of the function: in the neglected branches of a space with
    /// conditions, or else in the domain or the part that the query is restricted to. If a trial has
    /// failed, values are weighted by the probability of success.
    fn search(
        &self,
        maximizer: &Maximizer,
        function: &dyn Function,
        extra: &Points,
        pending: &Points,
        stream: &mut Stream,
    ) -> Result<Candidates, StrategyError> {
        let weighted = self
            .feasibility
            .as_ref()
            .map(|feasibility| FeasibilityWeighted { function, feasibility });
        let function = weighted.as_ref().map_or(function, |weighted| weighted as &dyn Function);
        let domain = self.trials.part();
        match (domain, maximizer, self.neglected(pending)) {
            (Domain::Space(space), Maximizer::Snapped(search), Some(only)) => {
                SnappedSearch { function, space, search, only: Some(&only) }
                    .candidates(extra, stream)
            }
            _ => maximizer.candidates(function, domain, extra, stream),
        }
    }

    /// Proposes the point of a finite domain with the largest value.
    ///
    /// # Errors
    /// If no value is finite.
    pub(crate) fn propose_ranked(
        &self,
        values: &[f64],
        points: &Points,
        pending: &Points,
        stream: &mut Stream,
    ) -> Result<Proposal, StrategyError> {
        let open = self.open(pending)?;
        open.pick(Candidates::ranked(values, points)?, Source::Own, stream)
    }

    /// Returns the best observed inputs and points near the best one, where a sample often peaks.
    /// The points near the best input all lie at the same distance, or at several distances in a
    /// study, so that the search can end as close to the best input as the model allows.
    fn extra_starts(&self, stream: &mut Stream) -> Points {
        const N_BEST: usize = 4;
        let outputs = self.surrogate.outputs();
        let mut order: Vec<usize> = (0..outputs.len()).collect();
        order.sort_by(|a, b| outputs[*b].total_cmp(&outputs[*a]));
        let mut starts = Points::new(self.trials.domain().dim());
        for &index in order.iter().take(N_BEST) {
            starts.push(&self.surrogate.inputs().row(index)[..starts.dim()]);
        }
        let best: Vec<usize> = order.into_iter().take(1).collect();
        for near in self.near(&best, stream).rows() {
            starts.push(near);
        }
        starts
    }

    /// Returns points near the given observations, taking the observations in turn. If there are
    /// more observations than points, an evenly spaced selection is used. The points lie at one
    /// distance, or at several in a study. Empty if there are no observations.
    pub(crate) fn near(&self, best: &[usize], stream: &mut Stream) -> Points {
        /// Distances from an observation, in length scales.
        const NEAR: [f64; 8] = [0.25; 8];
        const NEAR_AND_NEARER: [f64; 4] = [0.5, 0.125, 0.03, 0.008];
        let distances = match self.maximizer {
            Maximizer::Snapped(_) => NEAR_AND_NEARER.repeat(6),
            _ => NEAR.to_vec(),
        };
        let mut starts = Points::new(self.trials.domain().dim());
        if best.is_empty() {
            return starts;
        }
        let lengthscales = self.surrogate.posterior().kernel().lengthscales();
        let n = distances.len();
        for turn in 0..n {
            let index = if best.len() > n { turn * best.len() / n } else { turn % best.len() };
            // Each pass over the observations starts with a different distance, so that every
            // observation gets all distances.
            let lap = if best.len() > 1 { turn / best.len() } else { 0 };
            let distance = distances[(turn + lap) % n];
            let near: Vec<f64> = self.surrogate.inputs().row(best[index])[..starts.dim()]
                .iter()
                .zip(lengthscales)
                .map(|(x, l)| (x + distance * l.min(1.0) * stream.normal()).clamp(0.0, 1.0))
                .collect();
            starts.push(&near);
        }
        starts
    }
}

/// Returns the first `dim` coordinates of each point.
fn first_coordinates(points: &Points, dim: usize) -> Points {
    Points::from_rows(dim, points.rows().map(|row| &row[..dim]))
}
