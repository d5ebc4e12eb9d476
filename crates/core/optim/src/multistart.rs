//! Global maximisation over the unit cube: evaluates a batch of starts and refines the best ones.

use crate::lbfgsb::{Lbfgsb, LbfgsbOptions, LocalMaximum};
use crate::scan::rank;
use crate::{Function, OptimError, Points};

/// Two maxima that are closer than this in every coordinate count as one.
const SAME_MAXIMUM: f64 = 1e-3;
/// Like [`SAME_MAXIMUM`], for candidates that are still climbing.
const SAME_ASCENT: f64 = 0.02;
/// Minimum distance between starts in some coordinate, or half their mean spacing if that is
/// smaller.
const APART: f64 = 0.1;
/// Length of a scrambled Sobol sequence. Further points start the next sequence.
const SOBOL_LENGTH: usize = 1 << 16;

/// Multi-start maximisation over `[0,1]^d`.
///
/// 1. `n_starts` points of an Owen-scrambled Sobol sequence (Burley 2020) and the caller's
///    additional starts are evaluated in one batch.
/// 2. The best `n_candidates` of these points, kept apart from one another, climb for
///    `candidate_iterations` steps.
/// 3. The best `n_refine` candidates, again kept apart, are refined by projected L-BFGS.
///
/// Cost: one call of `values` on n_starts + n_extra points, then about 4 calls of `value_gradient`
/// per candidate and 10 to 15 per refined point for d = 2 to 6. Without the second stage, the same
/// number of evaluations leaves a gap to the maximum that is a quarter larger in six dimensions
/// (docs/decisions/0003-bounded-optimisation.md).
#[derive(Clone, Debug, PartialEq)]
pub struct MultiStart {
    /// Number of Sobol points.
    pub n_starts: usize,
    /// Number of starts that climb for a few steps; at least `n_refine`.
    pub n_candidates: usize,
    /// Number of steps per candidate. 0 skips the second stage.
    pub candidate_iterations: usize,
    /// Number of refined candidates. 0 counts as 1.
    pub n_refine: usize,
    /// Stopping criteria for the refinements.
    pub local: LbfgsbOptions,
}

impl Default for MultiStart {
    /// Returns [`Self::for_dim`] for three dimensions.
    fn default() -> Self {
        Self::for_dim(3)
    }
}

impl MultiStart {
    /// Returns settings for d = `dim`: 128 starts per dimension, but between 256 and 1024, 32
    /// candidates with 3 steps each, and 8 refinements.
    pub fn for_dim(dim: usize) -> Self {
        Self {
            n_starts: dim.saturating_mul(128).clamp(256, 1024),
            n_candidates: 32,
            candidate_iterations: 3,
            n_refine: 8,
            local: LbfgsbOptions::default(),
        }
    }

    /// Maximises `function` over `[0,1]^d`. Equal seeds and functions give equal results.
    ///
    /// `extra` contains additional starts (n×d, may be empty), such as incumbents and points near
    /// them. A start outside the cube is moved onto its boundary, and a start with a NaN is
    /// skipped. The best value is at least the value at every start.
    ///
    /// # Errors
    /// [`OptimError::NoFiniteValue`] if no start has a finite value, [`OptimError::EmptyDomain`] if
    /// there are no starts.
    ///
    /// # Panics
    /// If the dimension of `extra` differs from the dimension of the function, or `values` does not
    /// return one value per point.
    pub fn maximize<F: Function + ?Sized>(
        &self,
        function: &F,
        seed: u32,
        extra: &Points,
    ) -> Result<Maxima, OptimError> {
        let dim = function.dim();
        assert_eq!(
            extra.dim(),
            dim,
            "starts of dimension {} for a function of dimension {dim}",
            extra.dim()
        );
        let starts = starts(dim, self.n_starts, seed, extra);
        let values = function.values(&starts);
        assert_eq!(
            values.len(),
            starts.len(),
            "{} values for {} points",
            values.len(),
            starts.len()
        );
        let order = rank(&values)?;
        let mut n_evaluations = starts.len();

        let n_refine = self.n_refine.max(1);
        let (lower, upper) = (vec![0.0; dim], vec![1.0; dim]);
        let mut search = Lbfgsb::new(dim, self.local);
        let mut refine = |start: &[f64], value: f64, options: LbfgsbOptions| {
            search.set_options(options);
            let function = |x: &[f64], gradient: &mut [f64]| function.value_gradient(x, gradient);
            let found = search.maximize(function, &lower, &upper, start);
            n_evaluations += found.as_ref().map_or(1, |m| m.n_evaluations);
            match found {
                Ok(maximum) if maximum.value >= value => maximum,
                // The gradient is not finite here, or the value rounds differently in a batch. Keep
                // the start itself.
                Ok(LocalMaximum { n_evaluations, .. }) => {
                    LocalMaximum { x: start.to_vec(), value, n_evaluations }
                }
                Err(_) => LocalMaximum { x: start.to_vec(), value, n_evaluations: 1 },
            }
        };
        let mut maxima: Vec<LocalMaximum> = if self.candidate_iterations == 0 {
            let chosen = spread(&starts, &order, n_refine);
            chosen.into_iter().map(|i| refine(starts.row(i), values[i], self.local)).collect()
        } else {
            let few = LbfgsbOptions { max_iterations: self.candidate_iterations, ..self.local };
            let chosen = spread(&starts, &order, self.n_candidates.max(n_refine));
            let climb = |i: usize| refine(starts.row(i), values[i], few);
            let mut candidates: Vec<LocalMaximum> = chosen.into_iter().map(climb).collect();
            keep_distinct(&mut candidates, SAME_ASCENT);
            candidates.truncate(n_refine);
            let finish = |start: LocalMaximum| {
                let end = refine(&start.x, start.value, self.local);
                LocalMaximum { n_evaluations: start.n_evaluations + end.n_evaluations, ..end }
            };
            candidates.into_iter().map(finish).collect()
        };
        keep_distinct(&mut maxima, SAME_MAXIMUM);
        Ok(Maxima { maxima, n_evaluations })
    }
}

