//! Functions on the box with minimum 0 at a known point: the formulas behind the suite's names.
//!
//! Numbers f1 to f24 are those of Hansen, Finck, Ros and Auger (2009), "Real-parameter black-box
//! optimization benchmarking 2009: noiseless functions definitions", INRIA research report RR-6829.
//! In contrast to that report, optima can be anywhere in the box, and there is no penalty outside
//! it.

use std::f64::consts::{PI, TAU};

use fedbo_streams::Stream;

use super::BOX;
use super::gp_sample::{GpSample, Smoothness};
use super::transform::{Rotation, asymmetry, conditioning, dot, oscillation, place};

/// Number of points for estimating the typical value, which is the median.
const N_TYPICAL: usize = 1001;
/// Number of peaks of [`Form::Peaks`].
const N_PEAKS: usize = 21;
/// Number of terms of the Weierstrass function.
const N_WAVES: i32 = 12;
/// Centre of the better funnel of [`Form::DoubleFunnel`] in its own coordinates.
const FUNNEL: f64 = 2.5;

/// A formula, with the point x, the minimizer x*, random rotations R and Q, and the diagonal matrix
/// Λ^α with entries from 1 to √α.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    /// Σ z_i², z = x − x* (f1).
    Sphere,
    /// Σ α^(i/(d − 1)) z_i², z = T_osz(R (x − x*)), log10 α uniform between the two numbers (f10).
    Ellipsoid {
        /// Smallest and largest log10 α.
        exponents: [f64; 2],
    },
    /// √(Σ |z_i|^(2 + 4i/(d − 1))), z = R (x − x*) (f14).
    DifferentPowers,
    /// T_osz(Σ (s_i z_i)²)^0.9, z = Q Λ^10 R (x − x*), s_i = 100 if z_i x*_i > 0 and 1 otherwise
    /// (f6).
    AttractiveSector,
    /// z_1² + 100 √(Σ_{i>1} z_i²), z = Q Λ^10 R (x − x*) (f13).
    SharpRidge,
    /// Σ 100 (z_i² − z_{i+1})² + (z_i − 1)², z = max(1, √d/8) (x − x*) + 1, rotated by R or not (f8, f9).
    Valley {
        /// True if x − x* is rotated.
        is_rotated: bool,
    },
    /// max(|ẑ_1|/10⁴, Σ 100^(i/(d − 1)) z_i²)/10, ẑ = Λ^10 R (x − x*), z = Q of ẑ rounded: to whole
    /// numbers if |ẑ_i| > 0.5, to tenths otherwise (f7).
    StepEllipsoid,
    /// Σ 10^(i/(d − 1)) z_i² + Σ_k J_k [u_k·(x − x*) > b_k], z = R (x − x*): 2d half-spaces with random directions u_k, distances
    /// b_k ~ U(0.5, 4) and heights J_k ~ 10 d U(0.2, 0.8); none contains x*.
    Cliffs,
    /// 10 (d − Σ cos 2πz_i) + |z|², z = R Λ^10 Q T_asy(T_osz(R (x − x*))), β = 0.2 (f15).
    Rastrigin,
    /// ((d − 1)⁻¹ Σ √s_i (1 + sin²(50 s_i^0.2)))², s_i = √(z_i² + z_{i+1}²), z = Λ^10 Q T_asy(R (x − x*)), β = 0.5 (f17).
    Schaffer,
    /// 10/(d − 1) Σ (s_i/4000 − cos s_i) + 10, with the terms s_i of the valley, rotated (f19).
    GriewankValley,
    /// 10 (d⁻¹ Σ_i Σ_k 2⁻ᵏ cos(2π 3ᵏ (z_i + ½)) − f0)³, f0 = Σ_k 2⁻ᵏ cos π3ᵏ, z = R Λ^0.01 Q T_osz(R (x − x*)) (f16).
    Weierstrass,
    /// T_osz(10 − max_k w_k exp(−(x − y_k)ᵀ Rᵀ C_k R (x − y_k)/(2d)))², with 21 peaks y_k: x* has
    /// height w = 10 and the others 1.1 to 9.1 (f21 and f22).
    Peaks,
    /// min(Σ (x̂_i − µ)², d + s Σ (x̂_i − µ')²) + 10 (d − Σ cos 2πz_i), µ = 2.5, s = 1 − 1/(2√(d + 20) − 8.2), µ' = −√((µ² − 1)/s),
    /// x̂_i = µ + 2 sign(x*_i) (x_i − x*_i), z = Q Λ^100 R (x̂ − µ). The wider funnel is not the
    /// better one (f24).
    DoubleFunnel,
    /// A draw of a GP minus its minimum. See [`GpSample`].
    GpSample(Smoothness),
}

