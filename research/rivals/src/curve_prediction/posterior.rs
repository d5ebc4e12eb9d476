//! The posterior of a weighted sum of curves, and Markov chain moves that leave it invariant.

use std::ops::Range;

use fedbo_streams::Stream;

use super::curves::{Epochs, Family};
use super::ensemble_sampler::{Target, stretch};
use super::least_squares::Fit;
use super::truncated_normal::truncated_normal;

/// Maximum weight of a curve.
pub(super) const WEIGHT_MAX: f64 = 1.0;
/// Bounds of σ, relative to the range of values.
pub(super) const NOISE_STD: (f64, f64) = (1e-3, 0.5);
/// Bounds of the final value of a single curve, relative to the range of values.
pub(super) const END: (f64, f64) = (-0.5, 1.5);

/// The unnormalized density of ξ = (θ_1, …, θ_K, w_1, …, w_K, σ) given y_1, …, y_n roughly in
/// `[0, 1]`:
///
/// p(ξ | y) ∝ σ⁻¹ Π_{i ≤ n} N(y_i; f(i), σ²) · 1\[f(1) < f(N)\],   f(x) = Σ_k w_k f_k(x | θ_k),
///
/// for θ_k in their box, and w_k, σ and f_k(N) within the bounds above (Domhan et al. 2015, section
/// 3).
#[derive(Clone, Debug)]
pub(super) struct CurvePosterior<'a> {
    y: &'a [f64],
    families: &'a [Family],
    /// 1, …, n, and N.
    epochs: Epochs,
    /// The curves of the last proposal.
    proposed: Vec<f64>,
    /// The range of each family's parameters among the coordinates.
    blocks: Vec<Range<usize>>,
}

/// State of one walker.
#[derive(Clone, Debug)]
pub(super) struct EnsembleWalker {
    /// θ_1, …, θ_K.
    parameters: Vec<f64>,
    weights: Vec<f64>,
    noise_std: f64,
    /// f_k at all epochs, concatenated.
    curves: Vec<f64>,
    /// y − f at 1, …, n, and −f(N).
    residuals: Vec<f64>,
}

impl EnsembleWalker {
    /// Returns f(N) and σ.
    pub(super) fn end(&self) -> (f64, f64) {
        (-self.residuals[self.residuals.len() - 1], self.noise_std)
    }
}

impl<'a> CurvePosterior<'a> {
    /// Creates the posterior given the values of the first epochs (at least one), N, and the
    /// families.
    pub(super) fn new(y: &'a [f64], n_epochs: usize, families: &'a [Family]) -> Self {
        let epochs = Epochs::up_to(y.len(), n_epochs);
        let mut end = 0;
        let block = |family: &Family| {
            let start = end;
            end += family.parameters().len();
            start..end
        };
        Self {
            y,
            proposed: vec![0.0; epochs.len()],
            epochs,
            blocks: families.iter().map(block).collect(),
            families,
        }
    }

    /// Creates walkers around the least-squares fits of the single curves.
    ///
    /// Parameters are drawn from the fits' normal approximations. Weights have random proportions
    /// that are larger for good fits. σ is the residuals' standard deviation times a random factor
    /// near 1.
    ///
    /// The paper starts all walkers at the fits, with equal weights, and has a burn-in of 500
    /// steps.
    pub(super) fn walkers(&self, n_walkers: usize, stream: &mut Stream) -> Vec<EnsembleWalker> {
        let fits: Vec<Option<Fit>> =
            self.families.iter().map(|family| Fit::new(*family, &self.epochs, self.y)).collect();
        let n = count(self.y.len());
        let variance = |fit: &Fit| fit.squares / n + NOISE_STD.0 * NOISE_STD.0;
        let best = fits.iter().flatten().map(variance).fold(1.0, f64::min);
        (0..n_walkers).map(|_| self.walker(&fits, best.sqrt(), stream)).collect()
    }

