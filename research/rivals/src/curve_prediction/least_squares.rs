//! Least-squares fits of single curves, at which the sampler's walkers start.

use fedbo_streams::Stream;

use super::curves::{Epochs, Family, Parameter};

/// Maximum number of parameters of a family.
const MAX: usize = 4;
/// Number of steps of a fit.
const N_STEPS: usize = 20;

type Square = [[f64; MAX]; MAX];

/// A family's best fit to the first n epochs, in coordinates that range from 0 to 1 within the
/// parameters' bounds.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    family: Family,
    place: [f64; MAX],
    /// JᵀJ at the fit.
    curvature: Square,
    /// Σ (y − f)².
    pub(super) squares: f64,
}

impl Fit {
    /// Runs Levenberg–Marquardt in the box of the family's parameters (Nocedal & Wright 2006,
    /// section 10.3).
    ///
    /// The steps (JᵀJ + λ diag(JᵀJ))⁻¹ Jᵀ(y − f) are clipped at the bounds. λ decreases after a
    /// success and increases after a failure. J is computed by finite differences. Returns `None`
    /// if the family is not finite at the start.
    pub(super) fn new(family: Family, epochs: &Epochs, y: &[f64]) -> Option<Self> {
        let dim = family.parameters().len();
        let mut problem = Problem { family, epochs, y, values: vec![0.0; epochs.len()] };
        let mut place = [0.0; MAX];
        for (place, parameter) in place.iter_mut().zip(family.parameters()) {
            *place = into_unit(parameter, parameter.start);
        }
        let mut residuals = problem.residuals(&place)?;
        let mut squares = sum_of_squares(&residuals);
        let mut damping = 1e-2;
        let mut slopes = problem.slopes(&place, &residuals)?;
        for _ in 0..N_STEPS {
            let (curvature, ascent) = normal_equations(&slopes, &residuals);
            let mut damped = curvature;
            for (j, row) in damped.iter_mut().enumerate().take(dim) {
                row[j] += damping * (curvature[j][j] + 1e-9);
            }
            let mut next = place;
            if let Some(factor) = Factor::new(damped, dim) {
                for (next, step) in next.iter_mut().zip(factor.solve(ascent)).take(dim) {
                    *next = (*next + step).clamp(0.0, 1.0);
                }
            }
            let tried = problem.residuals(&next);
            match tried.map(|tried| (sum_of_squares(&tried), tried)) {
                Some((lower, tried)) if lower < squares => {
                    let gain = squares - lower;
                    (place, squares, residuals) = (next, lower, tried);
                    damping *= 0.2;
                    slopes = problem.slopes(&place, &residuals)?;
                    if gain < 1e-8 * squares {
                        break;
                    }
                }
                _ => damping *= 8.0,
            }
        }
        Some(Self { family, place, curvature: normal_equations(&slopes, &residuals).0, squares })
    }

    /// Draws parameters around the fit: N(fit, (JᵀJ/σ² + 12 I)⁻¹) in unit coordinates, reflected at
    /// the bounds. 12 is the precision of the uniform prior.
    pub(super) fn draw(&self, noise_std: f64, stream: &mut Stream) -> Vec<f64> {
        let parameters = self.family.parameters();
        let dim = parameters.len();
        let mut precision = self.curvature;
        for (j, row) in precision.iter_mut().enumerate() {
            for entry in row.iter_mut() {
                *entry /= noise_std * noise_std;
            }
            row[j] += 12.0;
        }
        let mut normals = [0.0; MAX];
        for normal in normals.iter_mut().take(dim) {
            *normal = stream.normal();
        }
        let offsets = match Factor::new(precision, dim) {
            Some(factor) => factor.solve_transposed(normals),
            None => [0.0; MAX],
        };
        parameters
            .iter()
            .zip(self.place.iter().zip(offsets))
            .map(|(parameter, (place, offset))| {
                let (lower, upper) = parameter.bounds;
                lower + (upper - lower) * folded(place + offset)
            })
            .collect()
    }
}

/// Folds a number into `[0, 1]` by reflection at 0 and 1.
fn folded(t: f64) -> f64 {
    let t = t.rem_euclid(2.0);
    if t > 1.0 { 2.0 - t } else { t }
}

fn into_unit(parameter: &Parameter, value: f64) -> f64 {
    let (lower, upper) = parameter.bounds;
    (value - lower) / (upper - lower)
}

fn sum_of_squares(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum()
}

struct Problem<'a> {
    family: Family,
    epochs: &'a Epochs,
    y: &'a [f64],
    values: Vec<f64>,
}