/// A form with its random parts. The value is 0 at `optimum` and 1 at a typical point.
#[derive(Clone, Debug)]
pub(super) struct Landscape {
    form: Form,
    /// The coordinates of the box that have an effect.
    active: Vec<usize>,
    /// x*, in the active coordinates.
    optimum: Vec<f64>,
    /// R and Q.
    rotations: [Rotation; 2],
    parts: Parts,
    /// Median over the box.
    typical: f64,
}

/// Random parts of particular forms.
#[derive(Clone, Debug)]
enum Parts {
    None,
    /// α.
    Conditioning(f64),
    Peaks(Vec<Peak>),
    Cliffs(Vec<Cliff>),
    GpSample(GpSample),
}

#[derive(Clone, Debug)]
struct Peak {
    /// R y.
    rotated: Vec<f64>,
    height: f64,
    /// The diagonal of C.
    form: Vec<f64>,
}

#[derive(Clone, Debug)]
struct Cliff {
    direction: Vec<f64>,
    distance: f64,
    height: f64,
}

impl Landscape {
    /// Draws a landscape over the coordinates `active` with its minimum at `optimum`, which has one
    /// number per active coordinate. The minimum of a GP draw is at a random point instead.
    pub(super) fn draw(
        form: Form,
        active: Vec<usize>,
        optimum: Vec<f64>,
        stream: &mut Stream,
    ) -> Self {
        let d = active.len();
        let mut optimum = optimum;
        let rotations = if form == (Form::Valley { is_rotated: false }) || form == Form::Sphere {
            [Rotation::identity(d), Rotation::identity(d)]
        } else {
            [Rotation::draw(d, stream), Rotation::draw(d, stream)]
        };
        let parts = match form {
            Form::Ellipsoid { exponents: [low, high] } => {
                Parts::Conditioning(10_f64.powf(low + (high - low) * stream.uniform()))
            }
            Form::Peaks => Parts::Peaks(peaks(&optimum, &rotations[0], stream)),
            Form::Cliffs => Parts::Cliffs((0..2 * d).map(|_| Cliff::draw(d, stream)).collect()),
            Form::GpSample(smoothness) => {
                let (sample, minimiser) = GpSample::draw(d, smoothness, stream);
                optimum = minimiser;
                Parts::GpSample(sample)
            }
            _ => Parts::None,
        };
        let mut drawn = Self { form, active, optimum, rotations, parts, typical: 1.0 };
        let mut values: Vec<f64> = (0..N_TYPICAL)
            .map(|_| {
                let x: Vec<f64> =
                    (0..d).map(|_| BOX[0] + (BOX[1] - BOX[0]) * stream.uniform()).collect();
                drawn.raw(&x)
            })
            .collect();
        values.sort_by(f64::total_cmp);
        drawn.typical = values[N_TYPICAL / 2];
        drawn
    }

    /// Returns x* in the active coordinates.
    pub(super) fn optimum(&self) -> &[f64] {
        &self.optimum
    }

    /// Returns the coordinates that have an effect.
    pub(super) fn active(&self) -> &[usize] {
        &self.active
    }

    /// Returns the value at a point of the box.
    pub(super) fn value(&self, x: &[f64]) -> f64 {
        let own: Vec<f64> = self.active.iter().map(|i| x[*i]).collect();
        self.raw(&own) / self.typical
    }

