//! Partitions of the unit cube into equal hyper-rectangles, called regions.

use fedbo_space::{Parameter, Space};

/// A reason for not cutting a domain into this number of regions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartitionError {
    /// The number of regions is 0.
    #[error("there is no partition into 0 regions; use at least 1")]
    None,
    /// A region would contain no point.
    #[error(
        "the space cannot be cut into {n_regions} regions that each contain a point: an integer is cut only while every slice \
         contains one of its values, and a choice is never cut; use fewer regions, or a number with smaller factors"
    )]
    TooFine {
        /// The requested number.
        n_regions: u32,
    },
}

/// P hyper-rectangles of equal size that tile `[0,1]^d`. Each coordinate j is cut into c_j slices,
/// where ∏ c_j = P.
///
/// A slice is half-open, `[k/c, (k+1)/c)`, except that the last one is closed, so every point lies
/// in exactly one region. Region numbers vary slowest along the first coordinate, as in DP-FTS-DE
/// appendix B.2.1. Each prime factor of P, from the largest to the smallest, cuts the coordinate
/// that has the fewest slices so far. For example, 4 regions of three coordinates are 2×2×1, as in
/// the appendix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    cuts: Vec<u32>,
}

impl Partition {
    /// Creates a partition with a single region, the whole cube.
    pub fn whole(dim: usize) -> Self {
        Self { cuts: vec![1; dim] }
    }

    /// Cuts `[0,1]^d` along any coordinate.
    ///
    /// # Errors
    /// If `n_regions` is 0.
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn of_cube(dim: usize, n_regions: u32) -> Result<Self, PartitionError> {
        assert!(dim > 0, "a cube has at least one coordinate");
        Self::along(dim, n_regions, |_, _| true)
    }

    /// Cuts a space along its floats and integers. Every region contains at least one point of the
    /// space.
    ///
    /// # Errors
    /// If `n_regions` is 0, or a region would contain no point.
    pub fn of_space(space: &Space, n_regions: u32) -> Result<Self, PartitionError> {
        let parameters = space.parameters().iter();
        let owners: Vec<&Parameter> = parameters
            .flat_map(|parameter| std::iter::repeat_n(parameter, parameter.n_coordinates()))
            .collect();
        Self::along(owners.len(), n_regions, |index, cuts| {
            (0..cuts).all(|slice| holds(owners[index], slice, cuts))
        })
    }

    /// Cuts along the coordinates. `fits` must return true if a coordinate can be cut into a given
    /// number of slices.
    fn along(
        dim: usize,
        n_regions: u32,
        fits: impl Fn(usize, u32) -> bool,
    ) -> Result<Self, PartitionError> {
        if n_regions == 0 {
            return Err(PartitionError::None);
        }
        let mut cuts = vec![1_u32; dim];
        for factor in prime_factors(n_regions) {
            let open = (0..dim).filter(|index| fits(*index, cuts[*index] * factor));
            let Some(index) = open.min_by_key(|index| cuts[*index]) else {
                return Err(PartitionError::TooFine { n_regions });
            };
            cuts[index] *= factor;
        }
        Ok(Self { cuts })
    }

    /// Returns the number of coordinates d.
    pub fn dim(&self) -> usize {
        self.cuts.len()
    }

    /// Returns the number of regions P.
    pub fn n_regions(&self) -> usize {
        self.cuts.iter().map(|c| *c as usize).product()
    }

    /// Returns the number of slices along each coordinate (length d).
    pub fn cuts(&self) -> &[u32] {
        &self.cuts
    }

    /// Returns the region that contains `unit` (length d). Coordinates outside `[0,1]` are clamped.
    ///
    /// # Panics
    /// If the length of `unit` is not d.
    pub fn region_of(&self, unit: &[f64]) -> usize {
        assert_eq!(unit.len(), self.dim(), "a point of another dimension");
        let slices = unit.iter().zip(&self.cuts);
        slices.fold(0, |region, (x, cuts)| region * *cuts as usize + slice_of(*x, *cuts) as usize)
    }

