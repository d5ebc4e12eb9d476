//! The points tried so far, and their effect on the next query.

use std::collections::HashSet;

use fedbo_optim::Points;
use fedbo_space::Space;
use fedbo_streams::Stream;

use crate::domain::Candidates;
use crate::{Domain, Observation, Proposal, Source, StrategyError};

/// The rule for a best candidate that was already evaluated or is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// Evaluate it again, because the objective is noisy.
    Allow,
    /// Take the next best local maximum that is new. If there is none, take a uniformly random
    /// point.
    Avoid,
    /// Take a uniformly random point immediately, as in the authors' code.
    Randomize,
}

impl Repeats {
    /// Returns [`Repeats::Allow`] for a noisy objective, [`Repeats::Avoid`] for a deterministic
    /// one.
    pub fn for_study(noisy: bool) -> Self {
        if noisy { Self::Allow } else { Self::Avoid }
    }
}

/// Half the side of the box around a failed trial in which no point is queried again, as a fraction
/// of √d.
const FAILED_RADIUS: f64 = 0.01;

/// Smallest number of trials in a branch of a space with conditions, as a share of the mean number.
const LEAST_SHARE: f64 = 0.4;
/// Number of trials after which a branch does not count as neglected if all of them have failed.
const MANY_FAILED: usize = 5;
/// Maximum number of branches; with more, none counts as neglected.
const MAX_BRANCHES: usize = 32;

/// Numbers of distinct points in a branch.
#[derive(Clone, Copy, Default)]
struct Visits {
    /// Finished and running.
    n_tried: usize,
    n_failed: usize,
    n_succeeded: usize,
}

/// The points of the domain that were tried, and the rule for repeating them.
///
/// Two points are equal if their snapped coordinates are equal.
#[derive(Clone, Debug)]
pub(crate) struct Trials {
    domain: Domain,
    /// The part of the space that the next queries are restricted to.
    part: Option<Domain>,
    repeats: Repeats,
    /// Keys of evaluated and failed points.
    used: HashSet<Vec<u64>>,
    failed: Points,
    n_told: usize,
}

impl Trials {
    /// Creates an empty set of trials.
    ///
    /// # Errors
    /// If a finite domain is empty or has a coordinate that is not finite.
    pub(crate) fn new(domain: Domain, repeats: Repeats) -> Result<Self, StrategyError> {
        if let Some(points) = domain.points() {
            check_finite_domain(points)?;
        }
        Ok(Self {
            failed: Points::new(domain.dim()),
            domain,
            part: None,
            repeats,
            used: HashSet::new(),
            n_told: 0,
        })
    }

    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Returns the part of the domain that the next queries are restricted to, or else the domain.
    pub(crate) fn part(&self) -> &Domain {
        self.part.as_ref().unwrap_or(&self.domain)
    }

    /// Returns the part of the space that the next queries are restricted to, if any.
    pub(crate) fn restriction(&self) -> Option<&Space> {
        match &self.part {
            Some(Domain::Space(part)) => Some(part),
            _ => None,
        }
    }

    /// Restricts the next queries to a part of the space.
    ///
    /// # Errors
    /// If the domain is not a space.
    pub(crate) fn restrict(&mut self, part: Option<&Space>) -> Result<(), StrategyError> {
        match (&self.domain, part) {
            (_, None) => self.part = None,
            (Domain::Space(_), Some(part)) => self.part = Some(Domain::Space(part.clone())),
            _ => return Err(StrategyError::NoGivenValues),
        }
        Ok(())
    }

    /// Returns the number of finished trials, including failed ones.
    pub(crate) fn n_told(&self) -> usize {
        self.n_told
    }

    pub(crate) fn tell(&mut self, observed: &[Observation]) {
        for observation in observed {
            self.used.insert(self.key(&observation.unit));
            if observation.is_failure() {
                self.failed.push(&observation.unit);
            }
        }
        self.n_told += observed.len();
    }

