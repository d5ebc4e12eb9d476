//! The interface that all accountants implement, and the list of accountants.

use std::fmt;
use std::str::FromStr;

use super::event::{Adjacency, Delta, InvalidParameter, PrivacyEvent, Sampling};
use super::{FixedSizeAccountant, MomentsAccountant, PldAccountant, RenyiAccountant};

/// Composes the events of a study, in any order, and bounds their joint cost.
///
/// Events can be chosen adaptively: each release can depend on all earlier ones.
pub trait Accountant {
    /// Returns the accountant's kind.
    fn kind(&self) -> AccountantKind;

    /// Adds `count` releases of `event`.
    ///
    /// # Errors
    /// If the accountant proves no bound for this event, or there are too many releases. Nothing is
    /// added in that case.
    fn compose(&mut self, event: &PrivacyEvent, count: u64) -> Result<(), UnsupportedEvent>;

    /// Returns the number of composed releases.
    fn n_releases(&self) -> u64;

    /// Returns an upper bound on ε at `delta`, rounded up; 0 before the first release.
    ///
    /// # Errors
    /// If no finite ε is proved.
    fn epsilon(&self, delta: Delta) -> Result<f64, Unproved>;

    /// Returns an upper bound on δ at `epsilon` ≥ 0, rounded up and at most 1; 0 before the first
    /// release.
    ///
    /// # Errors
    /// If `epsilon` is negative or not finite, or no bound can be proved.
    fn delta(&self, epsilon: f64) -> Result<f64, Unproved>;
}

/// The error for an event for which the accountant proves no bound.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UnsupportedEvent {
    /// The accountant does not support the event's sampling scheme.
    #[error(
        "the accountant {accountant} does not support {sampling}; use the accountant {instead}"
    )]
    Sampling {
        /// The accountant.
        accountant: AccountantKind,
        /// Description of the event's sampling.
        sampling: &'static str,
        /// An accountant that accepts such events.
        instead: AccountantKind,
    },
    /// The noise or the sample cannot be reduced to a supported form.
    #[error(transparent)]
    Parameter(#[from] InvalidParameter),
    /// The total exceeds the number of releases for which the rounding bounds hold.
    #[error("{found} releases are too many for the accountants, at most {limit}")]
    TooMany {
        /// Number of releases after the addition.
        found: u64,
        /// Maximum number of releases.
        limit: u64,
    },
}

/// The error if no bound can be proved at the given δ or ε.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unproved {
    /// No finite ε can be proved.
    #[error(
        "the accountant {accountant} proves no finite epsilon at delta = {delta:e}; use more noise or fewer rounds"
    )]
    NoFiniteEpsilon {
        /// The accountant.
        accountant: AccountantKind,
        /// The δ.
        delta: f64,
    },
    /// The noise is too small to evaluate the integrals.
    #[error(
        "noise multiplier = {multiplier} with sampling rate = {rate} is below {limit}, where no \
         useful bound exists; use more noise"
    )]
    TooLittleNoise {
        /// z.
        multiplier: f64,
        /// q.
        rate: f64,
        /// The smallest z supported for releases with sampling.
        limit: f64,
    },
    /// The given ε is invalid.
    #[error("epsilon = {0} is not a finite number of at least 0")]
    Epsilon(f64),
}

impl Unproved {
    /// Checks that ε is finite and not negative.
    pub(super) fn check(epsilon: f64) -> Result<(), Self> {
        if epsilon.is_finite() && epsilon >= 0.0 { Ok(()) } else { Err(Self::Epsilon(epsilon)) }
    }
}

/// Maximum number of composed releases. The rounding bounds were checked up to this number.
pub(super) const MAX_RELEASES: u64 = 1_000_000_000;

/// Returns `before + count`, or an error if the total exceeds the maximum.
pub(super) fn n_releases_after(before: u64, count: u64) -> Result<u64, UnsupportedEvent> {
    let found = before.saturating_add(count);
    if found > MAX_RELEASES {
        let limit = MAX_RELEASES;
        return Err(UnsupportedEvent::TooMany { found, limit });
    }
    Ok(found)
}

/// An accountant, by its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccountantKind {
    /// Privacy loss distributions, used for the reported figure: [`PldAccountant`].
    Pld,
    /// Rényi divergences at real orders: [`RenyiAccountant`].
    Renyi,
    /// The moments accountant of the paper: [`MomentsAccountant`].
    Moments,
    /// Samples of a fixed size with replace-one adjacency: [`FixedSizeAccountant`].
    FixedSize,
}

impl AccountantKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Pld, Self::Renyi, Self::Moments, Self::FixedSize];

    /// Returns the name that users type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pld => "pld",
            Self::Renyi => "renyi",
            Self::Moments => "moments",
            Self::FixedSize => "fixed-size",
        }
    }

    /// Returns the neighbouring relation for which the accountant's bounds hold.
    pub fn adjacency(self) -> Adjacency {
        match self {
            Self::Pld | Self::Renyi | Self::Moments => Adjacency::ZeroOut,
            Self::FixedSize => Adjacency::ReplaceOne,
        }
    }

    /// Creates an accountant of this kind with no releases yet.
    pub fn accountant(self) -> Box<dyn Accountant + Send + Sync> {
        match self {
            Self::Pld => Box::new(PldAccountant::new()),
            Self::Renyi => Box::new(RenyiAccountant::new()),
            Self::Moments => Box::new(MomentsAccountant::new()),
            Self::FixedSize => Box::new(FixedSizeAccountant::new()),
        }
    }

    /// Returns the error for an unsupported sampling scheme.
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
