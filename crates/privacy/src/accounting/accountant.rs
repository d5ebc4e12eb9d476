//! The interface of all accountants, and the kinds of accountants.

use std::fmt;
use std::str::FromStr;

use super::event::{Adjacency, Delta, InvalidParameter, PrivacyEvent, Sampling};
use super::{FixedSizeAccountant, MomentsAccountant, PldAccountant, RenyiAccountant};

/// Composes the events of a study, in any order, and says what they cost together.
///
/// Events may be chosen adaptively: what a round releases may depend on all that was released before.
pub trait Accountant {
    /// Returns its kind.
    fn kind(&self) -> AccountantKind;

    /// Adds `count` releases of `event`.
    ///
    /// # Errors
    /// If nothing is proved about such an event, or there are too many; then nothing was added.
    fn compose(&mut self, event: &PrivacyEvent, count: u64) -> Result<(), UnsupportedEvent>;

    /// Releases composed so far.
    fn n_releases(&self) -> u64;

    /// An upper bound on ε at this δ, rounded up; 0 before the first release.
    ///
    /// # Errors
    /// If no finite ε is proved.
    fn epsilon(&self, delta: Delta) -> Result<f64, Unproved>;

    /// An upper bound on δ at this ε ≥ 0, rounded up and at most 1; 0 before the first release.
    ///
    /// # Errors
    /// If `epsilon` is negative or not finite, or nothing is proved.
    fn delta(&self, epsilon: f64) -> Result<f64, Unproved>;
}

/// An event that an accountant proves nothing about.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UnsupportedEvent {
    /// It was derived for another way to sample.
    #[error(
        "the accountant {accountant} proves nothing about {sampling}: use the accountant {instead}"
    )]
    Sampling {
        /// The accountant.
        accountant: AccountantKind,
        /// The sampling of the event, in words.
        sampling: &'static str,
        /// One that takes such events.
        instead: AccountantKind,
    },
    /// The noise or the sample cannot be reduced to what the accountant knows.
    #[error(transparent)]
    Parameter(#[from] InvalidParameter),
    /// The bounds on rounding hold for fewer releases.
    #[error("{found} releases are too many for the accountants: at most {limit}")]
    TooMany {
        /// The number of releases that there would be.
        found: u64,
        /// The largest number of releases.
        limit: u64,
    },
}

/// Nothing is proved at this δ or ε.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unproved {
    /// No finite ε.
    #[error(
        "the accountant {accountant} proves no finite epsilon at delta = {delta:e}: take more noise or fewer rounds"
    )]
    NoFiniteEpsilon {
        /// The accountant.
        accountant: AccountantKind,
        /// The δ.
        delta: f64,
    },
    /// Noise so small that the integrals are not evaluated.
    #[error(
        "noise multiplier = {multiplier} with sampling rate = {rate} is below {limit}, where nothing is worth proving: \
         take more noise"
    )]
    TooLittleNoise {
        /// z.
        multiplier: f64,
        /// q.
        rate: f64,
        /// The smallest z that is evaluated with sampling.
        limit: f64,
    },
    /// An ε that is no ε.
    #[error("epsilon = {0} is not a finite number of at least 0")]
    Epsilon(f64),
}

impl Unproved {
    /// Checks an ε that a caller gave.
    pub(super) fn check(epsilon: f64) -> Result<(), Self> {
        if epsilon.is_finite() && epsilon >= 0.0 { Ok(()) } else { Err(Self::Epsilon(epsilon)) }
    }
}

/// The most releases that are composed: what the bounds on rounding were checked for.
pub(super) const MAX_RELEASES: u64 = 1_000_000_000;

/// `before` releases and `count` more.
pub(super) fn n_releases_after(before: u64, count: u64) -> Result<u64, UnsupportedEvent> {
    let found = before.saturating_add(count);
    if found > MAX_RELEASES {
        let limit = MAX_RELEASES;
        return Err(UnsupportedEvent::TooMany { found, limit });
    }
    Ok(found)
}

/// The accountants by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccountantKind {
    /// Privacy loss distributions, the figure that is reported: [`PldAccountant`].
    Pld,
    /// Rényi divergences at real orders: [`RenyiAccountant`].
    Renyi,
    /// The moments accountant of the paper: [`MomentsAccountant`].
    Moments,
    /// Samples of a fixed size, replace-one neighbours: [`FixedSizeAccountant`].
    FixedSize,
}

impl AccountantKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pld, Self::Renyi, Self::Moments, Self::FixedSize];

    /// Its name, as it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pld => "pld",
            Self::Renyi => "renyi",
            Self::Moments => "moments",
            Self::FixedSize => "fixed-size",
        }
    }

    /// Returns the relation that makes two datasets neighbours in its claims.
    pub fn adjacency(self) -> Adjacency {
        match self {
            Self::Pld | Self::Renyi | Self::Moments => Adjacency::ZeroOut,
            Self::FixedSize => Adjacency::ReplaceOne,
        }
    }

    /// A new one, before the first release.
    pub fn accountant(self) -> Box<dyn Accountant + Send + Sync> {
        match self {
            Self::Pld => Box::new(PldAccountant::new()),
            Self::Renyi => Box::new(RenyiAccountant::new()),
            Self::Moments => Box::new(MomentsAccountant::new()),
            Self::FixedSize => Box::new(FixedSizeAccountant::new()),
        }
    }

    /// The refusal of a way to sample.
    pub(super) fn refuses(self, sampling: &Sampling) -> UnsupportedEvent {
        let (sampling, instead) = match sampling {
            Sampling::Poisson(_) => ("independent coins (Poisson sampling)", Self::Pld),
            Sampling::WithoutReplacement { .. } => ("samples of a fixed size", Self::FixedSize),
        };
        UnsupportedEvent::Sampling { accountant: self, sampling, instead }
    }
}

impl fmt::Display for AccountantKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AccountantKind {
    type Err = InvalidParameter;

    fn from_str(text: &str) -> Result<Self, InvalidParameter> {
        match text {
            "pld" => Ok(Self::Pld),
            "renyi" | "rdp" => Ok(Self::Renyi),
            "moments" => Ok(Self::Moments),
            "fixed-size" => Ok(Self::FixedSize),
            _ => Err(super::event::invalid(
                "accountant",
                text,
                "one of pld, renyi (or rdp), moments, fixed-size",
            )),
        }
    }
}