impl Problem<'_> {
    /// Returns y − f, or `None` if a value is not finite.
    fn residuals(&mut self, place: &[f64; MAX]) -> Option<Vec<f64>> {
        let mut raw = [0.0; MAX];
        let parameters = self.family.parameters();
        for ((raw, place), parameter) in raw.iter_mut().zip(place).zip(parameters) {
            let (lower, upper) = parameter.bounds;
            *raw = lower + (upper - lower) * place;
        }
        self.family.values(&raw[..parameters.len()], self.epochs, &mut self.values);
        let differences = self.y.iter().zip(&self.values).map(|(y, f)| y - f);
        let differences: Vec<f64> = differences.collect();
        differences.iter().all(|v| v.is_finite()).then_some(differences)
    }

    /// Returns ∂f/∂place by one-sided differences towards the middle of the box. Column j is at
    /// index j.
    fn slopes(&mut self, place: &[f64; MAX], residuals: &[f64]) -> Option<Vec<Vec<f64>>> {
        let mut columns = Vec::with_capacity(MAX);
        for j in 0..self.family.parameters().len() {
            let step = if place[j] < 0.5 { 1e-6 } else { -1e-6 };
            let mut moved = *place;
            moved[j] += step;
            let beside = self.residuals(&moved)?;
            let slopes = residuals.iter().zip(&beside).map(|(r, b)| (r - b) / step);
            columns.push(slopes.collect());
        }
        Some(columns)
    }
}

/// Returns (JᵀJ, Jᵀr).
fn normal_equations(slopes: &[Vec<f64>], residuals: &[f64]) -> (Square, [f64; MAX]) {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let (mut matrix, mut vector) = ([[0.0; MAX]; MAX], [0.0; MAX]);
    for (i, slope) in slopes.iter().enumerate() {
        for (j, other) in slopes.iter().enumerate() {
            matrix[i][j] = dot(slope, other);
        }
        vector[i] = dot(slope, residuals);
    }
    (matrix, vector)
}

/// Cholesky factor L with A = L Lᵀ, for the leading rows and columns of A.
struct Factor {
    lower: Square,
    dim: usize,
}

impl Factor {
    fn new(matrix: Square, dim: usize) -> Option<Self> {
        let mut lower = [[0.0; MAX]; MAX];
        for i in 0..dim {
            for j in 0..=i {
                let inner: f64 = (0..j).map(|k| lower[i][k] * lower[j][k]).sum();
                let rest = matrix[i][j] - inner;
                if i > j {
                    lower[i][j] = rest / lower[j][j];
                } else if rest > 0.0 {
                    lower[i][i] = rest.sqrt();
                } else {
                    return None;
                }
            }
        }
        Some(Self { lower, dim })
    }

    /// Returns A⁻¹ b.
    fn solve(&self, mut b: [f64; MAX]) -> [f64; MAX] {
        for i in 0..self.dim {
            let inner: f64 = (0..i).map(|k| self.lower[i][k] * b[k]).sum();
            b[i] = (b[i] - inner) / self.lower[i][i];
        }
        self.solve_transposed(b)
    }

    /// Returns L⁻ᵀ b.
    fn solve_transposed(&self, mut b: [f64; MAX]) -> [f64; MAX] {
        for i in (0..self.dim).rev() {
            let inner: f64 = (i + 1..self.dim).map(|k| self.lower[k][i] * b[k]).sum();
            b[i] = (b[i] - inner) / self.lower[i][i];
        }
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parameters are well inside the box. The tolerance is 1e-3 at the observed epochs.
    #[test]
    fn a_fit_recovers_a_curve_of_its_own_family() {
        let epochs = Epochs::up_to(30, 50);
        for family in Family::ALL {
            let truth: Vec<f64> = family
                .parameters()
                .iter()
                .map(|p| p.start + 0.03 * (p.bounds.1 - p.bounds.0))
                .collect();
            let mut values = vec![0.0; epochs.len()];
            family.values(&truth, &epochs, &mut values);
            let fit = Fit::new(family, &epochs, &values[..30]).unwrap();
            assert!(fit.squares < 30.0 * 1e-6, "{family:?}: {}", fit.squares);
        }
    }

    #[test]
    fn a_factor_solves() {
        let matrix = [[4.0, 2.0, 0.0, 0.0], [2.0, 5.0, 1.0, 0.0], [0.0, 1.0, 3.0, 0.0], [0.0; 4]];
        let x = Factor::new(matrix, 3).unwrap().solve([8.0, 15.0, 11.0, 0.0]);
        for (found, expected) in x.iter().zip([1.0, 2.0, 3.0]) {
            assert!((found - expected).abs() < 1e-12, "{x:?}");
        }
        assert!(Factor::new([[0.0; 4]; 4], 2).is_none());
    }
}
