//! Where queries may lie, and how a function is maximized there.

use std::sync::Arc;

use fedbo_optim::{Direct, Function, MultiStart, Points, rank};
use fedbo_space::Space;
use fedbo_streams::Stream;

use crate::StrategyError;

/// The set of possible queries, in unit-cube coordinates.
#[derive(Clone, Debug)]
pub enum Domain {
    /// A search space; proposals are snapped to points that it can represent.
    Space(Space),
    /// Finitely many points.
    Finite(Arc<Points>),
}

impl Domain {
    /// Dimension d of the coordinates.
    pub fn dim(&self) -> usize {
        match self {
            Self::Space(space) => space.dim(),
            Self::Finite(points) => points.dim(),
        }
    }

    /// A uniformly random query.
    pub fn random(&self, stream: &mut Stream) -> Vec<f64> {
        match self {
            Self::Space(space) => space.snap(
                &(0..space.dim())
                    .map(|_| stream.uniform())
                    .collect::<Vec<_>>(),
            ),
            Self::Finite(points) => points.row(stream.below(points.len())).to_vec(),
        }
    }
}

/// How a function is maximized over a [`Domain::Space`]; a finite domain is always scanned.
#[derive(Clone, Debug, PartialEq)]
pub enum Maximizer {
    /// A batch of Sobol points and the best refined by L-BFGS-B.
    MultiStart(MultiStart),
    /// DIRECT, as in FTS (footnote 4).
    Direct(Direct),
}

impl Maximizer {
    /// Candidate queries for the maximum of `function`, best first, all finite and in the domain.
    ///
    /// `extra` are further starts for the multi-start search.
    ///
    /// # Errors
    /// If the function is finite nowhere.
    pub fn candidates(
        &self,
        function: &dyn Function,
        domain: &Domain,
        extra: &Points,
        stream: &mut Stream,
    ) -> Result<Candidates, StrategyError> {
        match domain {
            Domain::Finite(points) => Candidates::ranked(&function.values(points), points),
            Domain::Space(space) => {
                let found: Vec<Vec<f64>> = match self {
                    Self::MultiStart(search) => search
                        .maximize(function, stream.bits(), extra)?
                        .into_iter()
                        .map(|maximum| maximum.x)
                        .collect(),
                    Self::Direct(search) => vec![search.maximize(function)?.x],
                };
                Ok(Candidates(
                    found.iter().map(|unit| space.snap(unit)).collect(),
                ))
            }
        }
    }
}

/// Possible queries, best first.
#[derive(Clone, Debug)]
pub struct Candidates(Vec<Vec<f64>>);

impl Candidates {
    /// The points of a finite domain in the order of their values.
    ///
    /// # Errors
    /// If no value is finite.
    pub(crate) fn ranked(values: &[f64], points: &Points) -> Result<Self, StrategyError> {
        Ok(Self(
            rank(values)?
                .into_iter()
                .map(|index| points.row(index).to_vec())
                .collect(),
        ))
    }

    /// The best candidate that `usable` accepts.
    pub(crate) fn first(self, usable: impl Fn(&[f64]) -> bool) -> Option<Vec<f64>> {
        self.0.into_iter().find(|unit| usable(unit))
    }
}
