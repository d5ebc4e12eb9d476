//! Privacy claims, complete with everything on which they depend.

use std::fmt;

use super::accountant::{Accountant, AccountantKind, Unproved};
use super::event::{Adjacency, Delta};

/// The guarantee that a claim makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// fedbo's guarantee: integer sensitivity and exact noise.
    Default,
    /// The paper's guarantee, for reproducing its results: the paper's floating-point mechanism and
    /// choice of δ.
    Paper,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Paper => "paper",
        })
    }
}

/// An ε together with everything on which it depends (threat model, section 2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// An upper bound on ε.
    pub epsilon: f64,
    /// The corresponding δ.
    pub delta: f64,
    /// Number of releases covered.
    pub n_releases: u64,
    /// The accountant that computed it.
    pub accountant: AccountantKind,
    /// The adjacency of datasets.
    pub adjacency: Adjacency,
    /// The guarantee that the claim makes.
    pub mode: Mode,
}

/// ε above which a claim gives little protection: e^10 is 22,026.
const WEAK_EPSILON: f64 = 10.0;

impl Claim {
    /// Returns a plain-language warning if ε is so large that the claim gives little protection;
    /// `None` for ε up to 10.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        if self.epsilon <= WEAK_EPSILON {
            return None;
        }
        let epsilon = rounded_up(self.epsilon);
        let digits = self.epsilon / std::f64::consts::LN_10;
        Some(format!(
            "epsilon = {epsilon} protects hardly anybody: a conclusion about a party may be up to \
             e^{epsilon} (about 10^{digits:.0}) times as likely as if it had sent nothing, so \
             releases may give its data away; an epsilon of at most {WEAK_EPSILON} needs more \
             noise (a larger noise_multiplier, a smaller privacy.epsilon), fewer releases or a \
             lower sampling rate"
        ))
    }

    /// Returns the claim that `accountant` proves at `delta`.
    ///
    /// # Errors
    /// If the accountant proves no bound.
    pub fn of(accountant: &dyn Accountant, delta: Delta, mode: Mode) -> Result<Self, Unproved> {
        Ok(Self {
            epsilon: accountant.epsilon(delta)?,
            delta: delta.get(),
            n_releases: accountant.n_releases(),
            accountant: accountant.kind(),
            adjacency: accountant.kind().adjacency(),
            mode,
        })
    }
}

/// Formats the claim on one line, with ε and δ rounded up to six digits.
impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (epsilon, delta) = (rounded_up(self.epsilon), rounded_up(self.delta));
        let Self { n_releases, accountant, adjacency, mode, .. } = self;
        let rounds = if *n_releases == 1 { "round" } else { "rounds" };
        write!(
            f,
            "epsilon = {epsilon} ({adjacency}, delta = {delta}, {n_releases} {rounds}, accountant {accountant}, mode {mode}"
        )?;
        if *mode == Mode::Paper {
            f.write_str(": the paper's guarantee, not that of the default mode")?;
        }
        f.write_str(")")
    }
}

/// Formats `value` with at most six significant digits, rounded up.
fn rounded_up(value: f64) -> String {
    let text = format!("{value:.5e}");
    let mut near: f64 = text.parse().unwrap_or(value);
    if near < value {
        // Add one unit in the last digit.
        let exponent = text.split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok());
        let unit = 10_f64.powi(exponent.unwrap_or(0) - 5);
        near = format!("{:.5e}", near + unit).parse().unwrap_or(value);
    }
    if near == 0.0 || (1e-3..1e15).contains(&near) { near.to_string() } else { format!("{near:e}") }
}