    /// Returns the free coordinates of the branches of a space with conditions that are neglected:
    /// those with the fewest finished and running trials, if these are fewer than [`LEAST_SHARE`] of
    /// an equal share and at least two points are left. `None` at every second query.
    ///
    /// A branch in which all of at least [`MANY_FAILED`] finished trials have failed is not neglected.
    /// Its points are near failures, so that further queries of it would become random points.
    ///
    /// A model with few trials in a branch can be certain that the branch is bad, because most of
    /// its fit comes from other branches.
    pub(crate) fn neglected(&self, pending: &Points) -> Option<Vec<bool>> {
        let Domain::Space(space) = &self.domain else {
            return None;
        };
        let n_begun = self.n_told + pending.len();
        if self.part.is_some() || !space.has_conditions() || !n_begun.is_multiple_of(2) {
            return None;
        }
        let running: HashSet<Vec<u64>> = pending.rows().map(|unit| self.key(unit)).collect();
        let failed: HashSet<Vec<u64>> = self.failed.rows().map(|unit| self.key(unit)).collect();
        let mut parts: Vec<(Vec<bool>, Option<u64>, Visits)> = Vec::new();
        for branch in space.branches(MAX_BRANCHES)? {
            match parts.iter_mut().find(|(is_free, ..)| *is_free == branch.is_free) {
                Some((_, n_points, _)) => {
                    let counts = n_points.zip(branch.n_points);
                    *n_points = counts.map(|(a, b)| a.saturating_add(b));
                }
                None => parts.push((branch.is_free, branch.n_points, Visits::default())),
            }
        }
        for key in self.used.union(&running) {
            let unit: Vec<f64> = key.iter().map(|bits| f64::from_bits(*bits)).collect();
            let branch = space.branch_at(&unit);
            if let Some((.., visits)) =
                parts.iter_mut().find(|(is_free, ..)| *is_free == branch.is_free)
            {
                visits.n_tried += 1;
                match (failed.contains(key), self.used.contains(key)) {
                    (true, _) => visits.n_failed += 1,
                    (false, true) => visits.n_succeeded += 1,
                    (false, false) => {} // is running
                }
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of trials and branches")]
        let least = LEAST_SHARE * self.used.union(&running).count() as f64 / parts.len() as f64;
        parts.retain(|(_, n_points, visits)| {
            let only_fails = visits.n_succeeded == 0 && visits.n_failed >= MANY_FAILED;
            !only_fails && n_points.is_none_or(|n| visits.n_tried as u64 + 1 < n)
        });
        let (is_free, _, visits) = parts.into_iter().min_by_key(|(.., visits)| visits.n_tried)?;
        #[expect(clippy::cast_precision_loss, reason = "counts of trials")]
        let is_neglected = (visits.n_tried as f64) < least;
        is_neglected.then_some(is_free)
    }

    /// Combines these trials with the running ones.
    ///
    /// # Panics
    /// If the dimension of `pending` differs from the dimension of the domain.
    pub(crate) fn with_pending(&self, pending: &Points) -> Open<'_> {
        assert_eq!(
            pending.dim(),
            self.domain.dim(),
            "running trials have a different dimension than the domain"
        );
        Open {
            trials: self,
            pending: pending.rows().map(|unit| self.key(unit)).collect(),
            running: pending.clone(),
        }
    }

    /// Returns the bit patterns of the snapped coordinates, so that exact equality can be hashed.
    fn key(&self, unit: &[f64]) -> Vec<u64> {
        let bits = |unit: &[f64]| unit.iter().map(|v| (v + 0.0).to_bits()).collect();
        match &self.domain {
            // Projections onto rules differ in their last digits, depending on the start.
            Domain::Space(space) if space.has_rules() => {
                let rounded = space.snap(unit).into_iter().map(|u| (u * 1e9).round() / 1e9);
                bits(&rounded.collect::<Vec<f64>>())
            }
            Domain::Space(space) => bits(&space.snap(unit)),
            Domain::Finite(_) | Domain::Factored(_) => bits(unit),
        }
    }
}

/// The points that can be queried while some trials are running.
pub(crate) struct Open<'a> {
    trials: &'a Trials,
    pending: HashSet<Vec<u64>>,
    running: Points,
}

/// Half the side of the crowding box around a candidate, as a fraction of the side of the space.
const CROWD_RADIUS: f64 = 0.02;
/// A candidate is excluded if this many running trials are in the crowding box.
const CROWD: usize = 2;
/// Number of random points drawn if the best candidates are crowded. The one farthest from all
/// trials is taken.
const N_SPREAD: usize = 64;

/// Number of random points tried before a discrete space is enumerated.
const N_RANDOM_TRIES: usize = 1000;

