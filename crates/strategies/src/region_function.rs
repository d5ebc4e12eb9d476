//! The function f̃(x) = φ(x)·ω^(i) for x in region i, and the search for its maxima.

use std::borrow::Cow;

use fedbo_gp::{FeatureMap, WeightSpaceSample};
use fedbo_optim::{Function, Points};
use fedbo_space::Space;
use fedbo_streams::Stream;

use crate::Partition;
use crate::domain::Candidates;
use crate::{Domain, Maximizer, StrategyError};

/// The function defined by P weight vectors (DP-FTS-DE Algorithm 2 line 8, Fig. 1c). The function
/// is smooth within a region and jumps at the boundaries. Each boundary belongs to one region: see
/// [`Partition`].
pub struct RegionFunction<'a> {
    partition: &'a Partition,
    /// One function per region.
    pieces: Vec<WeightSpaceSample<'a>>,
}

impl<'a> RegionFunction<'a> {
    /// Creates the function from P×M weights.
    ///
    /// # Errors
    /// If a row does not have M weights.
    pub fn new(
        map: &'a FeatureMap,
        partition: &'a Partition,
        weights: &[Vec<f64>],
    ) -> Result<Self, StrategyError> {
        assert_eq!(weights.len(), partition.n_regions(), "one vector per region");
        let flat: Vec<f64> = weights.iter().flatten().copied().collect();
        // All regions use the same scale, because their values are compared.
        let scaled = in_range(&flat);
        let pieces = scaled
            .chunks_exact(map.n_features())
            .map(|row| WeightSpaceSample::new(map, row))
            .collect::<Result<_, _>>()?;
        Ok(Self { partition, pieces })
    }

    /// Evaluates f̃ at many points, each with the weights of its region.
    pub fn values(&self, points: &Points) -> Vec<f64> {
        let mut values = vec![0.0; points.len()];
        let regions: Vec<usize> =
            points.rows().map(|unit| self.partition.region_of(unit)).collect();
        for (region, piece) in self.pieces.iter().enumerate() {
            let members: Vec<usize> =
                (0..regions.len()).filter(|index| regions[*index] == region).collect();
            if members.is_empty() {
                continue;
            }
            let inside =
                Points::from_rows(points.dim(), members.iter().map(|index| points.row(*index)));
            for (index, value) in members.into_iter().zip(piece.values(&inside)) {
                values[index] = value;
            }
        }
        values
    }

    /// Returns the maxima of f̃ on the domain, best first.
    ///
    /// On a space, each region is mapped to the unit cube and searched separately, so that no
    /// search leaves its region. The results are snapped to the space, possibly into a different
    /// region, and ranked by f̃ itself.
    ///
    /// # Errors
    /// If no value of f̃ is finite.
    pub fn candidates(
        &self,
        domain: &Domain,
        maximizer: &Maximizer,
        stream: &mut Stream,
    ) -> Result<Candidates, StrategyError> {
        if let Some(points) = domain.points() {
            return Candidates::ranked(&self.values(points), points);
        }
        let Domain::Space(space) = domain else {
            unreachable!("a domain without points is a space")
        };
        let mut found = Points::new(space.dim());
        for region in 0..self.pieces.len() {
            self.search(region, space, maximizer, stream, &mut found)?;
        }
        Candidates::ranked(&self.values(&found), &found)
    }

    fn search(
        &self,
        region: usize,
        space: &Space,
        maximizer: &Maximizer,
        stream: &mut Stream,
        found: &mut Points,
    ) -> Result<(), StrategyError> {
        let piece = Piece {
            function: &self.pieces[region],
            partition: self.partition,
            region,
            width: self.width(region),
        };
        let none = Points::new(space.dim());
        let within: Vec<Vec<f64>> = match maximizer {
            Maximizer::MultiStart(search) | Maximizer::Snapped(search) => search
                .maximize(&piece, stream.bits(), &none)?
                .into_iter()
                .map(|maximum| maximum.x)
                .collect(),
            Maximizer::Direct(search) => vec![search.maximize(&piece)?.x],
        };
        for point in within {
            found.push(&space.snap(&self.partition.place(region, &point)));
        }
        Ok(())
    }

    fn width(&self, region: usize) -> Vec<f64> {
        let (lower, upper) = self.partition.bounds(region);
        upper.iter().zip(&lower).map(|(u, l)| u - l).collect()
    }
}

/// The function in one region, mapped to the unit cube.
struct Piece<'a> {
    function: &'a WeightSpaceSample<'a>,
    partition: &'a Partition,
    region: usize,
    /// Side lengths of the region (d).
    width: Vec<f64>,
}

impl Function for Piece<'_> {
    fn dim(&self) -> usize {
        self.partition.dim()
    }

    fn values(&self, points: &Points) -> Vec<f64> {
        let placed = points.rows().map(|unit| self.partition.place(self.region, unit));
        self.function.values(&Points::from_rows(points.dim(), placed))
    }

    fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
        let placed = self.partition.place(self.region, point);
        let value = self.function.value_gradient(&placed, gradient);
        gradient.iter_mut().zip(&self.width).for_each(|(g, w)| *g *= w);
        value
    }
}

/// Returns the weights. If the largest weight is so large or small that φ(x)·ω could leave the
/// floating-point range, they are divided by it.
///
/// Neither a maximizer nor the order of values depends on the scale. The division ensures that no
/// message can stop its receiver.
#[must_use]
pub fn in_range(weights: &[f64]) -> Cow<'_, [f64]> {
    let largest = weights.iter().fold(0.0_f64, |m, w| m.max(w.abs()));
    if largest <= 0.0 || (1e-100..=1e100).contains(&largest) {
        return Cow::Borrowed(weights);
    }
    Cow::Owned(weights.iter().map(|w| w / largest).collect())
}