    fn raw(&self, x: &[f64]) -> f64 {
        let d = x.len();
        let offset: Vec<f64> = x.iter().zip(&self.optimum).map(|(x, o)| x - o).collect();
        let [r, q] = &self.rotations;
        // Q Λ^α R (x − x*).
        let conditioned = |alpha: f64| q.times(&stretched(r.times(&offset), alpha));
        match (self.form, &self.parts) {
            (Form::GpSample(_), Parts::GpSample(sample)) => sample.gap(x),
            (Form::Ellipsoid { .. }, Parts::Conditioning(alpha)) => {
                let z = r.times(&offset).into_iter().map(oscillation);
                form_of(z, *alpha)
            }
            (Form::Peaks, Parts::Peaks(peaks)) => {
                let rotated = r.times(x);
                let heights = peaks.iter().map(|peak| peak.at(&rotated));
                oscillation(10.0 - heights.fold(0.0, f64::max)).powi(2)
            }
            (Form::Cliffs, Parts::Cliffs(cliffs)) => {
                let jumps: f64 = cliffs.iter().map(|cliff| cliff.at(&offset)).sum();
                form_of(r.times(&offset), 10.0) + jumps
            }
            (Form::DifferentPowers, _) => {
                let z = r.times(&offset);
                let power = |(i, z): (usize, f64)| z.abs().powf(2.0 + 4.0 * place(i, d));
                z.into_iter().enumerate().map(power).sum::<f64>().sqrt()
            }
            (Form::AttractiveSector, _) => {
                let z = conditioned(10.0);
                let slopes = z.iter().zip(&self.optimum);
                let scaled = slopes.map(|(z, o)| if z * o > 0.0 { 100.0 * z } else { *z });
                oscillation(scaled.map(|z| z * z).sum()).powf(0.9)
            }
            (Form::SharpRidge, _) => {
                let z = conditioned(10.0);
                z[0] * z[0] + 100.0 * dot(&z[1..], &z[1..]).sqrt()
            }
            (Form::Valley { .. }, _) => {
                valley_terms(&r.times(&offset)).map(|(bend, left)| 100.0 * bend + left).sum()
            }
            (Form::GriewankValley, _) => {
                let wave = |(bend, left): (f64, f64)| {
                    let s = 100.0 * bend + left;
                    s / 4000.0 + 1.0 - s.cos()
                };
                let sum: f64 = valley_terms(&r.times(&offset)).map(wave).sum();
                10.0 * sum / (d - 1) as f64
            }
            (Form::StepEllipsoid, _) => {
                let stepped = stretched(r.times(&offset), 10.0);
                let first = stepped[0].abs();
                let rounded: Vec<f64> = stepped
                    .into_iter()
                    .map(|z| if z.abs() > 0.5 { z.round() } else { (10.0 * z).round() / 10.0 })
                    .collect();
                0.1 * form_of(q.times(&rounded), 100.0).max(first / 1e4)
            }
            (Form::Rastrigin, _) => {
                let z = r.times(&offset).into_iter().map(oscillation).enumerate();
                let z: Vec<f64> = z.map(|(i, z)| asymmetry(z, 0.2, i, d)).collect();
                let z = r.times(&stretched(q.times(&z), 10.0));
                waves(&z) + dot(&z, &z)
            }
            (Form::Schaffer, _) => {
                let z = r.times(&offset).into_iter().enumerate();
                let z: Vec<f64> = z.map(|(i, z)| asymmetry(z, 0.5, i, d)).collect();
                let z = stretched(q.times(&z), 10.0);
                let term = |pair: &[f64]| {
                    let s = pair[0].hypot(pair[1]);
                    s.sqrt() * (1.0 + (50.0 * s.powf(0.2)).sin().powi(2))
                };
                (z.windows(2).map(term).sum::<f64>() / (d - 1) as f64).powi(2)
            }
            (Form::Weierstrass, _) => {
                let z: Vec<f64> = r.times(&offset).into_iter().map(oscillation).collect();
                let z = r.times(&stretched(q.times(&z), 0.01));
                // cos(2π 3ᵏ (z + ½)) − cos(π 3ᵏ) = 1 − cos(2π 3ᵏ z), because 3ᵏ is odd. No digits
                // are lost near the minimum.
                let wave = |z: &f64| -> f64 {
                    let term = |k: i32| (1.0 - (TAU * 3_f64.powi(k) * z).cos()) / 2_f64.powi(k);
                    (0..N_WAVES).map(term).sum()
                };
                10.0 * (z.iter().map(wave).sum::<f64>() / d as f64).powi(3)
            }
            (Form::DoubleFunnel, _) => {
                let towards = |o: &f64| if *o < 0.0 { -2.0 } else { 2.0 };
                let from_best: Vec<f64> =
                    offset.iter().zip(&self.optimum).map(|(x, o)| towards(o) * x).collect();
                let s = 1.0 - 1.0 / (2.0 * (d as f64 + 20.0).sqrt() - 8.2);
                let other = -((FUNNEL * FUNNEL - 1.0) / s).sqrt();
                let from_other: f64 = from_best.iter().map(|x| (x + FUNNEL - other).powi(2)).sum();
                let funnels = dot(&from_best, &from_best).min(d as f64 + s * from_other);
                funnels + waves(&q.times(&stretched(r.times(&from_best), 100.0)))
            }
            // The sphere. Other combinations of a form and parts are never drawn.
            _ => dot(&offset, &offset),
        }
    }
}

