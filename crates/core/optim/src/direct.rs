//! DIRECT: deterministic global maximisation over the unit cube without gradients.

use crate::{Function, OptimError, Points};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Maximum number of trisections of one coordinate. Sides of 3⁻²⁴ ≈ 4·10⁻¹² still have distinct
/// centres inside the cube.
const MAX_LEVEL: usize = 24;

/// Dividing rectangles (Jones, Perttunen & Stuckman 1993) over `[0,1]^d`.
///
/// The cube is stored as rectangles with sides 3^−l. Rectangle j has a size s_j and a value f_j,
/// taken at its centre. Each iteration selects the potentially optimal rectangles, those that for
/// some K > 0 satisfy
///
/// f_j + K s_j ≥ f_i + K s_i for all i,   f_j + K s_j ≥ f_max + ε |f_max|   (Definition 4.1, signs for maximisation)
///
/// and divides each into thirds along its longest sides, starting with the side that has the best
/// new value. In the original form, the size is half the diagonal, and all tied rectangles of one
/// size are divided. With `locally_biased`, the size is half the longest side, and one rectangle
/// per size is divided (Gablonsky & Kelley 2001), which spends less on exploration.
///
/// Deviations: the evaluations of an iteration form one batch, so the budget never runs out in the
/// middle of a rectangle. A non-finite value counts as the lowest finite one when sizes are
/// compared, and ranks last within its own size.
///
/// Cost: O(n d) memory for n evaluations, and a convex hull over at most 24 d sizes per iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct Direct {
    /// Maximum number of evaluations. The centre is always evaluated.
    pub max_evaluations: usize,
    /// Maximum number of rounds of division.
    pub max_iterations: usize,
    /// ε of Definition 4.1: the minimum potential gain of a rectangle, as a fraction of |f_max|.
    pub epsilon: f64,
    /// True to use Gablonsky's variant.
    pub locally_biased: bool,
}

impl Default for Direct {
    /// 2000 evaluations, ε = 10⁻⁴ and the original form, which, on function samples in two to six
    /// dimensions, came closer to the maximum than the locally biased form
    /// (docs/decisions/0003-bounded-optimisation.md).
    fn default() -> Self {
        Self {
            max_evaluations: 2000,
            max_iterations: usize::MAX,
            epsilon: 1e-4,
            locally_biased: false,
        }
    }
}

/// The best point of a global search.
#[derive(Clone, Debug, PartialEq)]
pub struct GlobalMaximum {
    /// The point, inside the cube (d).
    pub x: Vec<f64>,
    /// The value at the point, which is finite and the best value found.
    pub value: f64,
    /// Number of evaluations used.
    pub n_evaluations: usize,
    /// Number of rounds of division.
    pub n_iterations: usize,
}

impl Direct {
    /// Maximises `function` over `[0,1]^d`, using only `values`. Equal functions give equal
    /// results.
    ///
    /// # Errors
    /// [`OptimError::NoFiniteValue`] if no value within the budget is finite.
    ///
    /// # Panics
    /// If `values` does not return one value per point.
    pub fn maximize<F: Function + ?Sized>(
        &self,
        function: &F,
    ) -> Result<GlobalMaximum, OptimError> {
        let dim = function.dim();
        let mut cells = Cells::new(dim, self.locally_biased);
        let centre = Points::from_flat(dim, vec![0.5; dim]);
        cells.add(centre.row(0), evaluate(function, &centre)[0], &vec![0; dim]);
        cells.file(0);

        let mut chosen = Vec::new();
        let mut point = vec![0.0; dim];
        let mut n_iterations = 0;
        while n_iterations < self.max_iterations {
            cells.take_potentially_optimal(self.epsilon, &mut chosen);
            let mut batch = Points::new(dim);
            let mut n_divided = 0;
            for &cell in &chosen {
                let n_new = 2 * cells.longest_sides(cell).count();
                if cells.values.len() + batch.len() + n_new > self.max_evaluations {
                    break;
                }
                n_divided += 1;
                let offset = third(cells.lowest_level(cell));
                for side in cells.longest_sides(cell) {
                    point.copy_from_slice(cells.centres.row(cell));
                    let middle = point[side];
                    for x in [middle - offset, middle + offset] {
                        point[side] = x;
                        batch.push(&point);
                    }
                }
            }
            if n_divided == 0 {
                break; // budget exhausted, or nothing left to divide
            }
            let values = evaluate(function, &batch);
            let mut n_used = 0;
            for &cell in &chosen[..n_divided] {
                n_used += cells.divide(cell, &batch, &values, n_used);
            }
            n_iterations += 1;
        }
        let n_evaluations = cells.values.len();
        let best = cells.best.ok_or(OptimError::NoFiniteValue { n_evaluated: n_evaluations })?;
        Ok(GlobalMaximum {
            x: cells.centres.row(best).to_vec(),
            value: cells.values[best],
            n_evaluations,
            n_iterations,
        })
    }
}