/// Distinct local maxima, best first. Never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Maxima {
    maxima: Vec<LocalMaximum>,
    n_evaluations: usize,
}

impl Maxima {
    /// The largest maximum.
    pub fn best(&self) -> &LocalMaximum {
        &self.maxima[0]
    }

    /// All maxima, best first.
    pub fn iter(&self) -> std::slice::Iter<'_, LocalMaximum> {
        self.maxima.iter()
    }

    /// Returns the number of maxima, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "there is always a best one")]
    pub fn len(&self) -> usize {
        self.maxima.len()
    }

    /// Returns the total number of evaluated points, in the batch and all local searches.
    pub fn n_evaluations(&self) -> usize {
        self.n_evaluations
    }
}

impl IntoIterator for Maxima {
    type Item = LocalMaximum;
    type IntoIter = std::vec::IntoIter<LocalMaximum>;

    fn into_iter(self) -> Self::IntoIter {
        self.maxima.into_iter()
    }
}

/// Sorts by value, best first, and removes every maximum that is within `radius` of a better one in
/// all coordinates.
fn keep_distinct(maxima: &mut Vec<LocalMaximum>, radius: f64) {
    maxima.sort_by(|a, b| b.value.total_cmp(&a.value));
    let mut n_kept = 0;
    for i in 0..maxima.len() {
        if maxima[..n_kept].iter().all(|kept| max_distance(&kept.x, &maxima[i].x) > radius) {
            maxima.swap(n_kept, i);
            n_kept += 1;
        }
    }
    maxima.truncate(n_kept);
}

/// Returns scrambled Sobol points in `[0,1)^d`, n×d. Equal arguments give equal points.
///
/// One scramble covers 2¹⁶ points and 256 dimensions. Every further block of points or dimensions
/// has its own.
pub fn sobol(dim: usize, n_points: usize, seed: u32) -> Points {
    let mut data = Vec::with_capacity(dim * n_points);
    extend_sobol(&mut data, dim, n_points, seed);
    Points::from_flat(dim, data)
}

/// Returns point `index` of the sequence that [`sobol`] generates (length d).
pub fn sobol_point(dim: usize, index: usize, seed: u32) -> Vec<f64> {
    let mut point = Vec::with_capacity(dim);
    push_sobol(&mut point, dim, index, seed);
    point
}

fn extend_sobol(data: &mut Vec<f64>, dim: usize, n_points: usize, seed: u32) {
    for index in 0..n_points {
        push_sobol(data, dim, index, seed);
    }
}

fn push_sobol(data: &mut Vec<f64>, dim: usize, index: usize, seed: u32) {
    let n_sets = sobol_burley::NUM_DIMENSION_SETS_4D as usize;
    let (index, lap) = (small(index % SOBOL_LENGTH), small(index / SOBOL_LENGTH));
    for set in 0..dim.div_ceil(4) {
        let block = small(set / n_sets);
        let scramble = seed
            .wrapping_add(lap.wrapping_mul(0x9e37_79b9))
            .wrapping_add(block.wrapping_mul(0x85eb_ca6b));
        let four = sobol_burley::sample_4d(index, small(set % n_sets), scramble);
        data.extend(four.iter().take(dim - 4 * set).map(|&v| f64::from(v)));
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).expect("indices of points and dimensions fit 32 bits")
}

