//! Scheduled instants of an agent's requests in a round. They depend only on the slot and the round
//! (INV-12).
//!
//! The duration of a trial often reveals its result, so an agent sends nothing when a trial ends.
//! Instead, it sends the round's upload at the round's scheduled instant, and does not poll before
//! that. If the trial is not done by then, the agent becomes a straggler: it sends nothing for the
//! round, and resumes at the next round boundary. An observer learns only whether the trial was
//! done in time, which a missing upload reveals in any case.
//!
//! The start of a round comes from unsigned responses. An attacker who can change them can move the
//! instants of a round. The upload then reveals one bit per round: whether the trial was done by a
//! time that the attacker chose.
//!
//! This module does no I/O. Times are arguments, in milliseconds of a monotonic clock.

use std::time::Duration;

use fedbo_federation::{Federation, Network};
use fedbo_wire::{Digest, StudyState, digest};

/// Maximum time reserved at the end of the collection period for uploads to arrive.
const MARGIN_MS: u64 = 10_000;
/// Maximum time before that margin over which the agents' instants are spread.
const WINDOW_MS: u64 = 10_000;
/// Maximum wait before the second attempt, and between later attempts.
const RETRY_MS: (u64, u64) = (2_000, 60_000);
/// A round counts as restarted if its reported start moves later by more than this. Smaller shifts
/// are attributed to network latency.
const BEGUN_ANEW_MS: u64 = 500;
/// An attempt is made at most this long after its instant. A process that is later than that waits
/// for the next instant.
const PUNCTUAL_MS: u64 = 1_000;
/// Number of polls per round while a study waits to begin, and per window while a handout is late.
const WAITING_PARTS: u64 = 4;
/// A round is assumed to have begun at most its own duration plus this time ago. This is the
/// duration of a poll.
const POLL_MS: u64 = 25_000;
/// Maximum time after the end of a window over which agents at a free pace spread their polls for
/// the next window. `ASK` separates these draws from the draws for attempts.
const ASK_WINDOW_MS: u64 = 10_000;
const ASK: u32 = u32::MAX;
/// Bounds on the pause between two polls at a free pace, while the current window is over and the
/// next handout is late. The pause is a quarter of a window, clamped to `ASK_PAUSE_MS`. While the
/// study waits to begin or is paused, the upper bound is `ASK_WAITING_MS`.
const ASK_PAUSE_MS: (u64, u64) = (50, 1_000);
const ASK_WAITING_MS: u64 = 15_000;
/// With more agents than this, polls are not held open until the end of a round.
const CROWD: u32 = 1_000;
/// Number of agents per millisecond when a crowd's instants are spread.
const AGENTS_A_MS: u64 = 2;
/// Separates the draws for an agent's poll before the end of the collection period from other
/// draws.
const CHECK: u32 = u32::MAX - 1;
/// Rounds shorter than this reveal more about trials than the agents' owners may expect.
const SHORT_MS: u64 = 10_000;

/// Schedule of one agent's requests in one study.
#[derive(Debug)]
pub(crate) struct Pace {
    config: Digest,
    slot: u32,
    n_agents: u32,
    network: Network,
    last_round: u64,
    known: Known,
}

/// The current round and its start, as far as the agent knows. The study counts as waiting until
/// the first report.
#[derive(Clone, Copy, Debug)]
struct Known {
    round: u64,
    began_ms: u64,
    state: StudyState,
}

/// The time to send an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instant {
    /// As soon as the upload is made, because the study has no scheduled instants.
    Free,
    /// At this time.
    At(u64),
    /// Unknown: the study has not started or is paused.
    Unknown,
    /// Too late, because a later round has begun.
    Over,
}

impl Pace {
    /// Creates the schedule of the agent in slot `slot` of `n_agents`.
    pub(crate) fn new(
        config: Digest,
        (slot, n_agents): (u32, u32),
        network: Network,
        last_round: u64,
    ) -> Self {
        Self {
            config,
            slot,
            n_agents,
            network,
            last_round,
            known: Known { round: 0, began_ms: 0, state: StudyState::Waiting },
        }
    }

