//! Claims about a study's privacy, always stated in full.

use std::fmt;

use super::accountant::{Accountant, AccountantKind, Unproved};
use super::event::{Adjacency, Delta};

/// The guarantee that a claim states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Ours: integer sensitivity and exact noise.
    Default,
    /// The paper's, for its reproduction: its mechanism on floats and its choice of δ.
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

/// An ε with all that it needs to mean something (threat model, section 2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// An upper bound on ε.
    pub epsilon: f64,
    /// The δ that goes with it.
    pub delta: f64,
    /// Releases that it covers.
    pub n_releases: u64,
    /// The accountant that computed it.
    pub accountant: AccountantKind,
    /// The relation that makes two datasets neighbours.
    pub adjacency: Adjacency,
    /// The guarantee that it states.
    pub mode: Mode,
}

impl Claim {
    /// Returns the claim that `accountant` proves at this δ.
    ///
    /// # Errors
    /// If it proves nothing.
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

/// One line; ε and δ with six digits, rounded up.
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

/// At most six digits that matter, never less than the value.
fn rounded_up(value: f64) -> String {
    let text = format!("{value:.5e}");
    let mut near: f64 = text.parse().unwrap_or(value);
    if near < value {
        // One more in the last digit.
        let exponent = text.split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok());
        let unit = 10_f64.powi(exponent.unwrap_or(0) - 5);
        near = format!("{:.5e}", near + unit).parse().unwrap_or(value);
    }
    if near == 0.0 || (1e-3..1e15).contains(&near) { near.to_string() } else { format!("{near:e}") }
}
