//! Tests of the invariants of federations under network faults.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::federation::virtual_time::{NetworkFaults, is_initial, simulate};

fn weather() -> impl Strategy<Value = NetworkFaults> {
    (
        (any::<u32>(), 1..4_u32, 0..3_u32, 0..3_u32, 1..7_u64),
        (0.0..0.6, prop_oneof![Just(0.0), 0.0..0.5], 0.0..0.5),
        (0.0..0.3, 0.0..0.5, 1..150_usize),
    )
        .prop_map(
            |(
                (seed, n_participants, n_contributors, n_initial, n_rounds),
                (upload_loss, broadcast_loss, doubling),
                (stalling, failing, delay),
            )| NetworkFaults {
                seed: u64::from(seed),
                n_participants,
                n_contributors,
                n_initial,
                n_rounds,
                upload_loss,
                broadcast_loss,
                doubling,
                stalling,
                failing,
                delay,
                timeout: 100,
            },
        )
}

fn rising(rounds: &[u64]) -> bool {
    rounds.windows(2).all(|pair| pair[0] < pair[1])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Checks these properties under loss, delay, duplication, reordering and stalls. Rounds
    /// advance one by one. No agent acts twice on a round. Initial points come before round 1. An
    /// upload is delivered at most once, for its own sender. A straggler has no message in the
    /// broadcast that names it. Contributors upload once. An agent that received all broadcasts has
    /// finished its plan. (The simulation itself asserts that repeated broadcasts have no effect
    /// and that there are no errors.)
    #[test]
    fn rounds_hold_in_any_weather(weather in weather()) {
        let outcome = simulate(&weather);
        let rounds: Vec<u64> = outcome.broadcasts.iter().map(|b| b.round).collect();
        prop_assert_eq!(&rounds, &(1..=rounds.len() as u64).collect::<Vec<_>>());

        let mut delivered = BTreeSet::new();
        for broadcast in &outcome.broadcasts {
            let mut senders = BTreeSet::new();
            for message in &broadcast.messages {
                prop_assert!(delivered.insert((message.sender, message.round)), "{:?} again", message);
                prop_assert!(senders.insert(message.sender));
                prop_assert!(message.round < broadcast.round);
                prop_assert!(outcome.states[&message.sender].upload_rounds.contains(&message.round));
            }
            for straggler in &broadcast.stragglers {
                prop_assert!(*straggler < weather.n_participants && !senders.contains(straggler));
            }
            let missing = (0..weather.n_participants).filter(|id| !senders.contains(id));
            prop_assert_eq!(&broadcast.stragglers, &missing.collect::<Vec<_>>());
        }

        for (id, state) in &outcome.states {
            prop_assert!(rising(&state.upload_rounds), "uploads of {id}: {:?}", state.upload_rounds);
            if *id >= weather.n_participants {
                prop_assert_eq!(&state.upload_rounds, &[0]);
                prop_assert!(state.finished && state.trials.is_empty());
                continue;
            }
            let n_initial = weather.n_initial as usize;
            for (index, trial) in state.trials.iter().enumerate() {
                prop_assert_eq!(trial.index, index as u64);
                prop_assert_eq!(is_initial(trial), index < n_initial);
                prop_assert_eq!(trial.round == 0, index < n_initial);
            }
            let queried: Vec<u64> = state.trials.iter().skip(n_initial).map(|t| t.round).collect();
            prop_assert!(rising(&queried), "agent {id} acts in rounds {queried:?}");
            prop_assert!(queried.iter().all(|round| *round <= weather.n_rounds));
            if rounds.iter().all(|round| state.heard.contains(round)) {
                prop_assert!(state.finished, "agent {id} got all broadcasts and is not done: {state:?}");
            }
        }
    }

    /// Equal seeds give equal traces, including weights.
    #[test]
    fn equal_seeds_give_equal_traces(weather in weather()) {
        let trace = simulate(&weather).trace;
        prop_assert_eq!(&trace, &simulate(&weather).trace);
        prop_assert_ne!(trace, simulate(&NetworkFaults { seed: weather.seed + 1, ..weather }).trace);
    }
}

/// Without faults, every agent queries once in every round, and every broadcast contains all
/// messages of the previous round. Contributors' messages are only in round 1, and there are no
/// stragglers.
#[test]
fn in_fine_weather_nothing_is_missed() {
    let outcome = simulate(&NetworkFaults {
        seed: 1,
        n_participants: 3,
        n_contributors: 2,
        n_initial: 2,
        n_rounds: 6,
        upload_loss: 0.0,
        broadcast_loss: 0.0,
        doubling: 0.0,
        stalling: 0.0,
        failing: 0.0,
        delay: 5,
        timeout: 1000,
    });
    for (id, state) in outcome.states.iter().take(3) {
        let rounds: Vec<u64> = state.trials.iter().map(|trial| trial.round).collect();
        assert_eq!(rounds, [0, 0, 1, 2, 3, 4, 5, 6], "agent {id}");
        assert_eq!(state.upload_rounds, [0, 1, 2, 3, 4, 5, 6]);
    }
    for broadcast in &outcome.broadcasts {
        let senders: Vec<u32> = broadcast.messages.iter().map(|m| m.sender).collect();
        let expected: &[u32] = if broadcast.round == 1 { &[0, 1, 2, 3, 4] } else { &[0, 1, 2] };
        assert_eq!(senders, expected);
        assert!(broadcast.stragglers.is_empty());
        assert!(broadcast.messages.iter().all(|m| m.round + 1 == broadcast.round));
    }
}