    /// Returns the longest pause before a retry in the current round.
    pub(crate) fn longest_pause(&self) -> Duration {
        Duration::from_millis(self.longest_pause_ms(self.known.round))
    }

    /// Returns the longest pause before a retry: half of the round's collection period, but at
    /// least 500 ms. A round that waited for a server lasts its full time once the server is back,
    /// so the agent returns within it.
    fn longest_pause_ms(&self, round: u64) -> u64 {
        self.network.collect_ms_of(round).map_or(u64::MAX, |ms| (ms / 2).max(500))
    }

    /// Returns the time reserved for a round's upload to arrive.
    fn margin_ms(&self, round: u64) -> u64 {
        (self.network.collect_ms_of(round).unwrap_or(0) / 4).min(MARGIN_MS)
    }

    /// Returns the time over which the instants of all agents are spread: `few` for few agents, and
    /// as much as needed for a crowd, up to `most`.
    fn spread_ms(&self, few: u64, most: u64) -> u64 {
        match self.is_crowd() {
            true => few.max((u64::from(self.n_agents) / AGENTS_A_MS).min(most)),
            false => few,
        }
    }

    /// Records the study's state from an unsigned response. Rounds only advance, at most to the
    /// round after the study's last, and the start of a round moves only if the round restarts.
    /// Returns true if any instant has changed.
    pub(crate) fn heard(
        &mut self,
        round: u64,
        state: StudyState,
        elapsed_ms: Option<u64>,
        now_ms: u64,
    ) -> bool {
        // A round after the last means that the study is over. A coordinator that is about to start
        // a round does not report an elapsed time yet.
        let is_of_use = elapsed_ms.is_some() || !plays(state);
        if round < self.known.round || round > self.last_round + 1 || !is_of_use {
            return false;
        }
        let elapsed_ms = elapsed_ms.unwrap_or(0);
        let began_ms = now_ms.saturating_sub(elapsed_ms);
        let is_anew = !plays(self.known.state)
            || began_ms > self.known.began_ms.saturating_add(BEGUN_ANEW_MS);
        if round > self.known.round || plays(state) && is_anew {
            self.begin(round, state, elapsed_ms, now_ms);
            return true;
        }
        self.known.state = state;
        false
    }

    /// Records that a round has begun. The round comes from a verified handout, so it overrides
    /// earlier reports.
    pub(crate) fn began(&mut self, round: u64, elapsed_ms: u64, now_ms: u64) {
        self.begin(round, StudyState::Running, elapsed_ms, now_ms);
    }

    /// Sets the round and its start. The elapsed time is unsigned, so the start is bounded: it is
    /// neither before the start of the previously known round nor longer ago than a round and a
    /// poll take.
    fn begin(&mut self, round: u64, state: StudyState, elapsed_ms: u64, now_ms: u64) {
        let elapsed_ms = elapsed_ms.min(self.network.round_ms_of(round).saturating_add(POLL_MS));
        self.known = Known {
            round,
            began_ms: now_ms.saturating_sub(elapsed_ms).max(self.known.began_ms),
            state,
        };
    }

    /// Returns the last reported state of the study.
    pub(crate) fn state(&self) -> StudyState {
        self.known.state
    }

    /// Returns true if a round's upload can be sent. If `is_made` is set, it was made in time
    /// earlier; otherwise it would be made now.
    pub(crate) fn takes(&self, round: u64, is_made: bool, now_ms: u64) -> bool {
        match self.upload_at(round) {
            Instant::Free => true,
            Instant::At(at) => is_made || now_ms <= at,
            Instant::Unknown | Instant::Over => false,
        }
    }

    /// Returns the instant of the first attempt to send a round's upload.
    pub(crate) fn upload_at(&self, round: u64) -> Instant {
        self.attempt_at(round, 0)
    }

