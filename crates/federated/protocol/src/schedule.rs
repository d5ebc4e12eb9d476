//! The schedule of rounds that collect and release, and of instants within a round: public, and fixed before round 0
//! (INV-11).

use fedbo_privacy::accounting::InvalidParameter;
use fedbo_privacy::mechanism::ReleaseShape;

use crate::Tick;

/// The rounds that release, and their releases: n releases in the rounds 0, k, 2k, …; those before round
/// `regions_until` one sum a region, later ones one total.
///
/// In a round without a release nothing is collected, and agents go on with Thompson sampling of their own and with what
/// was released before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseSchedule {
    n_releases: u64,
    every: u64,
    regions_until: u64,
}

impl ReleaseSchedule {
    /// `n_releases` of them, one in `every` rounds, the first in round 0.
    ///
    /// # Errors
    /// If there is no release, `every` is 0, or the last round is beyond the range of integers.
    pub fn new(n_releases: u64, every: u64, regions_until: u64) -> Result<Self, InvalidParameter> {
        let invalid = |name, value: u64, expected| InvalidParameter {
            name,
            value: value.to_string(),
            expected,
        };
        if n_releases == 0 {
            return Err(invalid("number of releases", n_releases, "at least 1"));
        }
        if every == 0 {
            return Err(invalid("rounds from release to release", every, "at least 1"));
        }
        if (n_releases - 1).checked_mul(every).is_none() {
            let expected = "few enough for the last round to be below 2^64";
            return Err(invalid("number of releases", n_releases, expected));
        }
        Ok(Self { n_releases, every, regions_until })
    }

    /// The number of rounds that release. A session costs this many events.
    pub fn n_releases(&self) -> u64 {
        self.n_releases
    }

    /// Rounds from release to release.
    pub fn every(&self) -> u64 {
        self.every
    }

    /// First round whose release is one total.
    pub fn regions_until(&self) -> u64 {
        self.regions_until
    }

    /// The last round with a release. Agents that make `n_rounds` queries can use those before round `n_rounds`.
    pub fn last(&self) -> u64 {
        (self.n_releases - 1) * self.every
    }

    /// Returns true if a round collects vectors and releases. It depends on the round's number alone (INV-3).
    pub fn releases(&self, round: u64) -> bool {
        round.is_multiple_of(self.every) && round <= self.last()
    }

    /// The shape of a round's release: one sum a region, or one total.
    pub fn shape(&self, round: u64) -> ReleaseShape {
        if round < self.regions_until { ReleaseShape::Regions } else { ReleaseShape::Total }
    }
}

/// The instants of a round, counted from its beginning, which is the broadcast before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instants {
    collect: Tick,
    period: Tick,
}

impl Instants {
    /// Vectors are taken before `collect` has passed; the next round begins, and the release leaves, when `period` has
    /// passed, however early it was ready (INV-9). What lies between is the time to make it durable.
    ///
    /// # Errors
    /// If `collect` is 0 or above `period`.
    pub fn new(collect: Tick, period: Tick) -> Result<Self, InvalidParameter> {
        if collect == 0 || collect > period {
            return Err(InvalidParameter {
                name: "time to collect in a round",
                value: format!("{collect} ms"),
                expected: "above 0 and at most the round's period",
            });
        }
        Ok(Self { collect, period })
    }

    /// Time in which vectors are taken.
    pub fn collect(&self) -> Tick {
        self.collect
    }

    /// Time from broadcast to broadcast.
    pub fn period(&self) -> Tick {
        self.period
    }
}