    /// Returns the lower and the upper corner of a region (length d each). A point on an upper
    /// boundary below 1 belongs to the next region.
    ///
    /// # Panics
    /// If the region does not exist.
    pub fn bounds(&self, region: usize) -> (Vec<f64>, Vec<f64>) {
        assert!(region < self.n_regions(), "there is no region {region}");
        let mut rest = region;
        let (mut lower, mut upper) = (vec![0.0; self.dim()], vec![1.0; self.dim()]);
        for (j, cuts) in self.cuts.iter().enumerate().rev() {
            let slice = u32::try_from(rest % *cuts as usize).unwrap_or(0); // below a u32
            rest /= *cuts as usize;
            (lower[j], upper[j]) = (border(slice, *cuts), border(slice + 1, *cuts));
        }
        (lower, upper)
    }

    /// Returns the point of a region at relative coordinates `within` in `[0,1]^d`, which map
    /// affinely from the lower to the upper corner. The point is always inside the region, so 1
    /// maps to the largest number below the boundary if the boundary belongs to the next region.
    ///
    /// # Panics
    /// If the region does not exist, or the length of `within` is not d.
    pub fn place(&self, region: usize, within: &[f64]) -> Vec<f64> {
        assert_eq!(within.len(), self.dim(), "a point of another dimension");
        let (lower, upper) = self.bounds(region);
        let corners = lower.iter().zip(&upper);
        let place = |(u, (low, high)): (&f64, (&f64, &f64))| {
            let last = if *high < 1.0 { high.next_down() } else { 1.0 };
            (low + u.clamp(0.0, 1.0) * (high - low)).clamp(*low, last)
        };
        within.iter().zip(corners).map(place).collect()
    }
}

/// Returns true if a slice of a parameter's coordinate contains at least one of the parameter's
/// values.
fn holds(parameter: &Parameter, slice: u32, cuts: u32) -> bool {
    if !parameter.kind().is_ordered() {
        return cuts == 1;
    }
    let Some(n_values) = parameter.kind().n_values() else {
        return true;
    };
    let at_least = |index: u64| {
        let mut unit = Vec::with_capacity(1);
        let value = parameter.kind().value(index)?;
        parameter.kind().encode(&value, &mut unit)?;
        Some(unit[0]).filter(|x| *x >= border(slice, cuts))
    };
    // Find the smallest index with a coordinate that reaches the slice. Coordinates increase with
    // the index.
    let (mut below, mut reaching) = (0, n_values - 1);
    while below < reaching {
        let middle = below.midpoint(reaching);
        if at_least(middle).is_some() {
            reaching = middle;
        } else {
            below = middle + 1;
        }
    }
    at_least(reaching).is_some_and(|x| slice_of(x, cuts) == slice)
}

/// Returns k/c.
fn border(k: u32, cuts: u32) -> f64 {
    f64::from(k) / f64::from(cuts)
}

/// Returns the slice `[k/c, (k+1)/c)` that contains x, bitwise consistent with [`border`].
fn slice_of(x: f64, cuts: u32) -> u32 {
    let mut slice = cuts - 1;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the number of slices; NaN becomes 0"
    )]
    let guess = (x * f64::from(cuts)) as u32;
    slice = slice.min(guess);
    while slice > 0 && x < border(slice, cuts) {
        slice -= 1;
    }
    while slice + 1 < cuts && x >= border(slice + 1, cuts) {
        slice += 1;
    }
    slice
}