    /// Returns the instant of an attempt to send a round's upload. Later instants are determined by
    /// the first instant, the slot, the round and the attempt number.
    pub(crate) fn attempt_at(&self, round: u64, attempt: u32) -> Instant {
        let Some(collect_ms) = self.network.collect_ms_of(round) else {
            return Instant::Free;
        };
        let known = self.known;
        if known.round > round {
            return Instant::Over;
        }
        if !plays(known.state) {
            return Instant::Unknown;
        }
        let margin = self.margin_ms(round);
        let window = self.spread_ms((collect_ms / 4).min(WINDOW_MS), collect_ms / 2);
        let first = collect_ms - margin - window + self.draw(round, 0, window);
        let (n_doubled, most) = self.doublings(round);
        let waits = (1..=attempt.min(n_doubled)).map(|attempt| self.wait_ms(round, attempt));
        let mut later = waits.fold(0_u64, u64::saturating_add);
        if attempt > n_doubled {
            let n_steps = u64::from(attempt - n_doubled);
            later = later
                .saturating_add(n_steps.saturating_mul(step_ms(most)))
                .saturating_add(self.draw(round, attempt, most - step_ms(most)));
        }
        Instant::At(known.began_ms.saturating_add(first).saturating_add(later))
    }

    /// Returns the number of attempts with doubling waits, and the maximum wait before later
    /// attempts.
    fn doublings(&self, round: u64) -> (u32, u64) {
        let most = RETRY_MS.1.min(self.longest_pause_ms(round));
        let n_doubled = (1..u64::BITS).find(|n| self.shortest_ms(round) << (n - 1) >= most);
        (n_doubled.unwrap_or(u64::BITS), most)
    }

    fn shortest_ms(&self, round: u64) -> u64 {
        RETRY_MS.0.min(self.margin_ms(round) / 4).max(50)
    }

    /// Returns the time from the previous attempt to this one, while waits double.
    fn wait_ms(&self, round: u64, attempt: u32) -> u64 {
        let doubled = 1_u64.checked_shl(attempt - 1).unwrap_or(u64::MAX);
        let (_, most) = self.doublings(round);
        let longest = self.shortest_ms(round).saturating_mul(doubled).min(most);
        longest / 2 + self.draw(round, attempt, longest / 2)
    }

    /// Returns the first attempt from `attempt` on that can still be made, and its instant. Missed
    /// instants are skipped.
    pub(crate) fn due(&self, round: u64, attempt: u32, now_ms: u64) -> (u32, Instant) {
        let (n_doubled, most) = self.doublings(round);
        let mut attempt = attempt;
        let mut instant = self.attempt_at(round, attempt);
        while let Instant::At(at) = instant
            && at.saturating_add(PUNCTUAL_MS) < now_ms
        {
            attempt += 1;
            if attempt > n_doubled {
                // Once waits no longer double, all but the last few missed instants are skipped at
                // once.
                let n_missed = (now_ms - at).saturating_sub(most + PUNCTUAL_MS) / step_ms(most);
                attempt = attempt.saturating_add(u32::try_from(n_missed).unwrap_or(u32::MAX));
            }
            instant = self.attempt_at(round, attempt);
        }
        (attempt, instant)
    }

    /// Returns the earliest time of a poll if a round's trial ends now: the round's instant or, if
    /// that has passed, the next round boundary (while the study waits to begin, the next quarter
    /// of a round). Observers cannot learn the end of the trial more precisely than that.
    pub(crate) fn asks_from(&self, round: u64, now_ms: u64) -> u64 {
        if self.network.collect_ms.is_none() {
            return now_ms;
        }
        if let Instant::At(at) = self.upload_at(round)
            && now_ms <= at
        {
            return at;
        }
        let step = match self.known.state {
            StudyState::Waiting => self.network.round_ms / WAITING_PARTS,
            _ => self.network.round_ms,
        }
        .max(1);
        let began_ms = self.known.began_ms;
        let passed = now_ms.saturating_sub(began_ms).div_ceil(step).max(1);
        began_ms.saturating_add(passed.saturating_mul(step))
    }