/// Returns Λ^α z.
fn stretched(mut z: Vec<f64>, alpha: f64) -> Vec<f64> {
    let d = z.len();
    z.iter_mut().enumerate().for_each(|(i, z)| *z *= conditioning(alpha, i, d));
    z
}

/// Returns Σ α^(i/(d − 1)) z_i² = |Λ^α z|².
fn form_of(z: impl IntoIterator<Item = f64>, alpha: f64) -> f64 {
    let z = stretched(z.into_iter().collect(), alpha);
    dot(&z, &z)
}

/// Computes 10 (d − Σ cos 2πz_i) as 20 Σ sin² πz_i, which keeps its digits near 0.
fn waves(z: &[f64]) -> f64 {
    20.0 * z.iter().map(|z| (PI * z).sin().powi(2)).sum::<f64>()
}

/// Returns (z_i² − z_{i+1})² and (z_i − 1)² for z = max(1, √d/8) v + 1, computed from v so that no
/// digits are lost near the minimum.
fn valley_terms(v: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    let scale = ((v.len() as f64).sqrt() / 8.0).max(1.0);
    v.windows(2).map(move |pair| {
        let [a, b] = [scale * pair[0], scale * pair[1]];
        ((a * a + 2.0 * a - b).powi(2), a * a)
    })
}

fn peaks(optimum: &[f64], rotation: &Rotation, stream: &mut Stream) -> Vec<Peak> {
    let d = optimum.len();
    // Condition numbers of all peaks except the best, from 1 to 10⁶ in random order.
    let n_others = N_PEAKS - 1;
    let mut numbers: Vec<f64> =
        (0..n_others).map(|k| 1e3_f64.powf(2.0 * place(k, n_others))).collect();
    stream.shuffle(&mut numbers);
    let mut drawn = Vec::with_capacity(N_PEAKS);
    for k in 0..N_PEAKS {
        let (centre, alpha, height) = if k == 0 {
            (optimum.to_vec(), 1e3, 10.0)
        } else {
            let centre = (0..d).map(|_| BOX[0] + (BOX[1] - BOX[0]) * stream.uniform()).collect();
            (centre, numbers[k - 1], 1.1 + 8.0 * place(k - 1, n_others))
        };
        let mut form: Vec<f64> =
            (0..d).map(|i| conditioning(alpha, i, d) / alpha.powf(0.25)).collect();
        stream.shuffle(&mut form);
        drawn.push(Peak { rotated: rotation.times(&centre), height, form });
    }
    drawn
}

impl Peak {
    fn at(&self, rotated: &[f64]) -> f64 {
        let terms = rotated.iter().zip(&self.rotated).zip(&self.form);
        let square: f64 = terms.map(|((x, y), c)| c * (x - y).powi(2)).sum();
        self.height * (-square / (2.0 * self.form.len() as f64)).exp()
    }
}

impl Cliff {
    fn draw(d: usize, stream: &mut Stream) -> Self {
        let mut direction = stream.normals(d);
        let length = dot(&direction, &direction).sqrt();
        direction.iter_mut().for_each(|v| *v /= length);
        let distance = 0.5 + 3.5 * stream.uniform();
        let height = 10.0 * d as f64 * (0.2 + 0.6 * stream.uniform());
        Self { direction, distance, height }
    }

    fn at(&self, offset: &[f64]) -> f64 {
        if dot(&self.direction, offset) > self.distance { self.height } else { 0.0 }
    }
}