impl Open<'_> {
    /// Returns true if the point has not been tried and is not running.
    fn is_new(&self, unit: &[f64]) -> bool {
        let key = self.trials.key(unit);
        !self.trials.used.contains(&key) && !self.pending.contains(&key)
    }

    /// Returns true if the point is not near a failure and the rule for repeats allows it.
    pub(crate) fn accepts(&self, unit: &[f64]) -> bool {
        !self.near_failed(unit) && (self.may_repeat() || self.is_new(unit))
    }

    /// Returns true if the point has not been tried, is not running, and is not near a failure.
    /// Ignores the rule for repeats.
    pub(crate) fn is_untried(&self, unit: &[f64]) -> bool {
        !self.near_failed(unit) && self.is_new(unit)
    }

    fn may_repeat(&self) -> bool {
        self.trials.repeats == Repeats::Allow
    }

    /// Returns true if a noise-free study already runs enough trials near the point. Without this
    /// check, a model that is certain of a maximum would send all workers there, and they would all
    /// learn the same.
    fn is_crowded(&self, unit: &[f64]) -> bool {
        let is_of_study = matches!(self.trials.domain, Domain::Space(_));
        if !is_of_study || self.trials.repeats != Repeats::Avoid {
            return false;
        }
        let is_beside =
            |other: &&[f64]| other.iter().zip(unit).all(|(a, b)| (a - b).abs() <= CROWD_RADIUS);
        self.running.rows().filter(is_beside).nth(CROWD - 1).is_some()
    }

    /// Returns the points of all finished and running trials.
    pub(crate) fn known(&self) -> Points {
        let mut known = self.running.clone();
        let mut unit = Vec::with_capacity(known.dim());
        for key in &self.trials.used {
            unit.clear();
            unit.extend(key.iter().map(|bits| f64::from_bits(*bits)));
            known.push(&unit);
        }
        known
    }

    /// Picks the best candidate that the rule for repeats allows.
    ///
    /// Candidates near failed trials are always skipped. In a noise-free study, a candidate near
    /// two running trials is also skipped. If no candidate is left, a random point is taken. The
    /// random point is far from all trials if some are running and repeats are not allowed.
    ///
    /// # Errors
    /// If no point is left.
    pub(crate) fn pick(
        &self,
        candidates: Candidates,
        source: Source,
        stream: &mut Stream,
    ) -> Result<Proposal, StrategyError> {
        let chosen = match self.trials.repeats {
            Repeats::Allow => candidates.first(|unit| self.accepts(unit)),
            Repeats::Avoid => candidates.first(|unit| self.accepts(unit) && !self.is_crowded(unit)),
            Repeats::Randomize => candidates.first(|_| true).filter(|unit| self.accepts(unit)),
        };
        match chosen {
            Some(unit) => Ok(Proposal { unit, source }),
            None => {
                let source = match source {
                    Source::Message { sender } => Source::RandomInstead { sender },
                    _ => Source::Random,
                };
                let unit = match self.running.is_empty() || self.may_repeat() {
                    true => self.random(stream)?,
                    false => self.random_away(&self.known(), N_SPREAD, stream)?,
                };
                Ok(Proposal { unit, source })
            }
        }
    }

    /// Returns a uniformly random point that can be queried.
    ///
    /// # Errors
    /// If a discrete domain is exhausted.
    pub(crate) fn random(&self, stream: &mut Stream) -> Result<Vec<f64>, StrategyError> {
        match self.trials.part() {
            Domain::Finite(points) => self.random_of(points, stream),
            Domain::Factored(sampler) => self.random_of(sampler.domain(), stream),
            Domain::Space(_) => self.random_in_space(stream),
        }
    }

    /// Draws `n` random points that can be queried and returns the one farthest from its nearest
    /// neighbour among `known` and the failed points.
    ///
    /// # Errors
    /// Same as [`Open::random`].
    pub(crate) fn random_away(
        &self,
        known: &Points,
        n: usize,
        stream: &mut Stream,
    ) -> Result<Vec<f64>, StrategyError> {
        let squared_distance = |unit: &[f64]| {
            let to = |other: &[f64]| other.iter().zip(unit).map(|(a, b)| (a - b).powi(2)).sum();
            known.rows().chain(self.trials.failed.rows()).map(to).fold(f64::INFINITY, f64::min)
        };
        let mut best = self.random(stream)?;
        let mut farthest = squared_distance(&best);
        for _ in 1..n {
            let unit = self.random(stream)?;
            let distance = squared_distance(&unit);
            if distance > farthest {
                (best, farthest) = (unit, distance);
            }
        }
        Ok(best)
    }

    /// Chooses uniformly at random among the points that can still be queried, or among new points
    /// near failures if there are no others.
    fn random_of(&self, points: &Points, stream: &mut Stream) -> Result<Vec<f64>, StrategyError> {
        let mut usable: Vec<&[f64]> = points.rows().filter(|unit| self.accepts(unit)).collect();
        if usable.is_empty() {
            usable = points.rows().filter(|unit| self.is_new(unit)).collect();
        }
        if usable.is_empty() {
            return Err(StrategyError::Exhausted { n_points: points.len() });
        }
        Ok(usable[stream.below(usable.len())].to_vec())
    }

    /// Returns a random point that is new and not near a failure.
    ///
    /// If random draws find no such point, returns a usable point of the enumerated discrete space,
    /// a point near a failure, or an evaluated point, in this order of preference.
    fn random_in_space(&self, stream: &mut Stream) -> Result<Vec<f64>, StrategyError> {
        let domain = self.trials.part();
        let (mut evaluated, mut near_failure) = (None, None);
        for _ in 0..N_RANDOM_TRIES {
            let unit = domain.random(stream);
            let open = self.may_repeat() || self.is_new(&unit);
            match self.near_failed(&unit) {
                false if open => return Ok(unit),
                false => evaluated = Some(unit),
                true if open => near_failure = Some(unit),
                true => {}
            }
        }
        if let Some(points) = domain.enumerated()
            && let Ok(unit) = self.random_of(&points, stream)
        {
            return Ok(unit);
        }
        // Every point has been tried or has failed, so any of them will do.
        Ok(near_failure.or(evaluated).unwrap_or_else(|| domain.random(stream)))
    }

    /// # Errors
    /// If repeats are avoided and a discrete space has no new point.
    pub(crate) fn check_exhausted(&self) -> Result<(), StrategyError> {
        let Domain::Space(space) = self.trials.part() else {
            return Ok(());
        };
        let Some(n_points) = space.n_points().filter(|_| !self.may_repeat()) else {
            return Ok(());
        };
        let is_in = |key: &&Vec<u64>| {
            let unit: Vec<f64> = key.iter().map(|bits| f64::from_bits(*bits)).collect();
            self.trials.part.is_none() || is_same_point(&space.snap(&unit), &unit)
        };
        let running = self.pending.iter().filter(|key| !self.trials.used.contains(*key));
        let n_used = self.trials.used.iter().chain(running).filter(is_in).count() as u64;
        match n_used >= n_points {
            true => Err(StrategyError::Exhausted {
                n_points: usize::try_from(n_points).unwrap_or(usize::MAX),
            }),
            false => Ok(()),
        }
    }

    /// Returns true if the point is near a failed trial.
    fn near_failed(&self, unit: &[f64]) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "input dimensions are far below 2^53")]
        let radius = match self.trials.domain {
            Domain::Space(_) => FAILED_RADIUS * (unit.len() as f64).sqrt(),
            Domain::Finite(_) | Domain::Factored(_) => 0.0,
        };
        self.trials
            .failed
            .rows()
            .any(|failed| failed.iter().zip(unit).all(|(a, b)| (a - b).abs() <= radius))
    }
}

