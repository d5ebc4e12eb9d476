//! Domains of queries, and the maximization of functions over them.

use std::sync::Arc;

use fedbo_gp::{FeatureMap, JointSampler};
use fedbo_optim::{Direct, Function, MultiStart, Points, best, rank, sobol};
use fedbo_space::Space;
use fedbo_streams::Stream;

use crate::StrategyError;
use crate::snapped_search::{SnappedSearch, enumerated};

/// The set of possible queries, in unit-cube coordinates.
#[derive(Clone, Debug)]
pub enum Domain {
    /// A search space; proposals are snapped to points that it can represent.
    Space(Space),
    /// Finitely many points.
    Finite(Arc<Points>),
    /// Finitely many points with a factor of the initial kernel's prior covariance at these points.
    /// Several strategies can share the factor.
    Factored(Arc<JointSampler>),
}

impl Domain {
    /// Checks that the shared features have the dimension of the domain.
    ///
    /// # Errors
    /// [`StrategyError::Setting`] if they differ.
    pub fn check_features(&self, map: &FeatureMap) -> Result<(), StrategyError> {
        StrategyError::ensure(
            map.dim() == self.dim(),
            "dimension of the shared features",
            map.dim(),
            "the dimension of the domain",
        )
    }

    /// Returns the dimension d of the coordinates.
    pub fn dim(&self) -> usize {
        match self {
            Self::Space(space) => space.dim(),
            Self::Finite(points) => points.dim(),
            Self::Factored(sampler) => sampler.domain().dim(),
        }
    }

    /// Draws a uniformly random query.
    pub fn random(&self, stream: &mut Stream) -> Vec<f64> {
        match self {
            Self::Space(space) => {
                let unit: Vec<f64> = (0..space.dim()).map(|_| stream.uniform()).collect();
                match space.has_rules() {
                    true => space.spread(&[unit], stream.bits()).swap_remove(0),
                    false => space.draw(&unit),
                }
            }
            Self::Finite(points) => points.row(stream.below(points.len())).to_vec(),
            Self::Factored(sampler) => {
                let points = sampler.domain();
                points.row(stream.below(points.len())).to_vec()
            }
        }
    }

    /// Returns the points of a finite domain; `None` for a space.
    pub fn points(&self) -> Option<&Points> {
        match self {
            Self::Space(_) => None,
            Self::Finite(points) => Some(points),
            Self::Factored(sampler) => Some(sampler.domain()),
        }
    }
}

impl Domain {
    /// Returns the point of the domain at the given coordinates, which are snapped in a space.
    pub(crate) fn snapped(&self, unit: &[f64]) -> Vec<f64> {
        match self {
            Self::Space(space) => space.snap(unit),
            Self::Finite(_) | Self::Factored(_) => unit.to_vec(),
        }
    }

    /// Returns points that cover the domain, or all points of a finite domain.
    pub(crate) fn cover(&self) -> Points {
        match self {
            Self::Space(space) if space.has_conditions() || space.has_rules() => {
                let points = sobol(space.dim(), 256, 0);
                let units: Vec<Vec<f64>> = points.rows().map(<[f64]>::to_vec).collect();
                Points::from_rows(space.dim(), space.spread(&units, 0).iter())
            }
            Self::Space(space) => sobol(space.dim(), 256, 0),
            Self::Finite(points) => points.as_ref().clone(),
            Self::Factored(sampler) => sampler.domain().clone(),
        }
    }

    /// Returns all points of a discrete space, or `None` if there are more than 100 000.
    pub(crate) fn enumerated(&self) -> Option<Points> {
        match self {
            Self::Space(space) => enumerated(space),
            Self::Finite(_) | Self::Factored(_) => self.points().cloned(),
        }
    }
}

/// A method for maximizing a function over a [`Domain::Space`]. A finite domain is always scanned.
#[derive(Clone, Debug, PartialEq)]
pub enum Maximizer {
    /// Evaluates a batch of Sobol points and refines the best ones by L-BFGS-B.
    MultiStart(MultiStart),
    /// DIRECT, as in FTS (footnote 4).
    Direct(Direct),
    /// [`Maximizer::MultiStart`] with a local search for integers and choices.
    ///
    /// Maxima are snapped and then improved by changing one integer or choice at a time. In
    /// between, the floats are optimized again. The results are ranked by the function at the
    /// snapped points. Single-party studies use this search. With it, a [`crate::Proposer`] also
    /// learns from failures and ends when a discrete space is exhausted.
    Snapped(MultiStart),
}

/// Largest number of observations for which the maximum of an acquisition function is searched at
/// full size.
const FULL_SEARCH: usize = 400;

