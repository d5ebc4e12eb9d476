use super::sample::SplitMix;
use super::*;
use crate::Function;
use crate::testing::{Cosines, HalfNan};

fn simplex(n: usize) -> Polytope {
    Polytope::new(n, vec![], vec![(vec![1.0; n], 1.0)]).unwrap()
}

fn tight() -> LbfgsbOptions {
    LbfgsbOptions { max_iterations: 500, gradient_tolerance: 1e-9, value_tolerance: 0.0 }
}

/// The sum of three uniforms has variance 1/4.
fn normal(random: &mut SplitMix) -> f64 {
    2.0 * ((0..3).map(|_| random.uniform()).sum::<f64>() - 1.5)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// The rows of a polytope that contains a known point.
struct Case {
    n: usize,
    inside: Vec<f64>,
    at_most: Vec<(Vec<f64>, f64)>,
    equal: Vec<(Vec<f64>, f64)>,
}

impl Case {
    /// Draws 2 to `largest` variables. Rows have small whole numbers or arbitrary ones. Some pass
    /// through the known point, some are repeated, some have an opposite that leaves no volume, and
    /// some polytopes are single points. The known point is often on bounds.
    fn draw(random: &mut SplitMix, largest: usize) -> Self {
        let n = 2 + random.below(largest - 1);
        let inside: Vec<f64> = (0..n)
            .map(|_| match random.below(6) {
                0 => 0.0,
                1 => 1.0,
                _ => random.uniform(),
            })
            .collect();
        let is_whole = random.below(2) == 0;
        let row = |random: &mut SplitMix| loop {
            let row: Vec<f64> = (0..n)
                .map(|_| if is_whole { random.below(3) as f64 - 1.0 } else { normal(random) })
                .collect();
            if max_abs(&row) > 0.0 {
                return row;
            }
        };
        let (mut at_most, mut equal) = (Vec::new(), Vec::new());
        for _ in 0..random.below(13) {
            let a = row(random);
            let b = dot(&a, &inside);
            match random.below(5) {
                0 => at_most.push((a, b)),
                1 => {
                    at_most.push((a.iter().map(|v| -3.0 * v).collect(), -3.0 * b + 0.1));
                    at_most.push((a, b + 0.2));
                }
                2 => {
                    at_most.push((a.iter().map(|v| 7.0 * v).collect(), 7.0 * b + 0.7));
                    at_most.push((a, b + 0.1));
                }
                3 if random.below(4) == 0 => {
                    at_most.push((a.iter().map(|v| -v).collect(), -b));
                    at_most.push((a, b));
                }
                _ => at_most.push((a, b + 0.5 * random.uniform())),
            }
        }
        let n_equal = if random.below(20) == 0 { n + 1 } else { random.below(3).min(n - 1) };
        for _ in 0..n_equal {
            let e = row(random);
            let f = dot(&e, &inside);
            equal.push((e, f));
        }
        Self { n, inside, at_most, equal }
    }

    fn polytope(&self) -> Polytope {
        Polytope::new(self.n, self.at_most.clone(), self.equal.clone()).unwrap()
    }

    /// All inequalities with rows of norm 1, bounds included.
    fn inequalities(&self) -> Vec<(Vec<f64>, f64)> {
        let unit = |i: usize, sign: f64| {
            let mut row = vec![0.0; self.n];
            row[i] = sign;
            row
        };
        let mut rows: Vec<_> = self.at_most.iter().map(normalized).collect();
        rows.extend((0..self.n).map(|i| (unit(i, -1.0), 0.0)));
        rows.extend((0..self.n).map(|i| (unit(i, 1.0), 1.0)));
        rows
    }

    fn violation(&self, x: &[f64]) -> f64 {
        let over = self.inequalities().iter().map(|(a, b)| dot(a, x) - b).fold(0.0, f64::max);
        self.equal.iter().map(normalized).map(|(e, f)| (dot(&e, x) - f).abs()).fold(over, f64::max)
    }

    /// Returns the distance of `vector` to the cone of the normals of the rows that are active at
    /// x, relative to the length of the vector: 0 if x is the maximum of vector·x. Minimizes over
    /// one multiplier after the other.
    fn distance_to_normal_cone(&self, x: &[f64], vector: &[f64]) -> f64 {
        let length = dot(vector, vector).sqrt();
        if length < 1e-9 {
            return 0.0;
        }
        // Everything is orthogonal to the equations, whose multipliers are free.
        let mut basis: Vec<Vec<f64>> = Vec::new();
        let reduce = |basis: &[Vec<f64>], mut row: Vec<f64>| {
            for known in basis.iter().chain(basis) {
                let part = dot(known, &row);
                quadratic::add(&mut row, -part, known);
            }
            let norm = dot(&row, &row).sqrt();
            (norm > 1e-9).then(|| (row.iter().map(|v| v / norm).collect::<Vec<f64>>(), norm))
        };
        for row in &self.equal {
            basis.extend(reduce(&basis, normalized(row).0).map(|(row, _)| row));
        }
        let active: Vec<Vec<f64>> = self
            .inequalities()
            .into_iter()
            .filter(|(a, b)| b - dot(a, x) < 1e-8)
            .filter_map(|(a, _)| Some(reduce(&basis, a)?.0))
            .collect();
        let vector = vector.iter().map(|v| v / length).collect();
        let Some((mut rest, norm)) = reduce(&basis, vector) else { return 0.0 };
        let mut multipliers = vec![0.0_f64; active.len()];
        for _ in 0..200_000 {
            let mut moved = 0.0_f64;
            for (row, multiplier) in active.iter().zip(&mut multipliers) {
                let next = (*multiplier + dot(row, &rest)).max(0.0);
                let change = next - *multiplier;
                moved = moved.max(change.abs());
                *multiplier = next;
                quadratic::add(&mut rest, -change, row);
            }
            if moved < 1e-12 || dot(&rest, &rest) < 1e-16 {
                break;
            }
        }
        norm * dot(&rest, &rest).sqrt()
    }
}

fn normalized((row, right): &(Vec<f64>, f64)) -> (Vec<f64>, f64) {
    let norm = dot(row, row).sqrt();
    (row.iter().map(|v| v / norm).collect(), right / norm)
}

/// The projection onto the simplex by sorting (Duchi & others 2008, Figure 1).
fn project_by_sorting(z: &[f64]) -> Vec<f64> {
    let mut sorted = z.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let mut sum = 0.0;
    let mut shift = 0.0;
    for (j, v) in sorted.iter().enumerate() {
        sum += v;
        let candidate = (sum - 1.0) / (j + 1) as f64;
        if v - candidate > 0.0 {
            shift = candidate;
        }
    }
    z.iter().map(|v| (v - shift).max(0.0)).collect()
}

#[test]
fn projections_onto_the_simplex_agree_with_the_sort_algorithm() {
    let mut random = SplitMix(1);
    for n in 2..=50 {
        let polytope = simplex(n);
        for case in 0..40 {
            let scale = [0.1, 1.0, 30.0, 1e4][case % 4];
            let z: Vec<f64> = (0..n).map(|_| scale * normal(&mut random)).collect();
            let found = polytope.project(&z);
            for (found, expected) in found.iter().zip(project_by_sorting(&z)) {
                assert!((found - expected).abs() < 1e-14 * scale.max(100.0), "{n} {scale}");
            }
        }
    }
}

#[test]
fn projections_are_feasible_and_satisfy_the_kkt_conditions() {
    let mut random = SplitMix(2);
    let mut n_points = [0; 2];
    for case in 0..12_000 {
        let rows = Case::draw(&mut random, 20);
        let polytope = rows.polytope();
        n_points[usize::from(polytope.n_free() == 0)] += 1;
        assert!(rows.violation(polytope.anchor()) <= FEASIBLE);
        let scale = [0.3, 1.0, 50.0][case % 3];
        let z: Vec<f64> = (0..rows.n).map(|_| 0.5 + scale * normal(&mut random)).collect();
        let found = polytope.project(&z);
        assert!(rows.violation(&found) <= FEASIBLE, "case {case}: {}", rows.violation(&found));
        if polytope.n_free() == 0 {
            // The rows can be ill-conditioned.
            assert!(distance(&found, &rows.inside) < 1e-5, "case {case}");
            continue;
        }
        let mut nearest = Nearest::new(&polytope.rows);
        assert!(nearest.solve_euclidean(&polytope.rows, &z).is_ok(), "case {case}");
        assert_eq!(found, nearest.x);
        let outwards: Vec<f64> = z.iter().zip(&found).map(|(z, x)| z - x).collect();
        let residual = rows.distance_to_normal_cone(&found, &outwards);
        assert!(residual < 1e-6, "case {case}, n = {}: {residual}", rows.n);
        assert!(distance(&found, &polytope.project(&found)) < 1e-12);
    }
    assert!(n_points.iter().all(|n| *n > 500), "{n_points:?}");
}

#[test]
fn alternating_projections_and_the_cut_replace_an_inaccurate_projection() {
    let mut random = SplitMix(3);
    let mut n_close = 0;
    for case in 0..500 {
        let rows = Case::draw(&mut random, 8);
        let polytope = rows.polytope();
        let z: Vec<f64> = (0..rows.n).map(|_| 0.5 + normal(&mut random)).collect();
        let found = polytope.cut_segment(&polytope.alternate(&z));
        assert!(rows.violation(&found) <= FEASIBLE, "case {case}");
        n_close += usize::from(distance(&found, &polytope.project(&z)) < 1e-4);
    }
    assert!(n_close > 450, "{n_close}");
}

#[test]
fn points_far_away_or_not_finite_have_a_projection() {
    let polytope = simplex(3);
    assert!(distance(&polytope.project(&[f64::INFINITY, 0.0, 0.0]), &[1.0, 0.0, 0.0]) < 1e-12);
    assert!(polytope.contains(&polytope.project(&[f64::NAN; 3]), 1e-12));
    assert!(polytope.contains(&polytope.project(&[f64::NAN, -1e300, f64::MAX]), 1e-12));
    assert!(!polytope.contains(&[f64::NAN, 0.5, 0.5], 1.0));
    assert!(!polytope.contains(&[0.5, 0.5, 0.1], 1e-2) && polytope.contains(&[0.5, 0.5, 0.1], 0.1));
}

#[test]
fn rows_that_contradict_each_other_are_named() {
    let refuse = |at_most: &[(&[f64], f64)], equal: &[(&[f64], f64)]| {
        let owned = |rows: &[(&[f64], f64)]| rows.iter().map(|(a, b)| (a.to_vec(), *b)).collect();
        let error = Polytope::new(2, owned(at_most), owned(equal)).unwrap_err();
        (error.at_most, error.equal)
    };
    let sum: &[f64] = &[1.0, 1.0];
    assert_eq!(refuse(&[(&[1.0, 0.0], -0.1)], &[]), (vec![0], vec![]));
    assert_eq!(refuse(&[], &[(sum, 2.1)]), (vec![], vec![0]));
    assert_eq!(
        refuse(&[], &[(&[1.0, 0.0], 0.5), (sum, 1.0), (&[2.0, 2.0], 1.9)]),
        (vec![], vec![1, 2])
    );
    let more = [(&[1.0, 0.0] as &[f64], 0.3), (&[0.5, 0.7], 2.0), (&[0.0, 1.0], 0.3)];
    assert_eq!(refuse(&more, &[(&[1.0, -1.0], 0.0), (sum, 1.0)]).0.len(), 1);
    assert_eq!(refuse(&more, &[(sum, 1.0)]), (vec![0, 2], vec![0]));
    assert_eq!(refuse(&[(&[0.0, 0.0], -1.0)], &[]), (vec![0], vec![]));
    assert_eq!(refuse(&[], &[(&[0.0, 0.0], 1.0)]), (vec![], vec![0]));
    assert_eq!(refuse(&[(&[f64::NAN, 0.0], 1.0)], &[]), (vec![0], vec![]));
    assert_eq!(refuse(&[(sum, 1.0), (sum, f64::NEG_INFINITY)], &[]), (vec![1], vec![]));
    assert_eq!(refuse(&[], &[(sum, f64::INFINITY)]), (vec![], vec![0]));
    assert!(
        Polytope::new(2, vec![(vec![0.0; 2], 0.0), (vec![1.0; 2], f64::INFINITY)], vec![]).is_ok()
    );
}

/// A uniform point of the simplex has means 1/n, variances (n − 1)/(n² (n + 1)) and covariances
/// −1/(n² (n + 1)).
#[test]
fn samples_of_the_simplex_have_the_moments_of_the_uniform_distribution() {
    for n in [2, 3, 6, 20] {
        let n_points = if n == 20 { 2000 } else { 8000 };
        let points = simplex(n).sample(n_points, 5);
        let size = n as f64;
        let variance = (size - 1.0) / (size * size * (size + 1.0));
        let mean = |f: &dyn Fn(&[f64]) -> f64| points.rows().map(f).sum::<f64>() / n_points as f64;
        // Five standard errors of independent points.
        let error = 5.0 * (variance / n_points as f64).sqrt();
        for i in 0..n {
            let j = (i + 1) % n;
            assert!((mean(&|z| z[i]) - 1.0 / size).abs() < error, "n = {n}");
            let square = mean(&|z| (z[i] - 1.0 / size).powi(2));
            assert!((square / variance - 1.0).abs() < 15.0 / (n_points as f64).sqrt(), "n = {n}");
            let product = mean(&|z| (z[i] - 1.0 / size) * (z[j] - 1.0 / size));
            let expected = -1.0 / (size * size * (size + 1.0));
            assert!((product - expected).abs() < 6.0 * variance / (n_points as f64).sqrt());
        }
        // Consecutive points are close to independent.
        let rows: Vec<&[f64]> = points.rows().collect();
        let lagged: f64 =
            rows.windows(2).map(|w| (w[0][0] - 1.0 / size) * (w[1][0] - 1.0 / size)).sum();
        let correlation = lagged / (n_points as f64 * variance);
        assert!(correlation.abs() < 0.1, "n = {n}: {correlation}");
    }
}

#[test]
fn samples_are_feasible_reproducible_and_spread_also_in_thin_polytopes() {
    let mut random = SplitMix(4);
    for case in 0..1000 {
        let rows = Case::draw(&mut random, 12);
        let polytope = rows.polytope();
        let points = polytope.sample(5, case);
        assert!(points.rows().all(|z| rows.violation(z) <= FEASIBLE), "case {case}");
        assert_eq!(points, polytope.sample(5, case));
        assert!(polytope.n_free() == 0 || points != polytope.sample(5, case + 1));
    }
    // |x − y| ≤ 10⁻⁶: the mean of x is 1/2, its variance 1/12.
    let thin = vec![(vec![1.0, -1.0, 0.0], 1e-6), (vec![-1.0, 1.0, 0.0], 1e-6)];
    let polytope = Polytope::new(3, thin, vec![]).unwrap();
    assert_eq!(polytope.n_free(), 3);
    let points = polytope.sample(4000, 1);
    let mean = |f: &dyn Fn(&[f64]) -> f64| points.rows().map(f).sum::<f64>() / 4000.0;
    assert!((mean(&|z| z[0]) - 0.5).abs() < 0.03);
    assert!((mean(&|z| (z[0] - 0.5).powi(2)) * 12.0 - 1.0).abs() < 0.1);
    assert!((mean(&|z| ((z[0] - z[1]) * 1e6).powi(2)) * 3.0 - 1.0).abs() < 0.1);
}

#[test]
fn a_mixture_of_twenty_bounded_shares_is_sampled_evenly() {
    let mut at_most = Vec::new();
    for i in 0..20 {
        let mut row = vec![0.0; 20];
        row[i] = 1.0;
        at_most.push((row, 0.08));
    }
    let mixture = Polytope::new(20, at_most, vec![(vec![1.0; 20], 1.0)]).unwrap();
    assert_eq!(mixture.n_free(), 19);
    let points = mixture.sample(1000, 2);
    for i in 0..20 {
        let mean = points.rows().map(|z| z[i]).sum::<f64>() / 1000.0;
        // The standard deviation of a share is below 0.08/√12 = 0.023.
        assert!((mean - 0.05).abs() < 5.0 * 0.023 / 1000.0_f64.sqrt(), "{mean}");
    }
    let shares = mixture.project(&[1.0; 20]);
    assert!(distance(&shares, &[0.05; 20]) < 1e-12);
}

#[test]
fn fifty_variables_and_forty_rows() {
    let mut random = SplitMix(7);
    for _ in 0..10 {
        let inside: Vec<f64> = (0..50).map(|_| random.uniform()).collect();
        let mut rows = || {
            let a: Vec<f64> = (0..50).map(|_| normal(&mut random)).collect();
            let b = dot(&a, &inside);
            (a, b)
        };
        let equal: Vec<_> = (0..5).map(|_| rows()).collect();
        let at_most: Vec<_> = (0..40).map(|_| rows()).map(|(a, b)| (a, b + 0.05)).collect();
        let case = Case { n: 50, inside, at_most, equal };
        let polytope = case.polytope();
        assert_eq!(polytope.n_free(), 45);
        let z: Vec<f64> = (0..50).map(|_| 0.5 + normal(&mut random)).collect();
        let found = polytope.project(&z);
        let outwards: Vec<f64> = z.iter().zip(&found).map(|(z, x)| z - x).collect();
        assert!(case.violation(&found) <= FEASIBLE);
        assert!(case.distance_to_normal_cone(&found, &outwards) < 1e-6);
        assert!(polytope.sample(2, 1).rows().all(|z| case.violation(z) <= FEASIBLE));
        let function = quadratic(&mut random, 50);
        let found = polytope.maximize(&function, &z, &tight()).unwrap();
        let mut gradient = vec![0.0; 50];
        function(&found.x, &mut gradient);
        assert!(case.violation(&found.x) <= FEASIBLE);
        assert!(case.distance_to_normal_cone(&found.x, &gradient) < 1e-5);
    }
}

/// −½ (x − c)ᵀ A (x − c) with A = Mᵀ M + 0.05 I.
fn quadratic(random: &mut SplitMix, n: usize) -> impl Fn(&[f64], &mut [f64]) -> f64 + use<> {
    let m: Vec<Vec<f64>> = (0..n).map(|_| (0..n).map(|_| normal(random)).collect()).collect();
    let centre: Vec<f64> = (0..n).map(|_| 0.5 + normal(random)).collect();
    move |x, gradient| {
        let z: Vec<f64> = x.iter().zip(&centre).map(|(x, c)| x - c).collect();
        for (g, z) in gradient.iter_mut().zip(&z) {
            *g = -0.05 * z;
        }
        for row in &m {
            let product = dot(row, &z);
            quadratic::add(gradient, -product, row);
        }
        0.5 * dot(gradient, &z)
    }
}

#[test]
fn maxima_of_concave_quadratics_satisfy_the_kkt_conditions() {
    let mut random = SplitMix(5);
    let mut n_evaluations = 0;
    for case in 0..1500 {
        let rows = Case::draw(&mut random, 12);
        let polytope = rows.polytope();
        let function = quadratic(&mut random, rows.n);
        let start: Vec<f64> = (0..rows.n).map(|_| random.uniform()).collect();
        let checked = |x: &[f64], gradient: &mut [f64]| {
            assert!(rows.violation(x) <= FEASIBLE);
            function(x, gradient)
        };
        let found = polytope.maximize(checked, &start, &tight()).unwrap();
        n_evaluations += found.n_evaluations;
        let mut gradient = vec![0.0; rows.n];
        assert_eq!(function(&found.x, &mut gradient).to_bits(), found.value.to_bits());
        if polytope.n_free() > 0 {
            let length = dot(&gradient, &gradient).sqrt();
            let residual = rows.distance_to_normal_cone(&found.x, &gradient) * length;
            let limit = 1e-6 * (1.0 + found.value.abs());
            assert!(residual < limit, "case {case}, n = {}: {residual}", rows.n);
        }
    }
    assert!(n_evaluations < 1500 * 40, "{n_evaluations}");
}

#[test]
fn a_linear_function_is_maximal_at_a_vertex() {
    let slopes = [0.3, -1.0, 0.7, 0.69999];
    let linear = |x: &[f64], gradient: &mut [f64]| {
        gradient.copy_from_slice(&slopes);
        dot(x, &slopes)
    };
    let start = simplex(4).sample(1, 1);
    let found = simplex(4).maximize(linear, start.row(0), &tight()).unwrap();
    assert!(distance(&found.x, &[0.0, 0.0, 1.0, 0.0]) < 1e-8, "{found:?}");
}

/// −Σ 100 (x_{i+1} − x_i²)² + (½ − x_i)²
fn rosenbrock(x: &[f64], gradient: &mut [f64]) -> f64 {
    gradient.fill(0.0);
    let mut value = 0.0;
    for i in 0..x.len() - 1 {
        let (a, b) = (x[i + 1] - x[i] * x[i], 0.5 - x[i]);
        value -= 100.0 * a * a + b * b;
        gradient[i] += 400.0 * a * x[i] + 2.0 * b;
        gradient[i + 1] -= 200.0 * a;
    }
    value
}

#[test]
fn the_maximum_of_rosenbrock_on_a_simplex_is_above_a_fine_grid() {
    const N: usize = 1000;
    let mut gradient = [0.0; 3];
    let mut best = (f64::NEG_INFINITY, [0.0; 3]);
    for i in 0..=N {
        for j in 0..=N - i {
            let x = [i, j, N - i - j].map(|share| share as f64 / N as f64);
            let value = rosenbrock(&x, &mut gradient);
            if value > best.0 {
                best = (value, x);
            }
        }
    }
    let polytope = simplex(3);
    let starts = polytope.sample(10, 3);
    let ends = starts.rows().map(|start| polytope.maximize(rosenbrock, start, &tight()).unwrap());
    let found = ends.max_by(|a, b| a.value.total_cmp(&b.value)).unwrap();
    assert!(found.value >= best.0 && found.value < best.0 + 1e-3, "{found:?} {best:?}");
    assert!(distance(&found.x, &best.1) < 0.01, "{found:?} {best:?}");
}

#[test]
fn the_end_is_finite_and_no_worse_than_the_start() {
    let mut random = SplitMix(6);
    let mut n_refused = 0;
    for seed in 0..400 {
        let rows = Case::draw(&mut random, 8);
        let polytope = rows.polytope();
        let inner = Cosines::draw(rows.n, 0.3, seed);
        let function = HalfNan { inner, cut: 0.4 + 0.6 * random.uniform() };
        let start = polytope.sample(1, seed);
        let mut gradient = vec![0.0; rows.n];
        let at_start = function.value_gradient(&polytope.project(start.row(0)), &mut gradient);
        let search = |x: &[f64], g: &mut [f64]| function.value_gradient(x, g);
        match polytope.maximize(search, start.row(0), &LbfgsbOptions::default()) {
            Ok(found) => {
                assert!(found.value.is_finite() && found.value >= at_start);
                assert!(rows.violation(&found.x) <= FEASIBLE);
            }
            Err(error) => {
                n_refused += 1;
                assert!(!at_start.is_finite());
                assert_eq!(error, OptimError::NoFiniteValue { n_evaluated: 1 });
            }
        }
    }
    assert!(n_refused > 20 && n_refused < 300, "{n_refused}");
}

#[test]
fn a_wall_of_nan_on_a_face_is_climbed_up_to() {
    // Where x₀ > 0.6 there is no value, and the maximum of the rest is at the wall.
    let walled = |x: &[f64], gradient: &mut [f64]| {
        gradient.copy_from_slice(&[
            if x[0] > 0.6 { f64::NAN } else { 2.0 * (1.0 - x[0]) },
            0.0,
            0.0,
        ]);
        -(1.0 - x[0]).powi(2)
    };
    let found = simplex(3).maximize(walled, &[0.1, 0.4, 0.5], &tight()).unwrap();
    assert!(found.x[0] <= 0.6 && found.x[0] > 0.599, "{found:?}");
}