    fn walker(&self, fits: &[Option<Fit>], noise_std: f64, stream: &mut Stream) -> EnsembleWalker {
        /// Number of draws of a family's parameters before falling back to its start values.
        const N_DRAWS: usize = 4;
        let (n, width) = (count(self.y.len()), self.epochs.len());
        let mut parameters = Vec::new();
        let mut curves = vec![0.0; fits.len() * width];
        let mut weights = Vec::new();
        for ((family, fit), curve) in
            self.families.iter().zip(fits).zip(curves.chunks_exact_mut(width))
        {
            let drawn = fit.as_ref().and_then(|fit| {
                (0..N_DRAWS).find_map(|_| {
                    let drawn = fit.draw(noise_std, stream);
                    family.values(&drawn, &self.epochs, curve);
                    is_allowed(curve).then_some(drawn)
                })
            });
            let share = match (&drawn, fit) {
                (Some(_), Some(fit)) => noise_std.powi(2) / (fit.squares / n + NOISE_STD.0.powi(2)),
                _ => 0.0,
            };
            weights.push(share * -(1.0 - stream.uniform()).ln());
            parameters.extend(drawn.unwrap_or_else(|| {
                let start = family.parameters().iter().map(|p| p.start).collect::<Vec<_>>();
                family.values(&start, &self.epochs, curve);
                start
            }));
        }
        let total: f64 = weights.iter().sum();
        if total > 0.0 {
            for weight in &mut weights {
                *weight = (*weight / total).min(WEIGHT_MAX);
            }
        }
        let mut walker = EnsembleWalker {
            parameters,
            weights,
            noise_std: (noise_std * (0.3 * stream.normal()).exp()).clamp(NOISE_STD.0, NOISE_STD.1),
            curves,
            residuals: vec![0.0; width],
        };
        self.refresh(&mut walker);
        walker
    }

    /// Recomputes the residuals, because updates accumulate rounding errors in them.
    fn refresh(&self, walker: &mut EnsembleWalker) {
        let width = self.epochs.len();
        walker.residuals[..width - 1].copy_from_slice(self.y);
        walker.residuals[width - 1] = 0.0;
        let curves = walker.curves.chunks_exact(width);
        for (weight, curve) in walker.weights.iter().zip(curves) {
            for (residual, value) in walker.residuals.iter_mut().zip(curve) {
                *residual -= weight * value;
            }
        }
    }

    /// Updates all coordinates of every walker once: the parameters of each curve by [`stretch`],
    /// then weights and σ by draws from their conditional distributions.
    pub(super) fn sweep(&mut self, walkers: &mut [EnsembleWalker], stream: &mut Stream) {
        for family in 0..self.blocks.len() {
            let block = self.blocks[family].clone();
            stretch(self, walkers, &block, stream);
        }
        for walker in walkers {
            self.refresh(walker);
            let n = walker.weights.len();
            for _ in 0..n {
                self.draw_weight(walker, stream.below(n), None, stream);
                let (gains, loses) = (stream.below(n), stream.below(n));
                if gains != loses {
                    self.draw_weight(walker, gains, Some(loses), stream);
                }
            }
            self.draw_noise_std(walker, stream);
        }
    }

    /// Makes a Gibbs step along a direction of weights: w_k + t, and w_j − t if j is given.
    ///
    /// f is linear in t, so t has a truncated normal distribution with mean v·r/v·v and standard
    /// deviation σ/‖v‖, where v = f_k − f_j at the observed epochs and r = y − f.
    fn draw_weight(
        &self,
        walker: &mut EnsembleWalker,
        gains: usize,
        loses: Option<usize>,
        stream: &mut Stream,
    ) {
        let width = self.epochs.len();
        let direction = |index: usize| {
            let other = loses.map_or(0.0, |j| walker.curves[j * width + index]);
            walker.curves[gains * width + index] - other
        };
        let (mut along, mut square) = (0.0, 0.0);
        for (index, residual) in walker.residuals[..width - 1].iter().enumerate() {
            let v = direction(index);
            along += v * residual;
            square += v * v;
        }
        let mut lower = -walker.weights[gains];
        let mut upper = WEIGHT_MAX - walker.weights[gains];
        if let Some(loses) = loses {
            lower = lower.max(walker.weights[loses] - WEIGHT_MAX);
            upper = upper.min(walker.weights[loses]);
        }
        // f(1) < f(N): rise + t (v(N) − v(1)) > 0.
        let rise = self.rise(walker);
        let slope = direction(width - 1) - direction(0);
        let bound = -rise / slope;
        if slope > 0.0 {
            lower = lower.max(bound);
        } else if slope < 0.0 {
            upper = upper.min(bound);
        }
        // A walker that starts outside the bounds stays in place until a move along a different
        // direction leads inside.
        if !(lower < upper && along.is_finite() && square.is_finite()) {
            return;
        }
        let std = walker.noise_std / square.sqrt();
        let mean = if square > 0.0 { along / square } else { 0.0 };
        let step = truncated_normal(mean, std, (lower, upper), stream);
        for index in 0..width {
            let v = {
                let other = loses.map_or(0.0, |j| walker.curves[j * width + index]);
                walker.curves[gains * width + index] - other
            };
            walker.residuals[index] -= step * v;
        }
        walker.weights[gains] = (walker.weights[gains] + step).clamp(0.0, WEIGHT_MAX);
        if let Some(loses) = loses {
            walker.weights[loses] = (walker.weights[loses] - step).clamp(0.0, WEIGHT_MAX);
        }
    }