fn evaluate<F: Function + ?Sized>(function: &F, points: &Points) -> Vec<f64> {
    let values = function.values(points);
    assert_eq!(values.len(), points.len(), "{} values for {} points", values.len(), points.len());
    values
}

/// Returns 3^−(level+1), the distance between the new centres and the old one.
fn third(level: u8) -> f64 {
    3.0_f64.powi(-i32::from(level) - 1)
}

/// A heap entry for a rectangle, ordered by largest value, then by lowest index.
#[derive(Clone, Copy, Debug)]
struct Entry {
    value: f64,
    cell: usize,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.total_cmp(&other.value).then(Reverse(self.cell).cmp(&Reverse(other.cell)))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

/// The partition of the cube.
struct Cells {
    dim: usize,
    locally_biased: bool,
    centres: Points,
    /// The value at the centre, or −∞ if it is not finite.
    values: Vec<f64>,
    /// The number of divisions of each side, n×d.
    levels: Vec<u8>,
    /// Heaps by size, largest size first.
    by_size: Vec<BinaryHeap<Entry>>,
    best: Option<usize>,
    lowest: f64,
}

impl Cells {
    fn new(dim: usize, locally_biased: bool) -> Self {
        Self {
            dim,
            locally_biased,
            centres: Points::new(dim),
            values: Vec::new(),
            levels: Vec::new(),
            by_size: Vec::new(),
            best: None,
            lowest: f64::INFINITY,
        }
    }

    fn levels(&self, cell: usize) -> &[u8] {
        &self.levels[cell * self.dim..(cell + 1) * self.dim]
    }

    fn lowest_level(&self, cell: usize) -> u8 {
        self.levels(cell).iter().copied().min().unwrap_or(0)
    }

    fn longest_sides(&self, cell: usize) -> impl Iterator<Item = usize> {
        let lowest = self.lowest_level(cell);
        self.levels(cell)
            .iter()
            .enumerate()
            .filter(move |&(_, &l)| l == lowest)
            .map(|(side, _)| side)
    }

    /// Stores a rectangle without adding it to the heap of its size.
    fn add(&mut self, centre: &[f64], value: f64, levels: &[u8]) {
        let cell = self.values.len();
        self.centres.push(centre);
        self.levels.extend_from_slice(levels);
        if !value.is_finite() {
            self.values.push(f64::NEG_INFINITY);
            return;
        }
        self.values.push(value);
        self.lowest = self.lowest.min(value);
        if self.best.is_none_or(|best| value > self.values[best]) {
            self.best = Some(cell);
        }
    }

    /// Adds a rectangle to the heap of its size, unless it is too small to divide. The levels of a
    /// rectangle differ by at most 1, so their sum determines its shape.
    fn file(&mut self, cell: usize) {
        let divisions: usize = self.levels(cell).iter().map(|&l| usize::from(l)).sum();
        if divisions >= MAX_LEVEL * self.dim {
            return;
        }
        let size = if self.locally_biased { divisions / self.dim } else { divisions };
        if size >= self.by_size.len() {
            self.by_size.resize_with(size + 1, BinaryHeap::new);
        }
        self.by_size[size].push(Entry { value: self.values[cell], cell });
    }

