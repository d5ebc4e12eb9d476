//! The instants at which an agent speaks in a round: they follow from the slot and the round alone (INV-12).
//!
//! The duration of a trial often says what came of it. So nothing leaves an agent when a trial ends: what it made of
//! the round is sent at the round's set instant, and before that instant nothing is asked. A trial that is not done by
//! then makes the agent a straggler of the round: nothing is sent for it, and the agent speaks again at the next
//! boundary of rounds. An observer learns whether the trial was done in time, which an upload that is missing shows in
//! any case, and nothing finer.
//!
//! Pure: times arrive as arguments, in milliseconds of a clock that never goes back.

use fedbo_federation::Network;
use fedbo_wire::{Digest, digest};

/// The longest time at the end of the collecting time that is left for an upload to arrive.
const MARGIN_MS: u64 = 10_000;
/// The longest time before that margin over which the agents' instants are spread.
const WINDOW_MS: u64 = 10_000;
/// The longest time until a second attempt, and between later ones.
const RETRY_MS: (u64, u64) = (2_000, 60_000);
/// By how much a beginning that is heard of again must be later to be that of the round begun anew. Less is the way of the answer.
const BEGUN_ANEW_MS: u64 = 500;
/// An attempt is made at its instant, or up to this much later; a process that was away longer waits for the next one.
const PUNCTUAL_MS: u64 = 1_000;
/// Parts of a round at which an agent asks whether a study has begun.
const WAITING_PARTS: u64 = 4;

/// The instants of one agent in one study.
#[derive(Debug)]
pub(crate) struct Pace {
    config: Digest,
    slot: u32,
    network: Network,
    known: Option<Known>,
}

/// A round that is known, and the time at which it began.
#[derive(Clone, Copy, Debug)]
struct Known {
    round: u64,
    began_ms: u64,
    /// The study waits: this is when the agent heard so.
    is_waiting: bool,
}

/// The time at which an upload is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instant {
    /// As soon as it is made: the study has no set instants.
    Free,
    /// At this time.
    At(u64),
    /// It is too late for the round.
    Over,
}

impl Pace {
    pub(crate) fn new(config: Digest, slot: u32, network: Network) -> Self {
        Self {
            config,
            slot,
            network,
            known: None,
        }
    }

    /// Returns the time in which uploads are collected, in milliseconds. Without it, uploads have no set instants.
    fn collect_ms(&self) -> Option<u64> {
        self.network.collect_ms
    }

    /// Time that is left for an upload to arrive.
    fn margin_ms(&self) -> u64 {
        (self.network.collect_ms.unwrap_or(0) / 4).min(MARGIN_MS)
    }

    /// Notes that a round has been played for so long, or that the study waits. Returns whether that changes when to speak.
    pub(crate) fn heard(&mut self, round: u64, elapsed_ms: Option<u64>, now_ms: u64) -> bool {
        let heard = Known {
            round,
            began_ms: now_ms.saturating_sub(elapsed_ms.unwrap_or(0)),
            is_waiting: elapsed_ms.is_none(),
        };
        let is_news = match self.known {
            None => true,
            Some(known) if known.is_waiting && heard.is_waiting => false,
            Some(known) => {
                known.is_waiting != heard.is_waiting
                    || heard.round > known.round
                    || (heard.round == known.round
                        && heard.began_ms > known.began_ms.saturating_add(BEGUN_ANEW_MS))
            }
        };
        if is_news {
            self.known = Some(heard);
        }
        is_news
    }

    /// Returns true if the study waits, or if nothing is known of its rounds: then no upload can be late.
    pub(crate) fn is_waiting(&self) -> bool {
        self.known.is_none_or(|known| known.is_waiting)
    }

    /// Returns the instant of the first attempt to send a round's upload.
    pub(crate) fn upload_at(&self, round: u64) -> Instant {
        self.attempt_at(round, 0)
    }

    /// Returns the instant of an attempt to send a round's upload: later ones follow from the first, the slot, the
    /// round and their number.
    pub(crate) fn attempt_at(&self, round: u64, attempt: u32) -> Instant {
        let (Some(collect_ms), Some(known)) = (self.collect_ms(), self.known) else {
            return Instant::Free;
        };
        if known.round > round {
            return Instant::Over;
        }
        let margin = self.margin_ms();
        let window = (collect_ms / 4).min(WINDOW_MS);
        let first = collect_ms - margin - window + self.draw(round, 0, window);
        let waits = (1..=attempt).map(|attempt| self.wait_ms(round, attempt));
        let later = waits.fold(0_u64, u64::saturating_add);
        Instant::At(known.began_ms.saturating_add(first).saturating_add(later))
    }

    /// Time from the attempt before to this one.
    fn wait_ms(&self, round: u64, attempt: u32) -> u64 {
        let doubled = 1_u64.checked_shl(attempt - 1).unwrap_or(u64::MAX);
        let shortest = RETRY_MS.0.min(self.margin_ms() / 4).max(50);
        let longest = shortest.saturating_mul(doubled).min(RETRY_MS.1);
        longest / 2 + self.draw(round, attempt, longest / 2)
    }

    /// The first attempt from `attempt` on that is still to be made, and when: instants that have passed are not made up for.
    pub(crate) fn due(&self, round: u64, attempt: u32, now_ms: u64) -> (u32, Instant) {
        let mut attempt = attempt;
        let Instant::At(mut at) = self.attempt_at(round, attempt) else {
            return (attempt, self.attempt_at(round, attempt));
        };
        while at.saturating_add(PUNCTUAL_MS) < now_ms {
            attempt += 1;
            at = at.saturating_add(self.wait_ms(round, attempt)); // at least 25 ms
        }
        (attempt, Instant::At(at))
    }

