//! Invariants of sessions in any weather.

use fedbo_protocol::{AggregateHandout, Coordinator};

use crate::common::{OneHot, total};
use crate::world::{PERIOD, World};

/// How often what the session is about has happened.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) crashes: u64,
    /// Stored rounds that a later coordinator handed out.
    pub(crate) replays: u64,
    pub(crate) late: u64,
    pub(crate) repeats: u64,
    pub(crate) incomplete: u64,
    pub(crate) empty: u64,
    pub(crate) joined: u64,
    pub(crate) finished: u64,
}

impl World {
    /// What must hold whenever something leaves.
    pub(crate) fn check_handout(&mut self, handout: &AggregateHandout) {
        let round = handout.round - 1;
        assert_eq!(self.coordinator.round(), handout.round);
        assert!(self.handed_out < Some(handout.round), "rounds go forward");
        assert!(self.now >= self.began + PERIOD, "before its set instant"); // INV-9
        assert_eq!(handout.collects, self.schedule.releases(handout.round));
        let stored = self.store.get(&round);
        match handout.releases.as_slice() {
            [] => assert!(!self.schedule.releases(round), "round {round} is skipped"), // INV-3
            [release] => {
                assert!(self.schedule.releases(round));
                assert_eq!(Some(&release.bytes), stored, "before it is durable"); // INV-1, INV-2
                let counted = self.check_sums(round, &total(handout));
                self.counts.incomplete += u64::from(counted < self.n_slots);
                self.counts.empty += u64::from(counted == 0);
            }
            several => panic!("{several:?}"),
        }
    }

    /// Each slot is counted at most once, with its vector of this round, if it was sent and delivered; nothing of another
    /// round is in the sum (INV-6). Returns how many slots are.
    fn check_sums(&self, round: u64, sums: &[f64]) -> u32 {
        let mut counted = 0;
        let mut expected = vec![0.0; self.n_features];
        for slot in 0..self.n_slots {
            let place = OneHot::place(slot, self.n_slots, round);
            if sums.get(place).is_some_and(|sum| *sum != 0.0) {
                assert!(self.delivered.contains(&(slot, round)), "{slot} in {round}");
                expected[place] = 1.0;
                counted += 1;
            }
        }
        assert_eq!(sums, expected, "round {round}");
        counted
    }

    /// What must hold in the end.
    pub(crate) fn check_end(&mut self) {
        assert_eq!(self.done.len(), self.agents.len(), "an agent is stuck");
        self.counts.finished += 1;
        // INV-3: every scheduled round before the current one has its release, and no other round has one.
        for round in 0..self.coordinator.round() {
            let scheduled = self.schedule.releases(round);
            assert_eq!(self.store.contains_key(&round), scheduled, "round {round}");
        }
        assert!(
            self.store
                .keys()
                .all(|round| self.schedule.releases(*round))
        );
        for (id, agent) in &self.agents {
            let taken = &agent.strategy().taken;
            let rounds: Vec<u64> = taken.iter().map(|each| each.aggregate.round).collect();
            assert!(
                rounds.is_sorted_by(|a, b| a < b),
                "agent {id} takes {rounds:?}"
            );
            for release in taken {
                let stored = &self.store[&release.aggregate.round];
                assert_eq!(release.bytes, *stored); // INV-2, whichever coordinator sent it
            }
        }
    }
}

/// In any weather: each release counts each slot at most once, with its vector of that round; a release is durable before it
/// leaves, is sent byte for byte by every coordinator, and comes in every scheduled round; no agent is stuck; and equal
/// seeds give equal traces.
fn play(n_seeds: u64) {
    let mut all = Counts::default();
    for seed in 0..n_seeds {
        let crashes = usize::try_from(seed % 4).unwrap();
        let (trace, counts) = World::new(seed).run(crashes);
        assert_eq!(trace, World::new(seed).run(crashes).0, "seed {seed}");
        all.crashes += counts.crashes;
        all.replays += counts.replays;
        all.late += counts.late;
        all.repeats += counts.repeats;
        all.incomplete += counts.incomplete;
        all.empty += counts.empty;
        all.joined += counts.joined;
        all.finished += counts.finished;
    }
    // The sessions are about something.
    let seen = [
        all.crashes,
        all.replays,
        all.late,
        all.repeats,
        all.incomplete,
        all.empty,
        all.joined,
    ];
    assert!(seen.iter().all(|n| *n >= n_seeds / 4), "{all:?}");
    assert_eq!(all.finished, n_seeds);
}

#[test]
fn sim() {
    play(1000);
}

#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn sim_long() {
    play(200_000);
}