    /// Makes a Gibbs step of σ: Σ r²/σ² is χ² with n degrees of freedom. Rejects draws outside the
    /// bounds.
    fn draw_noise_std(&self, walker: &mut EnsembleWalker, stream: &mut Stream) {
        let n = self.y.len();
        let squares: f64 = walker.residuals[..n].iter().map(|r| r * r).sum();
        let drawn = (squares / stream.chi_squared(count(n))).sqrt();
        if (NOISE_STD.0..=NOISE_STD.1).contains(&drawn) {
            walker.noise_std = drawn;
        }
    }

    /// Returns f(N) − f(1).
    fn rise(&self, walker: &EnsembleWalker) -> f64 {
        let first = self.y[0] - walker.residuals[0];
        walker.end().0 - first
    }
}

impl Target for CurvePosterior<'_> {
    type State = EnsembleWalker;

    fn coordinates<'a>(&self, state: &'a EnsembleWalker) -> &'a [f64] {
        &state.parameters
    }

    fn gain(&mut self, state: &EnsembleWalker, block: &Range<usize>, proposed: &[f64]) -> f64 {
        let Some(index) = self.blocks.iter().position(|other| other == block) else {
            return f64::NEG_INFINITY;
        };
        let family = self.families[index];
        let inside = proposed.iter().zip(family.parameters()).all(|(v, p)| {
            let (lower, upper) = p.bounds;
            (lower..=upper).contains(v)
        });
        if !inside {
            return f64::NEG_INFINITY;
        }
        family.values(proposed, &self.epochs, &mut self.proposed);
        if !is_allowed(&self.proposed) {
            return f64::NEG_INFINITY;
        }
        let width = self.epochs.len();
        let curve = &state.curves[index * width..(index + 1) * width];
        let weight = state.weights[index];
        let change = |i: usize| weight * (self.proposed[i] - curve[i]);
        if self.rise(state) + change(width - 1) - change(0) <= 0.0 {
            return f64::NEG_INFINITY;
        }
        // Σ r² − Σ (r − c)² = Σ c (2r − c).
        let lost: f64 =
            (0..width - 1).map(|i| change(i) * (2.0 * state.residuals[i] - change(i))).sum();
        0.5 * lost / (state.noise_std * state.noise_std)
    }

    fn accept_proposal(
        &mut self,
        state: &mut EnsembleWalker,
        block: &Range<usize>,
        proposed: &[f64],
    ) {
        let Some(index) = self.blocks.iter().position(|other| other == block) else {
            return;
        };
        state.parameters[block.clone()].copy_from_slice(proposed);
        let width = self.epochs.len();
        let curve = &mut state.curves[index * width..(index + 1) * width];
        let weight = state.weights[index];
        let residuals = state.residuals.iter_mut();
        for ((residual, old), new) in residuals.zip(curve).zip(&self.proposed) {
            *residual -= weight * (new - *old);
            *old = *new;
        }
    }
}

/// Returns true if a single curve is finite and its final value is within the bounds.
fn is_allowed(curve: &[f64]) -> bool {
    curve.iter().all(|value| value.is_finite())
        && curve.last().is_some_and(|end| (END.0..=END.1).contains(end))
}

#[expect(clippy::cast_precision_loss, reason = "epochs are far below 2^53")]
fn count(n: usize) -> f64 {
    n as f64
}