    /// Returns the time of the next poll at a free pace. This is soon after the end of the current
    /// window. If that time has passed, or if the study waits to begin or is paused, it is after a
    /// pause.
    pub(crate) fn asks_next(&self, now_ms: u64) -> u64 {
        let Network { round_ms, .. } = self.network;
        let known = self.known;
        let (shortest, longest) = ASK_PAUSE_MS;
        let longest = if plays(known.state) { longest } else { ASK_WAITING_MS };
        let pause = (round_ms / WAITING_PARTS).clamp(shortest, longest);
        let pause = if self.is_crowd() { pause.max(self.crowds_pause()) } else { pause };
        let later = now_ms.saturating_add(pause);
        if !plays(known.state) {
            return later;
        }
        later.max(self.asks_after())
    }

    /// Returns an instant soon after the end of the current round.
    fn asks_after(&self) -> u64 {
        let round_ms = self.network.round_ms;
        let spread = self.spread_ms((round_ms / 10).min(ASK_WINDOW_MS), round_ms / 4);
        let end = self.known.began_ms.saturating_add(self.network.round_ms_of(self.known.round));
        end.saturating_add(self.draw(self.known.round, ASK, spread))
    }

    /// Returns the time of the next poll of an idle agent whose last poll was at `asked_ms`, or
    /// `None` if there are few agents or if rounds have no scheduled instants.
    ///
    /// In a crowd, polls are not held open until the end of a round. Instead, each agent polls
    /// while a lost upload can still be sent again, and once more after the round. If the next
    /// round is late, the agent repeats the poll after pauses. An agent whose newest handout
    /// (`has`) is for an earlier round polls immediately.
    pub(crate) fn asks_again(
        &self,
        has: Option<u64>,
        asked_ms: Option<u64>,
        now_ms: u64,
    ) -> Option<u64> {
        self.network.collect_ms.filter(|_| self.is_crowd())?;
        if plays(self.known.state) && self.known.round > has.unwrap_or(0) {
            return Some(now_ms);
        }
        if !plays(self.known.state) {
            let again = asked_ms.map(|asked| asked.saturating_add(ASK_WAITING_MS));
            return Some(again.unwrap_or(now_ms));
        }
        let margin = self.margin_ms(self.known.round);
        let closes = self.closes_at();
        let drawn = self.draw(self.known.round, CHECK, margin / 2);
        let check = closes.saturating_sub(margin).saturating_add(drawn);
        match now_ms < closes && asked_ms.is_none_or(|asked| asked < check) {
            true => Some(check),
            false => {
                let after = self.asks_after();
                let since = asked_ms.filter(|asked| *asked >= after);
                Some(since.map_or(after, |asked| asked.saturating_add(self.crowds_pause())))
            }
        }
    }

    /// Returns true if there are too many agents to hold polls open.
    pub(crate) fn is_crowd(&self) -> bool {
        self.n_agents > CROWD
    }

    /// Returns the pause between two polls of an agent in a crowd while there is no news.
    pub(crate) fn crowds_pause(&self) -> u64 {
        let (_, shortest) = ASK_PAUSE_MS;
        self.spread_ms(shortest, self.network.round_ms / 4).clamp(shortest, ASK_WAITING_MS)
    }

    /// Returns the current round, as far as the agent knows.
    pub(crate) fn round(&self) -> u64 {
        self.known.round
    }

    /// Returns the end of the round's collection period.
    pub(crate) fn closes_at(&self) -> u64 {
        let collect_ms = self.network.collect_ms_of(self.known.round);
        self.known.began_ms.saturating_add(collect_ms.unwrap_or(u64::MAX))
    }

