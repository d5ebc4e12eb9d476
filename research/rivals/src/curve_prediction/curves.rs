//! The eleven families of learning curves and the bounds of their parameters.

/// One parameter of a family. Scale parameters are represented by their logarithms, so that a
/// uniform prior is the usual scale prior.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameter {
    /// Bounds of the uniform prior.
    pub(super) bounds: (f64, f64),
    /// Start value of a least-squares fit.
    pub(super) start: f64,
}

const fn parameter(lower: f64, upper: f64, start: f64) -> Parameter {
    Parameter { bounds: (lower, upper), start }
}

/// Returns a parameter for the limit of a curve as n → ∞, or for a different level.
const fn level(start: f64) -> Parameter {
    parameter(-1.0, 3.0, start)
}

/// A family of curves over epochs x = 1, 2, … (Domhan et al. 2015, Table 1), for values roughly in
/// `[0, 1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// exp(a + b/x + c ln x).
    VaporPressure,
    /// c − a x^−α.
    Pow3,
    /// ln(a ln x + b).
    LogLogLinear,
    /// θ x^η / (κ^η + x^η), with ln κ.
    Hill3,
    /// a / (1 + (x/eᵇ)^c).
    LogPower,
    /// c − (a x + b)^−α, with ln a.
    Pow4,
    /// α − (α − β) / (1 + (κ x)^δ), with ln κ: Morgan, Mercer and Flodin.
    Mmf,
    /// c − exp(−a x^α + b), with ln a.
    Exp4,
    /// α − (α − β) exp(−κ x^δ), with ln κ.
    Janoschek,
    /// α − (α − β) exp(−(κ x)^δ), with ln κ.
    Weibull,
    /// c − a / ln(x + 1). The table's c − a / ln x has a pole at the first epoch, so we follow the
    /// authors' code.
    Ilog2,
}

impl Family {
    /// All families, in the order of Table 1.
    pub(super) const ALL: [Self; 11] = [
        Self::VaporPressure,
        Self::Pow3,
        Self::LogLogLinear,
        Self::Hill3,
        Self::LogPower,
        Self::Pow4,
        Self::Mmf,
        Self::Exp4,
        Self::Janoschek,
        Self::Weibull,
        Self::Ilog2,
    ];