impl Maximizer {
    /// Returns the search used to maximize an acquisition function over a space.
    ///
    /// Values and gradients cost O(n²), and the maxima lie near the best points of the batch and
    /// near the incumbent, so fewer ascents suffice than for a sample.
    pub fn of_acquisition(dim: usize) -> Self {
        Self::Snapped(MultiStart { n_candidates: 20, n_refine: 5, ..MultiStart::for_dim(dim) })
    }

    /// Returns the same search with a smaller budget if, at O(n²) per evaluation, a query would
    /// take seconds.
    pub(crate) fn within(&self, n: usize) -> Self {
        let cut = |search: &MultiStart| {
            let share = FULL_SEARCH.max(1) * FULL_SEARCH;
            let scaled = |count: usize, least: usize| {
                (count * share / (n * n).max(share)).clamp(least.min(count), count)
            };
            let mut local = search.local;
            if n > FULL_SEARCH {
                local.max_iterations = scaled(local.max_iterations, 8);
            }
            MultiStart {
                n_starts: scaled(search.n_starts, 64),
                n_candidates: scaled(search.n_candidates, 2),
                n_refine: scaled(search.n_refine, 1),
                local,
                ..*search
            }
        };
        match self {
            Self::MultiStart(search) => Self::MultiStart(cut(search)),
            Self::Snapped(search) => Self::Snapped(cut(search)),
            Self::Direct(search) => Self::Direct(search.clone()),
        }
    }

    /// Returns candidate queries for the maximum of `function`, best first, all finite and in the
    /// domain.
    ///
    /// `extra` contains additional starts for the multi-start search.
    ///
    /// # Errors
    /// If no value of the function is finite.
    pub fn candidates(
        &self,
        function: &dyn Function,
        domain: &Domain,
        extra: &Points,
        stream: &mut Stream,
    ) -> Result<Candidates, StrategyError> {
        match domain {
            Domain::Finite(points) => Candidates::ranked(&function.values(points), points),
            Domain::Factored(sampler) => {
                let points = sampler.domain();
                Candidates::ranked(&function.values(points), points)
            }
            Domain::Space(space) => {
                // Outside of valid points, a function of a space with conditions or rules has values
                // that no trial can have.
                let is_structured = space.has_conditions() || space.has_rules();
                let valid = MultiStart::for_dim(space.dim());
                let search = match self {
                    Self::Snapped(search) => Some(search),
                    Self::MultiStart(search) if is_structured => Some(search),
                    Self::Direct(_) if is_structured => Some(&valid),
                    Self::MultiStart(_) | Self::Direct(_) => None,
                };
                if let Some(search) = search {
                    let search = SnappedSearch { function, space, search, only: None };
                    return search.candidates(extra, stream);
                }
                let found: Vec<Vec<f64>> = match self {
                    Self::Direct(search) => vec![search.maximize(function)?.x],
                    Self::MultiStart(search) | Self::Snapped(search) => search
                        .maximize(function, stream.bits(), extra)?
                        .into_iter()
                        .map(|maximum| maximum.x)
                        .collect(),
                };
                let snapped = found.iter().map(|unit| space.snap(unit));
                Ok(Candidates(Order::Listed(snapped.collect())))
            }
        }
    }
}

/// Possible queries, best first.
#[derive(Clone, Debug)]
pub struct Candidates(Order);

#[derive(Clone, Debug)]
enum Order {
    Listed(Vec<Vec<f64>>),
    /// Points of a finite domain with their values, at least one of which is finite. The points are
    /// sorted only if the best one is not usable.
    ByValue {
        values: Vec<f64>,
        points: Points,
    },
}

impl Candidates {
    /// Ranks the points of a finite domain by their values.
    ///
    /// # Errors
    /// If no value is finite.
    pub fn ranked(values: &[f64], points: &Points) -> Result<Self, StrategyError> {
        best(values)?;
        Ok(Self(Order::ByValue { values: values.to_vec(), points: points.clone() }))
    }

    /// Returns the best candidate that `usable` accepts.
    pub fn first(self, usable: impl Fn(&[f64]) -> bool) -> Option<Vec<f64>> {
        match self.0 {
            Order::Listed(units) => units.into_iter().find(|unit| usable(unit)),
            Order::ByValue { values, points } => {
                let top = best(&values).ok()?;
                if usable(points.row(top)) {
                    return Some(points.row(top).to_vec());
                }
                let rest = rank(&values).ok()?.into_iter().skip(1);
                let units = rest.map(|index| points.row(index));
                units.map(<[f64]>::to_vec).find(|unit| usable(unit))
            }
        }
    }
}