    /// From when on an agent may ask for what is next, after a trial of a round ended now: from the round's instant on, or, if that has
    /// passed, from the next boundary of rounds on. Nothing of when a trial ended is finer than that.
    pub(crate) fn asks_from(&self, round: u64, now_ms: u64) -> u64 {
        let (Some(_), Some(known)) = (self.collect_ms(), self.known) else {
            return now_ms;
        };
        if let Instant::At(at) = self.upload_at(round)
            && now_ms <= at
            && !known.is_waiting
        {
            return at;
        }
        let step = match known.is_waiting {
            true => self.network.round_ms / WAITING_PARTS,
            false => self.network.round_ms,
        }
        .max(1);
        let passed = now_ms.saturating_sub(known.began_ms).div_ceil(step).max(1);
        known.began_ms.saturating_add(passed.saturating_mul(step))
    }

    /// A number from 0 to `below`, drawn from public things alone.
    fn draw(&self, round: u64, attempt: u32, below: u64) -> u64 {
        let parts: [&[u8]; 4] = [
            &self.config.0,
            &self.slot.to_le_bytes(),
            &round.to_le_bytes(),
            &attempt.to_le_bytes(),
        ];
        let drawn = digest("fedbo instant, version 1", &parts);
        let (number, _) = drawn.0.split_first_chunk().expect("32 bytes begin with 8");
        let scaled = (u128::from(u64::from_le_bytes(*number)) * u128::from(below)) >> 64;
        u64::try_from(scaled).unwrap_or(below) // below `below`
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(collect_ms: Option<u64>) -> Pace {
        let network = Network {
            round_ms: 60_000,
            collect_ms,
        };
        Pace::new(Digest([3; 32]), 2, network)
    }

    fn at(instant: Instant) -> u64 {
        match instant {
            Instant::At(at) => at,
            other => panic!("{other:?}"),
        }
    }

    /// Instants lie in their window, differ between slots and rounds, and leave time to arrive.
    #[test]
    fn instants_are_spread_over_the_window() {
        for collect_ms in [4, 200, 54_000, 3_600_000] {
            let mut seen = std::collections::BTreeSet::new();
            for slot in 0..40 {
                let mut pace = pace(Some(collect_ms));
                pace.slot = slot;
                for round in 0..5 {
                    pace.known = None;
                    pace.heard(round, Some(7), 1_007);
                    let offset = at(pace.upload_at(round)) - 1_000;
                    let quarter = (collect_ms / 4).min(10_000);
                    assert!(offset >= collect_ms - 2 * quarter && offset <= collect_ms - quarter);
                    seen.insert(offset);
                }
            }
            assert!(seen.len() as u64 >= (collect_ms / 8).min(100), "{seen:?}");
        }
    }

    #[test]
    fn attempts_follow_from_their_number_and_are_not_made_up_for() {
        let mut pace = pace(Some(54_000));
        pace.heard(3, Some(0), 0);
        let attempts: Vec<u64> = (0..12).map(|n| at(pace.attempt_at(3, n))).collect();
        assert!(attempts.is_sorted_by(|a, b| a < b));
        assert!(attempts[11] - attempts[10] <= 60_000 && attempts[11] - attempts[10] >= 30_000);
        assert!(
            attempts[3] < 54_000,
            "several attempts before the round is over"
        );
        assert_eq!(pace.due(3, 0, 0), (0, Instant::At(attempts[0])));
        assert_eq!(pace.due(3, 0, attempts[0]), (0, Instant::At(attempts[0])));
        let away = attempts[4] + 1;
        let (n, due) = pace.due(3, 0, away);
        assert!(at(due) + 1_000 >= away && n >= 4);
        // The same answer again, a little slower, changes nothing; a round that begins anew does.
        assert!(!pace.heard(3, Some(10), 40));
        assert_eq!(at(pace.upload_at(3)), attempts[0]);
        assert!(pace.heard(3, Some(0), 20_000));
        assert_eq!(at(pace.upload_at(3)), attempts[0] + 20_000);
        assert!(pace.heard(4, Some(0), 90_000));
        assert_eq!(pace.upload_at(3), Instant::Over);
    }

    /// However long a trial takes, what is asked after it comes at the round's instant or at a boundary.
    #[test]
    fn the_end_of_a_trial_is_rounded_up() {
        let mut pace = pace(Some(54_000));
        pace.heard(3, Some(0), 5);
        let own = at(pace.upload_at(3));
        for ended in [6, 100, own] {
            assert_eq!(pace.asks_from(3, ended), own);
        }
        for (ended, boundary) in [(own + 1, 60_005), (60_005, 60_005), (60_006, 120_005)] {
            assert_eq!(pace.asks_from(3, ended), boundary);
        }
    }

    #[test]
    fn without_a_time_to_collect_nothing_waits() {
        let mut pace = pace(None);
        pace.heard(3, Some(0), 5);
        assert_eq!(pace.upload_at(3), Instant::Free);
        assert_eq!(pace.asks_from(3, 70), 70);
    }

    #[test]
    fn while_a_study_waits_nothing_is_late() {
        let mut pace = pace(Some(54_000));
        pace.heard(0, None, 100);
        assert!(pace.is_waiting());
        assert_eq!(pace.asks_from(0, 20_000), 30_100);
        assert!(!pace.heard(0, None, 40_000));
        assert!(pace.heard(0, Some(3), 50_003));
        assert!(!pace.is_waiting() && at(pace.upload_at(0)) >= 84_000);
    }
}
