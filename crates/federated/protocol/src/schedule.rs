//! The schedule of releasing rounds, and the times within a round. Both are public and fixed before
//! round 0 (INV-11).

use fedbo_privacy::accounting::InvalidParameter;
use fedbo_privacy::mechanism::ReleaseShape;

use crate::Tick;

/// The rounds with releases, and the shapes of the releases.
///
/// There are n releases, in rounds 0, k, 2k, …. Releases before round `regions_until` contain one
/// sum per region. Later releases contain one total.
///
/// A round without a release collects nothing. In these rounds, agents continue with their own
/// Thompson sampling and with earlier releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseSchedule {
    n_releases: u64,
    every: u64,
    regions_until: u64,
}

impl ReleaseSchedule {
    /// Creates a schedule with `n_releases` releases, one every `every` rounds, starting in round
    /// 0.
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

    /// Returns the number of rounds with a release. A session costs this many privacy events.
    pub fn n_releases(&self) -> u64 {
        self.n_releases
    }

    /// Returns the interval between releases, in rounds.
    pub fn every(&self) -> u64 {
        self.every
    }

    /// Returns the first round in which a release would contain one total.
    pub fn regions_until(&self) -> u64 {
        self.regions_until
    }

    /// Returns the last round with a release. An agent that makes `n_rounds` queries can use
    /// releases from rounds before `n_rounds`.
    pub fn last(&self) -> u64 {
        (self.n_releases - 1) * self.every
    }

    /// Returns true if a round collects vectors and has a release. This depends only on the round
    /// number (INV-3).
    pub fn releases(&self, round: u64) -> bool {
        round.is_multiple_of(self.every) && round <= self.last()
    }

    /// Returns the shape of a round's release: one sum per region, or one total.
    pub fn shape(&self, round: u64) -> ReleaseShape {
        if round < self.regions_until { ReleaseShape::Regions } else { ReleaseShape::Total }
    }
}

/// The times within a round, measured from its beginning, which is the preceding broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instants {
    collect: Tick,
    period: Tick,
    /// Additional time for round 0.
    extra: Tick,
}

impl Instants {
    /// Creates the times of rounds that accept vectors for `collect` and last for `period`.
    ///
    /// The release leaves and the next round begins after `period`, even if the release was ready
    /// earlier (INV-9). The time between `collect` and `period` is for making the release durable.
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

    /// Extends both the collection time and the period of round 0 by `extra`, because round 0
    /// contains all initial trials of an agent, whereas every other round contains one trial.
    #[must_use]
    pub fn with_longer_first(self, extra: Tick) -> Self {
        Self { extra, ..self }
    }

    /// Returns the time during which a round accepts vectors.
    pub fn collect(&self, round: u64) -> Tick {
        self.collect.saturating_add(self.extra_of(round))
    }

    /// Returns the time from the broadcast that begins a round to the next broadcast.
    pub fn period(&self, round: u64) -> Tick {
        self.period.saturating_add(self.extra_of(round))
    }

    fn extra_of(&self, round: u64) -> Tick {
        if round == 0 { self.extra } else { 0 }
    }
}