/// Returns the Sobol points, followed by the caller's starts inside the cube.
fn starts(dim: usize, n_starts: usize, seed: u32, extra: &Points) -> Points {
    let mut data = Vec::with_capacity(dim * (n_starts + extra.len()));
    extend_sobol(&mut data, dim, n_starts, seed);
    for row in extra.rows().filter(|row| row.iter().all(|v| !v.is_nan())) {
        data.extend(row.iter().map(|v| v.clamp(0.0, 1.0)));
    }
    Points::from_flat(dim, data)
}

/// Chooses up to `n` indices from `order`, greedily. Prefers points that are far enough from those
/// already chosen, and falls back to other distinct points.
fn spread(starts: &Points, order: &[usize], n: usize) -> Vec<usize> {
    let spacing = (starts.len() as f64).powf(-1.0 / starts.dim() as f64);
    let mut chosen: Vec<usize> = Vec::with_capacity(n);
    for apart in [APART.min(0.5 * spacing), SAME_MAXIMUM] {
        for &index in order {
            if chosen.len() == n {
                return chosen;
            }
            let row = starts.row(index);
            if chosen.iter().all(|&other| max_distance(starts.row(other), row) > apart) {
                chosen.push(index);
            }
        }
    }
    chosen
}

fn max_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).fold(0.0, |d, (a, b)| f64::max(d, (a - b).abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Cosines, HalfNan, Peaks};
    use proptest::prelude::*;

    #[test]
    fn every_peak_is_found_once_and_the_highest_comes_first() {
        // Gaussian bumps of width 0.08 at distances of more than six widths, so that each centre is
        // a maximum to 10⁻⁷.
        let peaks =
            Peaks::new(0.08, &[(&[0.2, 0.25], 1.0), (&[0.75, 0.3], 0.8), (&[0.5, 0.85], 0.9)]);
        let maxima = MultiStart::for_dim(2).maximize(&peaks, 3, &Points::new(2)).unwrap();
        let found: Vec<f64> = maxima.iter().take(3).map(|m| m.value).collect();
        for (value, height) in found.iter().zip([1.0, 0.9, 0.8]) {
            assert!((value - height).abs() < 1e-6, "{found:?}");
        }
        assert!(max_distance(&maxima.best().x, &[0.2, 0.25]) < 1e-5);
        let no_second_stage =
            MultiStart { candidate_iterations: 0, n_refine: 16, ..MultiStart::for_dim(2) };
        let maxima = no_second_stage.maximize(&peaks, 3, &Points::new(2)).unwrap();
        assert!(maxima.len() >= 3 && (maxima.best().value - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_needle_is_found_only_from_the_callers_start() {
        // The width is 10⁻³ in four dimensions, and none of 512 Sobol points comes within ten
        // widths.
        let needle = Peaks::new(1e-3, &[(&[0.31, 0.62, 0.4, 0.7], 5.0)]);
        let search = MultiStart::for_dim(4);
        let blind = search.maximize(&needle, 1, &Points::new(4)).unwrap();
        assert!(blind.best().value < 1e-3);
        let near = Points::from_rows(4, [[0.3105, 0.6203, 0.3998, 0.7002]]);
        let told = search.maximize(&needle, 1, &near).unwrap();
        assert!((told.best().value - 5.0).abs() < 1e-6);
    }

    #[test]
    fn extra_starts_are_moved_into_the_cube_and_those_with_a_nan_left_out() {
        let peaks = Peaks::new(0.3, &[(&[1.2, -0.3], 1.0)]); // the maximum over the cube is the corner (1, 0)
        let extra = Points::from_rows(
            2,
            [[7.0, -2.0], [f64::NAN, 0.5], [f64::INFINITY, f64::NEG_INFINITY]],
        );
        let search = MultiStart { n_starts: 1, ..MultiStart::for_dim(2) };
        assert_eq!(search.maximize(&peaks, 0, &extra).unwrap().best().x, vec![1.0, 0.0]);
    }

    #[test]
    fn a_function_without_finite_values_is_an_error() {
        let nothing = HalfNan { inner: Cosines::draw(2, 0.2, 1), cut: -1.0 };
        let search = MultiStart { n_starts: 64, ..MultiStart::for_dim(2) };
        let result = search.maximize(&nothing, 0, &Points::new(2));
        assert_eq!(result, Err(OptimError::NoFiniteValue { n_evaluated: 64 }));
        let search = MultiStart { n_starts: 0, ..search };
        assert_eq!(search.maximize(&nothing, 0, &Points::new(2)), Err(OptimError::EmptyDomain));
    }

    #[test]
    fn starts_in_one_spot_are_taken_last_and_the_same_point_never_twice() {
        let starts = Points::from_rows(1, [[0.5], [0.5005], [0.503], [0.5], [0.9], [0.1]]);
        let order = [0, 1, 2, 3, 4, 5];
        assert_eq!(spread(&starts, &order, 3), [0, 4, 5]);
        assert_eq!(spread(&starts, &order, 6), [0, 4, 5, 2]);
    }

    /// Checks a function with batch values slightly above the values at single points.
    #[test]
    fn a_start_whose_batch_value_is_never_reached_again_stands() {
        struct Rounded(Peaks);
        impl Function for Rounded {
            fn dim(&self) -> usize {
                self.0.dim()
            }
            fn values(&self, points: &Points) -> Vec<f64> {
                self.0.values(points).iter().map(|v| v + 1e-3).collect()
            }
            fn value_gradient(&self, point: &[f64], gradient: &mut [f64]) -> f64 {
                self.0.value_gradient(point, gradient)
            }
        }
        let peak = Rounded(Peaks::new(0.3, &[(&[0.5], 1.0)]));
        let start = Points::from_rows(1, [[0.5]]);
        let found = MultiStart::for_dim(1).maximize(&peak, 0, &start).unwrap();
        assert!(found.best().value >= peak.values(&start)[0]);
    }

    #[test]
    fn sobol_points_are_spread_in_every_dimension_and_beyond_the_tables() {
        // 256 points of a (t, s)-sequence in base 2: each coordinate has one point in each of 256
        // intervals.
        for dim in [1, 3, 200, 300] {
            let points = sobol(dim, 256, 9);
            for j in 0..dim {
                let mut hit = [0; 256];
                for row in points.rows() {
                    hit[(0..256).position(|k| row[j] < f64::from(k + 1) / 256.0).unwrap()] += 1;
                }
                assert!(hit.iter().all(|&h| h == 1), "dimension {j} of {dim}");
            }
        }
        let points = sobol(300, 256, 9);
        assert_eq!(sobol_point(300, 77, 9), points.row(77));
        // Dimension 256 uses the tables of dimension 0 with a different scramble, so the two
        // differ.
        assert!(points.rows().filter(|row| (row[0] - row[256]).abs() < 1e-9).count() < 8);
        assert!(sobol(2, 70_000, 1).row(65_536) != sobol(2, 70_000, 1).row(0));
        assert!(sobol(5, 16, 1) != sobol(5, 16, 2));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn maxima_are_inside_finite_distinct_sorted_reproducible_and_no_worse_than_the_starts(
            dim in 1_usize..8, seed in any::<u32>(), lengthscale in 0.05..1.0_f64, cut in 0.45..1.1_f64,
            extra in prop::collection::vec(-0.2..1.2_f64, 8),
        ) {
            let function = HalfNan { inner: Cosines::draw(dim, lengthscale, seed), cut };
            let search = MultiStart { n_starts: 100, ..MultiStart::for_dim(dim) };
            let extra = Points::from_flat(dim, extra[..dim].to_vec());
            let found = search.maximize(&function, seed, &extra);
            prop_assert_eq!(&found, &search.maximize(&function, seed, &extra));
            let found = found.unwrap();
            let best_start = function.values(&starts(dim, 100, seed, &extra))
                .into_iter().filter(|v| v.is_finite()).fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(found.best().value >= best_start);
            let all: Vec<_> = found.iter().collect();
            for (i, m) in all.iter().enumerate() {
                prop_assert!(m.value.is_finite() && m.x.iter().all(|v| (0.0..=1.0).contains(v)));
                prop_assert!(i == 0 || all[i - 1].value >= m.value);
                prop_assert!(all[..i].iter().all(|o| max_distance(&o.x, &m.x) > SAME_MAXIMUM));
            }
        }
    }

    #[test]
    fn two_hundred_dimensions() {
        let bowl = Peaks::new(4.0, &[(&[0.3; 200], 1.0)]);
        let maxima = MultiStart::for_dim(200).maximize(&bowl, 1, &Points::new(200)).unwrap();
        assert!((maxima.best().value - 1.0).abs() < 1e-8);
    }
}
