//! The schedule of collecting and releasing rounds, and the instants within a round. Both are
//! public and fixed before round 0 (INV-11).

use fedbo_privacy::accounting::InvalidParameter;
use fedbo_privacy::mechanism::ReleaseShape;

use crate::Tick;

/// The rounds that release, and the shape of their releases.
///
/// There are n releases, in rounds 0, k, 2k, …. Releases before round `regions_until` hold one sum
/// per region, later ones one total.
///
/// A round without a release collects nothing. Agents then continue with their own Thompson
/// sampling and with earlier releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseSchedule {
    n_releases: u64,
    every: u64,
    regions_until: u64,
}

impl ReleaseSchedule {
    /// A schedule of `n_releases` releases, one every `every` rounds, the first in round 0.
    ///
    /// # Errors
    /// If `n_releases` or `every` is 0, or the last round does not fit into a `u64`.
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

    /// Number of rounds that release. A session costs this many privacy events.
    pub fn n_releases(&self) -> u64 {
        self.n_releases
    }

    /// Rounds from release to release.
    pub fn every(&self) -> u64 {
        self.every
    }

    /// First round that releases one total.
    pub fn regions_until(&self) -> u64 {
        self.regions_until
    }

    /// The last round with a release. An agent that makes `n_rounds` queries can use releases of
    /// rounds before `n_rounds`.
    pub fn last(&self) -> u64 {
        (self.n_releases - 1) * self.every
    }

    /// Returns true if a round collects vectors and releases. It depends on the round's number alone (INV-3).
    pub fn releases(&self, round: u64) -> bool {
        round.is_multiple_of(self.every) && round <= self.last()
    }

    /// The shape of a round's release: one sum per region, or one total.
    pub fn shape(&self, round: u64) -> ReleaseShape {
        if round < self.regions_until { ReleaseShape::Regions } else { ReleaseShape::Total }
    }
}

/// The instants of a round, counted from its beginning, the preceding broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instants {
    collect: Tick,
    period: Tick,
    /// Additional time of round 0.
    extra: Tick,
}

impl Instants {
    /// Instants of rounds that accept vectors for `collect` and last for `period`.
    ///
    /// After `period`, the release leaves and the next round begins, even if the release was ready
    /// earlier (INV-9). The time between `collect` and `period` is for making the release
    /// durable.
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
        Ok(Self { collect, period, extra: 0 })
    }

    /// Extends round 0 by `extra`, both its time to collect and its period, because it holds all
    /// initial trials of an agent. Every other round holds one trial.
    #[must_use]
    pub fn with_longer_first(self, extra: Tick) -> Self {
        Self { extra, ..self }
    }

    /// Time during which a round accepts vectors.
    pub fn collect(&self, round: u64) -> Tick {
        self.collect.saturating_add(self.extra_of(round))
    }

    /// Time from the broadcast that begins a round to the next broadcast.
    pub fn period(&self, round: u64) -> Tick {
        self.period.saturating_add(self.extra_of(round))
    }

    fn extra_of(&self, round: u64) -> Tick {
        if round == 0 { self.extra } else { 0 }
    }
}
