//! Simulated sessions with network faults.

use crate::aggregator::simulation::play;
use crate::network_faults::Counts;

/// Events that the sessions must cover. Each occurs on average at least once in this many sessions.
const HAPPENINGS: [(&str, u64); 21] = [
    ("crashes", 1),
    ("lost vectors", 8),
    ("asked again", 8),
    ("sent again", 8),
    ("replays", 8),
    ("late", 1),
    ("repeats", 1),
    ("incomplete", 1),
    ("empty", 1),
    ("joined", 1),
    ("old handouts", 1),
    ("gaps", 1),
    ("cut from", 2),
    ("cut to", 2),
    ("jumps", 4),
    ("stands still", 4),
    ("join late", 4),
    ("falls", 1),
    ("falls midway", 4),
    ("replayed logs", 1),
    ("trials again", 2),
];

/// Checks these properties under network faults. Each release counts each accepted slot once, with
/// the slot's vector for that round, and no other slot. A release is durable before it leaves, has
/// the same bytes from every coordinator, and exists for every scheduled round. A restarted agent
/// creates the same vectors, byte for byte, and receives every release once. No agent gets stuck,
/// and equal seeds give equal traces.
fn in_any_weather(n_seeds: u64) {
    let mut all = Counts::default();
    let mut last = 0;
    for seed in 0..n_seeds {
        let (trace, counts) = play(seed);
        assert_eq!(trace, play(seed).0, "seed {seed}");
        assert_ne!(trace, last, "seed {seed}");
        last = trace;
        all.join(&counts);
    }
    for (what, share) in HAPPENINGS {
        assert!(all.of(what) >= n_seeds / share, "{what}: {all:?}");
    }
    assert!(all.of("leaves") >= n_seeds / 10, "{all:?}");
}

#[test]
fn sim() {
    in_any_weather(1000);
}

#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn sim_long() {
    in_any_weather(200_000);
}
