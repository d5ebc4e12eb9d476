//! Ctrl-C and termination: the first signal requests a stop, the second terminates the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Exit;
use crate::output::note;

/// Message for runs that abandon their running trials.
pub const ABANDONS: &str =
    "stopping: running trials are abandoned, finished ones kept (once more to exit at once)";

/// Returns a flag that is set by a signal. The first signal also prints `stopping`. Call this only
/// once.
///
/// Signals that were ignored when the program started stay ignored. This lets a run outlive its
/// terminal under `nohup`.
pub fn stop_flag(stopping: &'static str) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let ignored = ignored();
    let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !ignored.contains(*signal));
    let handled = Signals::new(heeded).and_then(|mut signals| {
        let set = Arc::clone(&stop);
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for _ in signals.forever() {
                if set.swap(true, Ordering::Relaxed) {
                    std::process::exit(Exit::Interrupted as i32);
                }
                note(stopping);
            }
        })
    });
    if let Err(error) = handled {
        note(&format!("warning: signals may end the run at once: {error}"));
    }
    stop
}

/// A set of signals: bit `n - 1` is signal `n`.
struct SignalSet(u64);

impl SignalSet {
    fn contains(&self, signal: i32) -> bool {
        let bit = u32::try_from(signal - 1).unwrap_or(u32::MAX);
        self.0.checked_shr(bit).is_some_and(|rest| rest & 1 == 1)
    }
}

/// Returns the signals that this process ignores, as reported by Linux; empty on other systems.
fn ignored() -> SignalSet {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_by(&status)
}

fn ignored_by(status: &str) -> SignalSet {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    SignalSet(mask.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ignored_signals_are_those_of_the_mask() {
        let set =
            ignored_by("Name:\tfedbo\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001001\n");
        assert!(set.contains(SIGHUP) && set.contains(signal_hook::consts::SIGPIPE));
        assert!(!set.contains(SIGINT) && !set.contains(SIGTERM));
        for status in ["", "SigIgn:", "SigIgn:\tmany", "SigIgn"] {
            assert!(!ignored_by(status).contains(SIGHUP), "{status:?}");
        }
    }
}