/// Returns true if two snapped points are equal up to rounding errors.
fn is_same_point(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-9)
}

/// Checks that a finite domain has at least one point and only finite coordinates.
fn check_finite_domain(points: &Points) -> Result<(), StrategyError> {
    let fail = |value: String| {
        Err(StrategyError::setting(
            "finite domain",
            value,
            "at least one point, all coordinates finite",
        ))
    };
    if points.is_empty() {
        return fail("no point".into());
    }
    match points.as_flat().iter().find(|v| !v.is_finite()) {
        Some(bad) => fail(bad.to_string()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use fedbo_space::ParameterSpec;

    use super::*;

    /// Returns whether branch `b` is neglected after `n_failed` failures in it, `n_good` values in it,
    /// and many values in branch `a`.
    fn is_neglected(n_failed: u32, n_good: u32) -> bool {
        let specs = [
            ("k", ParameterSpec::categorical(["a", "b"])),
            ("x", ParameterSpec::float(0.0, 1.0).when("k", "a")),
            ("y", ParameterSpec::float(0.0, 1.0).when("k", "b")),
        ];
        let space = Space::from_specs(specs.iter().map(|(name, spec)| (*name, spec))).unwrap();
        let mut trials = Trials::new(Domain::Space(space), Repeats::Avoid).unwrap();
        let observation = |unit: Vec<f64>, value| Observation::new(unit, value, Source::Own);
        for k in 0..60 - n_failed - n_good {
            let unit = vec![0.0, f64::from(k) / 60.0, 0.5];
            trials.tell(&[observation(unit, Some(1.0))]);
        }
        for k in 0..n_failed + n_good {
            let unit = vec![1.0, 0.5, f64::from(k) / 60.0];
            trials.tell(&[observation(unit, (k >= n_failed).then_some(1.0))]);
        }
        trials.neglected(&Points::new(3)).is_some()
    }

    #[test]
    fn a_branch_that_always_fails_is_not_neglected() {
        assert!(is_neglected(0, 5) && is_neglected(4, 0) && is_neglected(5, 1));
        assert!(!is_neglected(5, 0) && !is_neglected(9, 0));
        assert!(!is_neglected(0, 20));
    }
}
