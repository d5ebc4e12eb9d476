//! Failpoints: named points in the code at which a test kills the process, as a power failure
//! would.
//!
//! A failpoint is a call to [`pass`], which is a no-op without the feature `enabled`. With the
//! feature, the process kills itself with SIGKILL at the failpoint in `FEDBO_DIE_AT`: `NAME` for
//! the first pass, or `NAME:n` for the n-th. [`PLACES`] lists all failpoints.

/// All failpoints of the program, in order of occurrence in a federation.
pub const PLACES: [&str; 48] = [
    // Start of a coordinator's study.
    "coordinator: a study is stored",
    "coordinator: an agent is enrolled",
    "coordinator: the lead is taken",
    "ledger: a new one is laid out beside its place",
    "ledger: a new one has its name",
    "ledger: its fencing token is raised",
    "coordinator: a round is about to be played",
    // A round.
    "coordinator: an upload has come",
    "coordinator: an upload is answered",
    "coordinator: a round is closed",
    "coordinator: the participants are noted",
    "ledger: a charge is admitted",
    "ledger: a charge is written and not committed",
    "ledger: a charge is committed",
    "coordinator: a release is charged",
    "coordinator: the head is noted",
    "coordinator: a round is about to begin",
    "coordinator: a round has begun and nobody knows",
    "coordinator: a round is published",
    // A round with two summing servers.
    "helper: a round has begun",
    "helper: a share is made",
    "helper: a share is kept",
    "helper: a share is charged",
    "helper: a share is noted as charged",
    "helper: the key of a round is erased",
    "coordinator: the helper has closed the round",
    "coordinator: the helper's hash is kept",
    "helper: the leader's share is noted",
    "coordinator: the helper has given its share",
    // A round with shards.
    "coordinator: the round is shut for shards",
    "coordinator: shards know which vectors count",
    "coordinator: a shard has added up",
    // An agent.
    "agent: its key is written",
    "agent: the coordinator has shown its key",
    "agent: the coordinator knows it",
    "agent: the study is checked",
    "agent: its membership is stored",
    "agent: a trial is begun",
    "agent: a trial is evaluated",
    "agent: a trial is told",
    "agent: an upload is about to be charged",
    "agent: an upload is charged",
    "agent: an upload is answered",
    "agent: an upload is noted as answered",
    "agent: a handout has come",
    "agent: a handout is stored",
    "agent: a request is counted",
    "agent: a handout is taken",
];

/// Passes a failpoint.
#[cfg(not(feature = "enabled"))]
#[inline(always)]
pub fn pass(_place: &'static str) {}

/// Passes a failpoint, or kills the process there.
#[cfg(feature = "enabled")]
pub fn pass(place: &'static str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static DEATH: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    debug_assert!(PLACES.contains(&place), "{place:?} is not listed");
    let death = DEATH.get_or_init(|| {
        let text = std::env::var("FEDBO_DIE_AT").ok()?;
        // A name may contain a colon followed by a space, so only a number after the last colon is
        // a count.
        match text.rsplit_once(':') {
            Some((name, count)) if count.parse::<u64>().is_ok() => {
                Some((name.to_owned(), count.parse().unwrap_or(1)))
            }
            _ => Some((text, 1)),
        }
    });
    let Some((_, count)) = death.as_ref().filter(|(name, _)| name == place) else {
        return;
    };
    if PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *count {
        die();
    }
}

#[cfg(feature = "enabled")]
fn die() -> ! {
    use rustix::process::{Signal, getpid, kill_process};
    loop {
        // SIGKILL can take a moment to arrive.
        let _ = kill_process(getpid(), Signal::KILL);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