    /// Draws a number in `0..below` that depends only on public values.
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

/// Returns the constant step between attempts once waits no longer double. The rest of `most` is
/// drawn.
fn step_ms(most: u64) -> u64 {
    most - most / 3
}

/// Returns true unless the study waits to begin or is paused.
fn plays(state: StudyState) -> bool {
    matches!(state, StudyState::Running | StudyState::Finished)
}

/// Returns a warning if a study's rounds are so short that the times of requests reveal the
/// durations of trials.
#[must_use]
pub fn short_rounds(federation: &Federation) -> Option<String> {
    let Network { round_ms, collect_ms, .. } = federation.network;
    (collect_ms.is_some() && round_ms < SHORT_MS).then(|| {
        let seconds = Duration::from_millis(round_ms).as_secs_f64();
        format!(
            "the rounds of this study last {seconds} s, and the times of this agent's requests show with that precision how \
             long its trials take; if the duration of a trial reveals its result, ask the operator for a study with \
             network.round_s of {} or more",
            SHORT_MS / 1000
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(collect_ms: Option<u64>) -> Pace {
        let network = Network { round_ms: 60_000, collect_ms, extra_ms: 0, is_sharded: false };
        Pace::new(Digest([3; 32]), (2, 10), network, 40)
    }

    fn at(instant: Instant) -> u64 {
        match instant {
            Instant::At(at) => at,
            other => panic!("{other:?}"),
        }
    }

    /// Reports that a round began `elapsed_ms` ago.
    fn heard(pace: &mut Pace, round: u64, elapsed_ms: u64, now_ms: u64) -> bool {
        pace.heard(round, StudyState::Running, Some(elapsed_ms), now_ms)
    }

    /// Instants lie in their window, differ between slots and rounds, and leave time for uploads to
    /// arrive.
    #[test]
    fn instants_are_spread_over_the_window() {
        for collect_ms in [4, 200, 54_000, 3_600_000] {
            let mut seen = std::collections::BTreeSet::new();
            for slot in 0..40 {
                for round in 0..5 {
                    let mut pace = pace(Some(collect_ms));
                    pace.slot = slot;
                    heard(&mut pace, round, 7, 1_007);
                    let offset = at(pace.upload_at(round)) - 1_000;
                    let quarter = (collect_ms / 4).min(10_000);
                    assert!(offset >= collect_ms - 2 * quarter && offset <= collect_ms - quarter);
                    seen.insert(offset);
                }
            }
            assert!(seen.len() as u64 >= (collect_ms / 8).min(100), "{seen:?}");
        }
    }

    /// A crowd spreads its uploads over half of the collection period and leaves time for them to
    /// arrive. It polls before the period ends and after the round.
    #[test]
    fn many_agents_are_spread_further_and_hold_no_polls_open() {
        let (mut sent, mut asked) = (Vec::new(), Vec::new());
        for slot in 0..2_000 {
            let mut pace = pace(Some(54_000));
            (pace.slot, pace.n_agents) = (slot, 100_000);
            assert_eq!(pace.asks_again(None, None, 700), Some(700), "nothing is known yet");
            assert_eq!(pace.asks_again(None, Some(700), 900), Some(15_700));
            heard(&mut pace, 3, 0, 1_000);
            sent.push(at(pace.upload_at(3)) - 1_000);
            assert_eq!(pace.asks_again(Some(2), Some(700), 20_000), Some(20_000), "it is behind");
            let check = pace.asks_again(Some(3), Some(700), 20_000).unwrap();
            assert!((45_000..=50_000).contains(&check), "{check}");
            let after = pace.asks_again(Some(3), Some(check), check).unwrap();
            let late = pace.asks_again(Some(3), None, 55_000);
            assert_eq!(late, Some(after), "it is too late to send again");
            let again = pace.asks_again(Some(3), Some(after + 5), after + 10);
            assert_eq!(again, Some(after + 5 + 15_000), "the round is late");
            asked.push(after - 61_000);
        }
        let range = |found: &[u64]| (found.iter().min().copied(), found.iter().max().copied());
        let (Some(first), Some(last)) = range(&sent) else { panic!("nobody sends") };
        assert!(first >= 17_000 && last <= 44_000 && last - first > 26_000, "{first} to {last}");
        let (Some(first), Some(last)) = range(&asked) else { panic!("nobody asks") };
        assert!(last <= 15_000 && last - first > 14_000, "{first} to {last}");
        assert_eq!(pace(Some(54_000)).asks_again(None, None, 700), None, "few wait");
        let mut relayed = pace(None);
        relayed.n_agents = 100_000;
        assert_eq!(relayed.asks_again(None, None, 700), None, "no instants");
    }

    /// Round 0 contains all initial trials, so its instants are later by the extra time, unlike in
    /// other rounds. The reported elapsed time of a round is capped.
    #[test]
    fn round_0_has_time_for_the_initial_trials() {
        let mut pace = pace(Some(54_000));
        pace.network.extra_ms = 2 * 60_000;
        heard(&mut pace, 0, u64::MAX, 1_000_000);
        assert_eq!(pace.known.began_ms, 1_000_000 - 180_000 - 25_000);
        heard(&mut pace, 0, 0, 2_000_000);
        let instant = at(pace.upload_at(0)) - 2_000_000;
        assert!((154_000..=164_000).contains(&instant), "{instant}");
        assert_eq!(pace.closes_at(), 2_174_000);
        assert!(
            pace.takes(0, false, 2_150_000),
            "a trial that ends in the third part of the round is in time"
        );
        assert_eq!(pace.asks_from(0, 2_175_000), 2_180_000);
        heard(&mut pace, 1, 0, 2_180_000);
        let instant = at(pace.upload_at(1)) - 2_180_000;
        assert!((34_000..=44_000).contains(&instant), "{instant}");
        assert_eq!(pace.closes_at(), 2_234_000);
    }

    #[test]
    fn attempts_follow_from_their_number_and_are_not_made_up_for() {
        let mut pace = pace(Some(54_000));
        heard(&mut pace, 3, 0, 0);
        let attempts: Vec<u64> = (0..12).map(|n| at(pace.attempt_at(3, n))).collect();
        assert!(attempts.is_sorted_by(|a, b| a < b));
        let last = attempts[11] - attempts[10];
        assert!((9_000..=27_000).contains(&last), "{last}");
        assert!(attempts[3] < 54_000, "several attempts before the round is over");
        assert_eq!(pace.due(3, 0, 0), (0, Instant::At(attempts[0])));
        assert_eq!(pace.due(3, 0, attempts[0]), (0, Instant::At(attempts[0])));
        let away = attempts[4] + 1;
        let (n, due) = pace.due(3, 0, away);
        assert!(at(due) + 1_000 >= away && n >= 4);
        // After a month, the next attempt is as soon as after a minute.
        for away in [60_000, 2_678_400_000] {
            let (n, due) = pace.due(3, 0, away);
            assert!((away - 1_000..away + 27_000).contains(&at(due)), "{due:?}");
            assert!(at(pace.attempt_at(3, n - 1)) + 1_000 < away);
            assert_eq!(pace.due(3, n - 1, away), (n, due));
        }
    }

    /// With rounds of one second, an agent retries within half a second even after it was refused
    /// for a long time.
    #[test]
    fn attempts_in_short_rounds_stay_within_half_of_one() {
        let mut pace = pace(Some(1_000));
        heard(&mut pace, 3, 0, 0);
        for now in (5_000..60_000).step_by(777) {
            let (n, _) = pace.due(3, 0, now);
            let next = at(pace.attempt_at(3, n + 1));
            assert!(next > at(pace.attempt_at(3, n)) && next <= now + 1_500, "{now}: {next}");
            assert!(next - at(pace.attempt_at(3, n)) <= 500, "{now}: {next}");
        }
    }

    /// The poll after a trial is at the round's instant or at a boundary, however long the trial
    /// takes.
    #[test]
    fn the_end_of_a_trial_is_rounded_up() {
        let mut pace = pace(Some(54_000));
        heard(&mut pace, 3, 0, 5);
        let own = at(pace.upload_at(3));
        for ended in [6, 100, own] {
            assert_eq!(pace.asks_from(3, ended), own);
            assert!(pace.takes(3, false, ended));
        }
        for (ended, boundary) in [(own + 1, 60_005), (60_005, 60_005), (60_006, 120_005)] {
            assert_eq!(pace.asks_from(3, ended), boundary);
            assert!(!pace.takes(3, false, ended) && pace.takes(3, true, ended));
        }
    }

    #[test]
    fn without_a_time_to_collect_nothing_waits() {
        let mut pace = pace(None);
        heard(&mut pace, 3, 0, 5);
        assert_eq!(pace.upload_at(3), Instant::Free);
        assert_eq!(pace.asks_from(3, 70), 70);
    }

    #[test]
    fn while_a_study_plays_no_rounds_there_is_no_instant() {
        let mut pace = pace(Some(54_000));
        for _ in 0..2 {
            assert_eq!(pace.upload_at(0), Instant::Unknown);
            assert!(!pace.takes(0, true, 20_000));
            assert_eq!(pace.asks_from(0, 20_000), 30_000);
            assert!(!pace.heard(0, StudyState::Waiting, None, 20_000));
        }
        // The study is about to begin, and its coordinator does not report the start yet.
        assert!(!pace.heard(0, StudyState::Running, None, 50_000));
        assert_eq!(pace.upload_at(0), Instant::Unknown);
        assert!(heard(&mut pace, 0, 3, 50_003));
        let first = at(pace.upload_at(0));
        assert!(first >= 84_000);
        // A paused round resumes with its old start, or restarts, even if only a moment later.
        for (elapsed_ms, later) in [(10_000, 0), (9_900, 100)] {
            assert!(!pace.heard(0, StudyState::Paused, Some(5_000), 55_000));
            assert_eq!(pace.upload_at(0), Instant::Unknown);
            heard(&mut pace, 0, elapsed_ms, 60_000);
            assert_eq!(at(pace.upload_at(0)), first + later);
        }
        // A past round stays over while the study is paused.
        assert!(pace.heard(1, StudyState::Paused, Some(0), 70_000));
        assert_eq!(pace.upload_at(0), Instant::Over);
    }

    /// The start of a round is unsigned. A false start can only delay a round or make an agent late
    /// for it.
    #[test]
    fn the_beginning_of_a_round_moves_only_when_it_begins_anew() {
        let mut pace = pace(Some(54_000));
        assert!(heard(&mut pace, 3, u64::MAX, 1_000_000));
        assert_eq!(pace.known.began_ms, 1_000_000 - 85_000);
        assert!(heard(&mut pace, 3, 0, 1_000_000));
        let first = at(pace.upload_at(3));
        // The same response with more latency, a false response, and the response of a coordinator
        // that stalls for hours.
        for (elapsed_ms, now_ms) in [(10, 1_000_040), (90_000, 1_000_500), (9_000_000, 9_999_999)] {
            assert!(!heard(&mut pace, 3, elapsed_ms, now_ms));
            assert_eq!(at(pace.upload_at(3)), first);
        }
        assert!(!heard(&mut pace, 2, 0, 1_020_000), "rounds only advance");
        assert!(heard(&mut pace, 3, 0, 1_020_000));
        assert_eq!(at(pace.upload_at(3)), first + 20_000);
        // The next round began no earlier than this one.
        assert!(heard(&mut pace, 4, 80_000, 1_090_000));
        assert_eq!(pace.known.began_ms, 1_020_000);
        assert_eq!(pace.upload_at(3), Instant::Over);
    }

    #[test]
    fn a_forged_round_is_forgotten_with_the_next_handout() {
        let mut pace = pace(Some(54_000));
        heard(&mut pace, 3, 0, 1_000_000);
        assert!(!heard(&mut pace, 42, 0, 1_000_001), "the study has 40");
        assert!(matches!(pace.upload_at(3), Instant::At(_)));
        assert!(heard(&mut pace, 41, 0, 1_000_001));
        assert_eq!(pace.upload_at(3), Instant::Over);
        pace.began(4, 0, 1_060_000);
        assert!(at(pace.upload_at(4)) >= 1_094_000);
    }
}