    /// Returns the parameters, in the order of the formula (asymptote, other levels, scale,
    /// exponent). Start values are the defaults of the authors' code where these are within the
    /// bounds.
    pub(super) fn parameters(self) -> &'static [Parameter] {
        const EXPONENT: (f64, f64) = (0.05, 3.0);
        const fn exponent(start: f64) -> Parameter {
            parameter(EXPONENT.0, EXPONENT.1, start)
        }
        const LOG_SCALE: (f64, f64) = (-5.0, 2.0);
        const fn log_scale(start: f64) -> Parameter {
            parameter(LOG_SCALE.0, LOG_SCALE.1, start)
        }
        match self {
            Self::VaporPressure => {
                const P: [Parameter; 3] = [
                    parameter(-6.0, 1.0, -0.62),
                    parameter(-10.0, 1.0, -0.47),
                    parameter(-0.5, 0.5, 0.042),
                ];
                &P
            }
            Self::Pow3 => {
                const P: [Parameter; 3] = [level(0.84), parameter(-1.0, 4.0, 0.52), exponent(0.3)];
                &P
            }
            Self::LogLogLinear => {
                const P: [Parameter; 2] = [parameter(-0.5, 2.0, 0.23), parameter(0.3, 4.0, 1.0)];
                &P
            }
            Self::Hill3 => {
                const P: [Parameter; 3] = [level(0.77), exponent(0.59), parameter(-6.0, 6.0, 0.9)];
                &P
            }
            Self::LogPower => {
                const P: [Parameter; 3] =
                    [level(0.77), parameter(-6.0, 6.0, 2.98), parameter(-3.0, 0.5, -0.51)];
                &P
            }
            Self::Pow4 => {
                const P: [Parameter; 4] = [
                    level(0.8),
                    parameter(-6.0, 8.0, 2.3),
                    parameter(0.0, 20.0, 0.5),
                    exponent(0.4),
                ];
                &P
            }
            Self::Mmf => {
                const P: [Parameter; 4] = [level(0.7), level(0.1), log_scale(-2.3), exponent(1.0)];
                &P
            }
            Self::Exp4 => {
                const P: [Parameter; 4] =
                    [level(0.7), log_scale(-0.22), parameter(-4.0, 4.0, -0.2), exponent(0.5)];
                &P
            }
            Self::Janoschek | Self::Weibull => {
                const P: [Parameter; 4] =
                    [level(0.73), level(0.07), log_scale(-1.04), exponent(0.7)];
                &P
            }
            Self::Ilog2 => {
                const P: [Parameter; 2] = [level(0.78), parameter(-1.0, 3.0, 0.43)];
                &P
            }
        }
    }

    /// Computes the values at the epochs. Values are not finite where the formula is undefined.
    pub(super) fn values(self, parameters: &[f64], epochs: &Epochs, out: &mut [f64]) {
        let p = parameters;
        let Epochs { x, ln_x, ln_x1 } = epochs;
        match self {
            Self::VaporPressure => fill(out, |i| (p[0] + p[1] / x[i] + p[2] * ln_x[i]).exp()),
            Self::Pow3 => fill(out, |i| p[0] - p[1] * (-p[2] * ln_x[i]).exp()),
            Self::LogLogLinear => fill(out, |i| (p[0] * ln_x[i] + p[1]).ln()),
            Self::Hill3 => fill(out, |i| p[0] / (1.0 + (p[1] * (p[2] - ln_x[i])).exp())),
            Self::LogPower => fill(out, |i| p[0] / (1.0 + (p[2] * (ln_x[i] - p[1])).exp())),
            Self::Pow4 => {
                let a = p[1].exp();
                fill(out, |i| p[0] - (-p[3] * (a * x[i] + p[2]).ln()).exp());
            }
            Self::Mmf => {
                fill(out, |i| p[0] - (p[0] - p[1]) / (1.0 + (p[3] * (p[2] + ln_x[i])).exp()))
            }
            Self::Exp4 => fill(out, |i| p[0] - (p[2] - (p[1] + p[3] * ln_x[i]).exp()).exp()),
            Self::Janoschek => {
                fill(out, |i| p[0] - (p[0] - p[1]) * (-(p[2] + p[3] * ln_x[i]).exp()).exp())
            }
            Self::Weibull => {
                fill(out, |i| p[0] - (p[0] - p[1]) * (-(p[3] * (p[2] + ln_x[i])).exp()).exp())
            }
            Self::Ilog2 => fill(out, |i| p[0] - p[1] / ln_x1[i]),
        }
    }
}

/// Fills `out` with f(0), f(1), ….
fn fill(out: &mut [f64], f: impl Fn(usize) -> f64) {
    for (index, out) in out.iter_mut().enumerate() {
        *out = f(index);
    }
}

/// Epochs at which curves are evaluated, with their logarithms.
#[derive(Clone, Debug)]
pub(super) struct Epochs {
    x: Vec<f64>,
    ln_x: Vec<f64>,
    ln_x1: Vec<f64>,
}

impl Epochs {
    /// Returns the epochs 1, …, n, followed by `last`.
    pub(super) fn up_to(n: usize, last: usize) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "epochs are far below 2^53")]
        let x: Vec<f64> = (1..=n).chain(std::iter::once(last)).map(|epoch| epoch as f64).collect();
        Self {
            ln_x: x.iter().map(|x| x.ln()).collect(),
            ln_x1: x.iter().map(|x| x.ln_1p()).collect(),
            x,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.x.len()
    }
}
