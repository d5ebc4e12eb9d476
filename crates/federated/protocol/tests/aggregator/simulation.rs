//! DP-FTS-DE rounds with one-hot vectors, and their invariants under network faults.

use std::collections::BTreeMap;

use fedbo_protocol::AggregateContent;
use fedbo_protocol::{
    Agent, AgentPlan, AggregateHandout, Aggregator, Instants, Release, ReleaseSchedule, Tick,
    Trial, UpdateRejected,
};
use fedbo_streams::{Seed, Stream};

use crate::aggregator::common::{Counting, OneHot, shared_map};
use crate::network_faults::{Counts, Durable, PERIOD, Subject, World};

const COLLECT: Tick = 60;

/// A federation of agents that send one-hot vectors.
pub(crate) struct Sums {
    seed: u64,
    n_rounds: u64,
    n_features: usize,
    n_initial: Vec<usize>,
    schedule: ReleaseSchedule,
    /// The rounds of the releases that each agent has received since its last start.
    taken: BTreeMap<u32, Vec<u64>>,
}

impl Sums {
    fn draw(seed: u64, luck: &mut Stream) -> Self {
        let n_slots = 1 + luck.below(5);
        let n_rounds = 2 + luck.below(8) as u64;
        let every = 1 + luck.below(3) as u64;
        let n_releases = 1 + luck.below(8) as u64;
        Self {
            seed,
            n_rounds,
            // One index for each slot in each round of the plan.
            n_features: OneHot::place(0, u32::try_from(n_slots).unwrap(), n_rounds + 1),
            n_initial: (0..n_slots).map(|_| luck.below(3)).collect(),
            schedule: ReleaseSchedule::new(n_releases, every, 0).unwrap(),
            taken: BTreeMap::new(),
        }
    }

    /// Checks that a round's release contains each accepted vector once, and nothing from other
    /// rounds (INV-6).
    fn check_sums(&self, round: u64, release: &Release, slots: impl Iterator<Item = u32>) {
        let AggregateContent::Total(sums) = &release.aggregate.content else {
            panic!("a total expected, not {:?}", release.aggregate);
        };
        let mut expected = vec![0.0; self.n_features];
        for slot in slots {
            expected[OneHot::place(slot, self.n_slots(), round)] = 1.0;
        }
        assert_eq!(*sums, expected, "round {round}");
    }
}

impl Subject for Sums {
    type Strategy = OneHot;
    type Coordinator = Aggregator<Counting>;

    fn n_slots(&self) -> u32 {
        u32::try_from(self.n_initial.len()).unwrap()
    }

    fn agent(&self, slot: u32) -> Agent<OneHot> {
        let plan = AgentPlan {
            id: slot,
            history: Vec::new(),
            initial: vec![vec![0.75]; self.n_initial[slot as usize]],
            n_rounds: self.n_rounds,
        };
        let strategy = OneHot::new(slot, self.n_slots(), self.n_features);
        Agent::new(strategy, plan, Seed::new(self.seed)).unwrap()
    }

    /// Creates a coordinator. If it recomputed a round, its release would differ from that of its
    /// predecessor.
    fn coordinator(
        &self,
        found: &Durable<AggregateHandout>,
        incarnation: u32,
    ) -> Aggregator<Counting> {
        let mut mechanism = Counting::new(self.n_slots(), self.n_features);
        mechanism.opened = vec![0; 1000 * incarnation as usize];
        let instants = Some(Instants::new(COLLECT, PERIOD).unwrap());
        let map = shared_map().hash();
        Aggregator::new(mechanism, self.schedule, map, instants).from_round(found.round)
    }

    fn check_handout(
        &mut self,
        found: &Durable<AggregateHandout>,
        handout: &AggregateHandout,
        now: Tick,
        counts: &mut Counts,
    ) {
        let round = found.round;
        assert!(now >= found.began + PERIOD, "before its set instant"); // INV-9
        assert_eq!(handout.collects, self.schedule.releases(handout.round));
        let stored = found.releases.get(&round);
        match handout.releases.as_slice() {
            [] => assert!(!self.schedule.releases(round), "round {round} is skipped"), // INV-3
            [release] => {
                let stored = stored.expect("it is durable before it leaves"); // INV-1
                assert!(self.schedule.releases(round));
                assert_eq!(release.bytes, stored.bytes); // INV-2
                self.check_sums(round, release, stored.slots.iter().copied());
                let n_counted = u32::try_from(stored.slots.len()).unwrap();
                counts.add("incomplete", u64::from(n_counted < self.n_slots()));
                counts.add("empty", u64::from(n_counted == 0));
            }
            several => panic!("{several:?}"),
        }
    }

    /// A round is durable before any agent receives its handout, so no agent is early, even after
    /// the coordinator has lost vectors.
    fn check_refused(&self, rejected: &UpdateRejected) {
        assert!(matches!(rejected, UpdateRejected::Late { .. }), "{rejected}");
    }

    fn restarted(&mut self, slot: u32) {
        self.taken.remove(&slot);
    }

    /// Every release arrives once and in order, regardless of restarts of the agent and the
    /// coordinator.
    fn taken(&mut self, slot: u32, handout: &AggregateHandout) {
        let taken = self.taken.entry(slot).or_default();
        let rounds = handout.releases.iter();
        taken.extend(rounds.map(|release| release.aggregate.round));
        let expected = (0..handout.round).filter(|round| self.schedule.releases(*round));
        assert!(expected.eq(taken.iter().copied()), "agent {slot} takes {taken:?}");
    }

    /// Checks that the agent acts on all releases that it received, and on nothing else.
    fn asked(&mut self, slot: u32, trial: &Trial, strategy: &OneHot) {
        let acted_on = strategy.taken.iter().map(|release| release.aggregate.round);
        let told = self.taken.get(&slot).cloned().unwrap_or_default();
        let known = told.into_iter().filter(|round| *round < trial.round);
        assert!(acted_on.eq(known), "agent {slot} in round {}", trial.round);
    }
}

/// Plays a session. Returns a digest of all events, and their counts.
pub(crate) fn play(seed: u64) -> (u64, Counts) {
    let mut world = World::new(seed, |luck| Sums::draw(seed, luck));
    let trace = world.run();
    // INV-3: every scheduled round before the current one has a release, and no other round has
    // one.
    let (durable, schedule) = (&world.durable, world.subject.schedule);
    for round in 0..durable.round {
        let scheduled = schedule.releases(round);
        assert_eq!(durable.releases.contains_key(&round), scheduled, "{round}");
    }
    for (round, stored) in &durable.releases {
        assert!(schedule.releases(*round));
        let made = |slot: &u32| world.members[*slot as usize].upload(*round).is_some();
        assert!(stored.slots.iter().all(made), "round {round}");
    }
    for member in &world.members {
        let agent = member.live.as_ref();
        for release in agent.map_or(&[][..], |agent| &agent.strategy().taken) {
            let stored = &durable.releases[&release.aggregate.round];
            assert_eq!(release.bytes, stored.bytes); // INV-2, whichever coordinator sent it
        }
    }
    (trace, world.counts)
}