    /// Returns the size of the rectangles in heap `index`.
    fn size(&self, index: usize) -> f64 {
        let side = |level: usize| 3.0_f64.powf(-(level as f64));
        if self.locally_biased {
            return 0.5 * side(index);
        }
        let (level, n_short) = (index / self.dim, index % self.dim);
        let (long, short) = (side(level), side(level + 1));
        0.5 * ((self.dim - n_short) as f64 * long * long + n_short as f64 * short * short).sqrt()
    }

    /// Removes the potentially optimal rectangles from their heaps, largest first.
    fn take_potentially_optimal(&mut self, epsilon: f64, chosen: &mut Vec<usize>) {
        chosen.clear();
        let floor = if self.lowest.is_finite() { self.lowest } else { 0.0 };
        // (heap, size, best value) in descending order of size.
        let tops: Vec<(usize, f64, f64)> = self
            .by_size
            .iter()
            .enumerate()
            .filter_map(|(index, heap)| {
                heap.peek().map(|top| (index, self.size(index), top.value.max(floor)))
            })
            .collect();
        let best = self.best.map_or(floor, |best| self.values[best]);
        let target = best + epsilon * best.abs();
        for (j, &(index, size, value)) in tops.iter().enumerate() {
            // K ≥ (f_i − f_j)/(s_j − s_i) for smaller i and K ≤ (f_j − f_i)/(s_i − s_j) for larger i.
            let at_least =
                tops[j + 1..].iter().map(|&(_, s, v)| (v - value) / (size - s)).fold(0.0, f64::max);
            let at_most = tops[..j]
                .iter()
                .map(|&(_, s, v)| (value - v) / (s - size))
                .fold(f64::INFINITY, f64::min);
            if at_most <= 0.0 || at_least > at_most || value + at_most * size < target {
                continue;
            }
            let heap = &mut self.by_size[index];
            let Some(first) = heap.pop() else { continue };
            chosen.push(first.cell);
            if self.locally_biased || first.value.is_infinite() {
                continue;
            }
            while let Some(tie) = heap.pop_if_equal(first.value) {
                chosen.push(tie);
            }
        }
    }