/// Returns the prime factors of n with multiplicity, largest first.
fn prime_factors(n: u32) -> Vec<u32> {
    let (mut rest, mut factors, mut divisor) = (n, Vec::new(), 2);
    while u64::from(divisor) * u64::from(divisor) <= u64::from(rest) {
        while rest.is_multiple_of(divisor) {
            factors.push(divisor);
            rest /= divisor;
        }
        divisor += 1;
    }
    if rest > 1 {
        factors.push(rest);
    }
    factors.reverse();
    factors
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedbo_space::{ParameterSpec, Value};

    #[test]
    fn regions_are_those_of_the_paper() {
        let two = Partition::of_cube(2, 4).unwrap();
        let bounds: Vec<_> = (0..4).map(|i| two.bounds(i)).collect();
        let expected = [
            (vec![0.0, 0.0], vec![0.5, 0.5]),
            (vec![0.0, 0.5], vec![0.5, 1.0]),
            (vec![0.5, 0.0], vec![1.0, 0.5]),
            (vec![0.5, 0.5], vec![1.0, 1.0]),
        ];
        assert_eq!(bounds, expected);
        assert_eq!(Partition::of_cube(3, 4).unwrap().cuts(), [2, 2, 1]);
        assert_eq!(Partition::of_cube(1, 3).unwrap().bounds(1), (vec![1.0 / 3.0], vec![2.0 / 3.0]));
        assert_eq!(Partition::of_cube(2, 6).unwrap().cuts(), [3, 2]);
        assert_eq!(Partition::of_cube(2, 7).unwrap().cuts(), [7, 1]);
    }

    #[test]
    fn a_border_belongs_to_the_upper_region_alone() {
        for n in [1, 2, 3, 4, 6, 7, 12, 49, 97, 360] {
            for dim in 1..4 {
                let partition = Partition::of_cube(dim, n).unwrap();
                assert_eq!(partition.n_regions(), n as usize);
                for region in 0..partition.n_regions() {
                    let (lower, upper) = partition.bounds(region);
                    assert_eq!(partition.region_of(&lower), region);
                    for corner in [vec![0.0; dim], vec![0.5; dim], vec![1.0; dim]] {
                        let inside = partition.place(region, &corner);
                        assert_eq!(partition.region_of(&inside), region, "{n} in {dim}");
                        let fits = inside.iter().zip(lower.iter().zip(&upper));
                        assert!(fits.into_iter().all(|(x, (l, u))| l <= x && x <= u));
                    }
                    if upper.iter().all(|u| *u < 1.0) {
                        assert_ne!(partition.region_of(&upper), region);
                    }
                }
            }
        }
    }

    #[test]
    fn integers_are_cut_while_each_slice_holds_one() {
        let space = |spec: ParameterSpec| {
            let choice = ParameterSpec::categorical(["a", "b"]);
            Space::from_specs([("n", &spec), ("c", &choice)]).unwrap()
        };
        let three = space(ParameterSpec::int(1, 3));
        assert_eq!(Partition::of_space(&three, 3).unwrap().cuts(), [3, 1]);
        let error = Partition::of_space(&three, 4).unwrap_err();
        assert_eq!(error, PartitionError::TooFine { n_regions: 4 });
        // For 1 to 8 on a logarithmic scale, some of eight slices contain no integer.
        let log = space(ParameterSpec::log_int(1, 8));
        for n in 1..=8 {
            let cut = Partition::of_space(&log, n);
            let all_hold = (0..n).all(|slice| {
                (1..=8).any(|value| {
                    let mut unit = Vec::new();
                    log.parameters()[0].kind().encode(&Value::Int(value), &mut unit).unwrap();
                    slice_of(unit[0], n) == slice
                })
            });
            assert_eq!(cut.is_ok(), all_hold, "{n}");
        }
        assert!(Partition::of_space(&log, 0).is_err());
        let cuts = |spec, n| Partition::of_space(&space(spec), n).map(|cut| cut.cuts().to_vec());
        assert_eq!(cuts(ParameterSpec::ordered(["a", "b", "c"]), 3), Ok(vec![3, 1]));
        // The middle third of the set's coordinate contains no number.
        let set = ParameterSpec::int_values([1, 2, 1000]);
        assert_eq!(cuts(set.clone(), 2), Ok(vec![2, 1]));
        assert!(cuts(set, 3).is_err());
        // A fixed parameter has no coordinate.
        assert!(cuts(ParameterSpec::float(1.0, 1.0), 2).is_err());
    }
}