    /// Divides a rectangle along its longest sides. The values at the new centres are stored in
    /// pairs from `first` in the batch. Returns the number of new centres.
    fn divide(&mut self, cell: usize, batch: &Points, values: &[f64], first: usize) -> usize {
        let finite = |v: f64| if v.is_finite() { v } else { f64::NEG_INFINITY };
        let mut sides: Vec<(usize, usize)> =
            self.longest_sides(cell).enumerate().map(|(k, side)| (side, first + 2 * k)).collect();
        let n_new = 2 * sides.len();
        let better = |at: usize| finite(values[at]).max(finite(values[at + 1]));
        sides.sort_by(|a, b| better(b.1).total_cmp(&better(a.1)));
        for (side, at) in sides {
            self.levels[cell * self.dim + side] += 1;
            let levels = self.levels(cell).to_vec();
            for new in [at, at + 1] {
                let filed = self.values.len();
                self.add(batch.row(new), values[new], &levels);
                self.file(filed);
            }
        }
        self.file(cell);
        n_new
    }
}

/// Removes tied entries from a heap.
trait PopTie {
    fn pop_if_equal(&mut self, value: f64) -> Option<usize>;
}

impl PopTie for BinaryHeap<Entry> {
    fn pop_if_equal(&mut self, value: f64) -> Option<usize> {
        if self.peek()?.value.total_cmp(&value) == Ordering::Equal {
            self.pop().map(|entry| entry.cell)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Cosines, HalfNan, ValueOnly};
    use proptest::prelude::*;
    use std::f64::consts::PI;
    use std::sync::Mutex;

    /// The negated Branin function on [−5, 10] × [0, 15]. The maximum is −0.397887, at three
    /// points.
    fn branin(x: &[f64]) -> f64 {
        let (a, b) = (15.0 * x[0] - 5.0, 15.0 * x[1]);
        let ridge = b - 5.1 / (4.0 * PI * PI) * a * a + 5.0 / PI * a - 6.0;
        -(ridge * ridge + 10.0 * (1.0 - 1.0 / (8.0 * PI)) * a.cos() + 10.0)
    }

    /// The Hartmann-6 function. The maximum is 3.32237.
    fn hartmann6(x: &[f64]) -> f64 {
        const A: [[f64; 6]; 4] = [
            [10.0, 3.0, 17.0, 3.5, 1.7, 8.0],
            [0.05, 10.0, 17.0, 0.1, 8.0, 14.0],
            [3.0, 3.5, 1.7, 10.0, 17.0, 8.0],
            [17.0, 8.0, 0.05, 10.0, 0.1, 14.0],
        ];
        const P: [[f64; 6]; 4] = [
            [0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886],
            [0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991],
            [0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650],
            [0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381],
        ];
        let term = |k: usize| (0..6).map(|j| A[k][j] * (x[j] - P[k][j]).powi(2)).sum::<f64>();
        [1.0, 1.2, 3.0, 3.2].iter().enumerate().map(|(k, c)| c * (-term(k)).exp()).sum()
    }

    fn search(max_evaluations: usize, locally_biased: bool) -> Direct {
        Direct { max_evaluations, locally_biased, ..Direct::default() }
    }

    /// Number of evaluations until the relative error is below 10⁻⁴ at the end of a round: 195 and
    /// 571 for the original form (Jones et al. 1993), 159 and 295 for the locally biased form
    /// (Gablonsky & Kelley 2001).
    #[test]
    fn branin_and_hartmann_reach_the_published_accuracy_at_exactly_the_published_cost() {
        let branin = ValueOnly { dim: 2, value: branin };
        let hartmann = ValueOnly { dim: 6, value: hartmann6 };
        let cost = |function: &dyn Function, maximum: f64, locally_biased: bool| {
            (1..50)
                .map(|max_iterations| Direct { max_iterations, ..search(5000, locally_biased) })
                .map(|direct| direct.maximize(function).unwrap())
                .find(|found| (found.value - maximum).abs() < 1e-4 * maximum.abs())
                .map(|found| found.n_evaluations)
        };
        assert_eq!(cost(&branin, -0.397_887, false), Some(195));
        assert_eq!(cost(&hartmann, 3.322_37, false), Some(571));
        assert_eq!(cost(&branin, -0.397_887, true), Some(159));
        assert_eq!(cost(&hartmann, 3.322_37, true), Some(295));
    }

    /// On [2.7, 7.5], sin x + sin(10x/3) has its minimum −1.899599 at 5.145735, and two other
    /// minima. Round k divides at most k cells with 2 evaluations each, so 100 evaluations suffice
    /// for 9 rounds. Two of these rounds may skip the best cell (because of ε), which leaves it no
    /// wider than 3⁻⁷. In the coordinates of the cube, |f''| ≤ (1 + 100/9) · 4.8².
    #[test]
    fn a_function_with_three_maxima_in_one_dimension() {
        let wave = ValueOnly {
            dim: 1,
            value: |x: &[f64]| {
                let t = 2.7 + 4.8 * x[0];
                -(t.sin() + (10.0 * t / 3.0).sin())
            },
        };
        let half_side = 0.5 * 3.0_f64.powi(-7);
        for biased in [false, true] {
            let found = search(100, biased).maximize(&wave).unwrap();
            assert!((found.x[0] - (5.145_735 - 2.7) / 4.8).abs() < half_side);
            assert!(
                (found.value - 1.899_599).abs()
                    < 0.5 * 12.2 * 4.8 * 4.8 * half_side * half_side + 1e-6
            );
        }
    }

    #[test]
    fn the_first_rounds_are_those_of_the_definition() {
        // On the plane f = x_0 + 2 x_1, dividing the centre evaluates 1 + 4 new points. Side 1 has
        // the better value.
        let seen = Mutex::new(Vec::new());
        let plane = ValueOnly {
            dim: 2,
            value: |x: &[f64]| {
                seen.lock().unwrap().push(x.to_vec());
                x[0] + 2.0 * x[1]
            },
        };
        let found = Direct { max_iterations: 2, ..search(100, false) }.maximize(&plane).unwrap();
        let seen = seen.lock().unwrap();
        let (low, high) = (0.5 - 1.0 / 3.0, 0.5 + 1.0 / 3.0);
        let expected = [[0.5, 0.5], [low, 0.5], [high, 0.5], [0.5, low], [0.5, high]];
        for (x, e) in seen.iter().zip(expected) {
            assert!((x[0] - e[0]).abs() + (x[1] - e[1]).abs() < 1e-15);
        }
        // The cell around (1/2, 5/6) kept its full width. Only this cell is divided, along side 0,
        // which adds 2 points.
        assert_eq!((seen.len(), found.n_iterations), (7, 2));
        assert!((found.value - (high + 2.0 * high)).abs() < 1e-15);
    }

    /// All cells of a flat line tie. The original form divides 1 and then 3 of them; the biased
    /// form divides one per round.
    #[test]
    fn ties_of_one_size_are_divided_by_the_original_form_only() {
        let flat = ValueOnly { dim: 1, value: |_: &[f64]| 1.0 };
        for (biased, n_evaluations) in [(false, 1 + 2 + 6), (true, 1 + 2 + 2)] {
            let direct = Direct { max_iterations: 2, ..search(100, biased) };
            assert_eq!(direct.maximize(&flat).unwrap().n_evaluations, n_evaluations);
        }
    }

    /// f = 1 − |x − ½| is in [½, 1], and a larger cell is at least three times as large. The
    /// potential gain of a cell of size s is therefore at most K s ≤ ½ s / (3s − s) = ¼, unless it
    /// is the largest. With ε = ½ only the largest cells are divided, and 27 evaluations form a
    /// grid of spacing 1/27. With ε = 0 the evaluations converge to the centre.
    #[test]
    fn epsilon_keeps_the_search_from_polishing() {
        let nearest = |epsilon: f64| {
            let nearest = Mutex::new(1.0_f64);
            let roof = ValueOnly {
                dim: 1,
                value: |x: &[f64]| {
                    let distance = (x[0] - 0.5).abs();
                    let mut nearest = nearest.lock().unwrap();
                    if distance > 0.0 {
                        *nearest = nearest.min(distance);
                    }
                    1.0 - distance
                },
            };
            Direct { epsilon, ..search(27, false) }.maximize(&roof).unwrap();
            nearest.into_inner().unwrap()
        };
        assert!(nearest(0.5) > 0.999 / 27.0, "{}", nearest(0.5));
        assert!(nearest(0.0) < 0.5 / 27.0, "{}", nearest(0.0));
    }

    #[test]
    fn nothing_finite_is_an_error_and_one_evaluation_is_the_least() {
        let nothing = ValueOnly { dim: 3, value: |_: &[f64]| f64::NAN };
        let error = Err(OptimError::NoFiniteValue { n_evaluated: 1 });
        assert_eq!(search(0, true).maximize(&nothing).map(|m| m.value), error);
        assert!(search(100, true).maximize(&nothing).is_err());
        // A flat function is divided down to the smallest cells, and the search ends.
        let flat = ValueOnly { dim: 1, value: |_: &[f64]| 0.0 };
        assert_eq!(search(1, false).maximize(&flat).unwrap().n_evaluations, 1);
        assert!(search(3000, false).maximize(&flat).unwrap().n_evaluations <= 3000);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn the_result_is_inside_finite_reproducible_within_budget_and_the_best_seen(
            dim in 1_usize..7, seed in any::<u32>(), cut in 0.3..1.1_f64, biased: bool, budget in 60_usize..800,
        ) {
            let function = HalfNan { inner: Cosines::draw(dim, 0.3, seed), cut };
            let largest = Mutex::new(f64::NEG_INFINITY);
            let watched = ValueOnly { dim, value: |x: &[f64]| {
                let value = function.value_gradient(x, &mut vec![0.0; dim]);
                let mut largest = largest.lock().unwrap();
                *largest = largest.max(value); // NaN leaves it unchanged
                value
            } };
            let found = search(budget, biased).maximize(&watched);
            prop_assert_eq!(&found, &search(budget, biased).maximize(&watched));
            let largest = *largest.lock().unwrap();
            match found {
                Ok(found) => {
                    prop_assert!(found.x.iter().all(|v| (0.0..=1.0).contains(v)) && found.value.is_finite());
                    prop_assert!(found.n_evaluations <= budget && found.value >= largest);
                }
                // The centre and its neighbours can all be beyond the cut.
                Err(_) => prop_assert!(largest.is_infinite()),
            }
        }
    }
}
