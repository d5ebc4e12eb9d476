//! The faults and restarts of a federation.
use fedbo_protocol::Tick;

use super::{Event, PERIOD, Subject, World};

impl<S: Subject> World<S> {
    /// Draws the faults and their times.
    pub(super) fn plan(&mut self) {
        let horizon = 10 * usize::try_from(PERIOD).unwrap();
        for _crash in 0..self.luck.below(4) {
            let (moment, time) = (self.luck.below(horizon), 1 + self.luck.below(150));
            self.after(moment, Event::Crash(time));
        }
        let n_slots = self.subject.n_slots();
        for _cut in 0..self.luck.below(3) {
            let slots = (0..n_slots).filter(|_| self.luck.bernoulli(0.5)).collect();
            let directions = [[true, false], [false, true], [true, true]][self.luck.below(3)];
            let (moment, time) = (self.luck.below(horizon), 1 + self.luck.below(250));
            self.after(moment, Event::Cut(slots, directions, time));
        }
        for _jump in 0..self.luck.below(3) {
            let (moment, step) = (self.luck.below(horizon), self.luck.below(400));
            let step = i64::try_from(step).unwrap() - 200;
            self.after(moment, Event::Jump(step));
        }
        for slot in 0..n_slots {
            let is_late = self.luck.bernoulli(0.2);
            let begins = if is_late { self.luck.below(300) } else { 0 };
            self.counts.add("join late", u64::from(is_late));
            self.after(begins, Event::Rise(slot));
            for _fall in 0..self.luck.below(3) {
                // Some agents are away for several rounds.
                let longest = if self.luck.bernoulli(0.3) { 500 } else { 50 };
                let (moment, time) = (self.luck.below(horizon), 1 + self.luck.below(longest));
                self.after(moment, Event::Fall(slot, Some(time)));
            }
            if self.luck.bernoulli(0.1) {
                let moment = self.luck.below(horizon);
                self.after(moment, Event::Fall(slot, None));
            }
        }
    }

    pub(super) fn cut_off(&mut self, slots: &[u32], directions: [bool; 2], time: usize) {
        self.note(&("cut", slots, directions, time));
        for slot in slots {
            for (until, is_cut) in self.cut[*slot as usize].iter_mut().zip(directions) {
                if is_cut {
                    *until = (*until).max(self.now + time as Tick);
                }
            }
        }
    }

    pub(super) fn jump(&mut self, step: i64) {
        self.note(&("jump", step));
        let what = if step > 0 { "jumps" } else { "stands still" };
        self.counts.add(what, 1);
        self.clock.set(step, self.now);
    }

    /// Stops an agent. Its work in progress is lost, and its durable state is kept.
    pub(super) fn fall(&mut self, slot: u32, time: Option<usize>) {
        let now = self.now;
        let member = &mut self.members[slot as usize];
        if member.has_ended() {
            return;
        }
        match time {
            Some(time) if member.live.is_some() => {
                member.stop();
                member.away_until = now + time as Tick;
                self.note(&("falls", slot));
                self.counts.add("falls", 1);
                self.after(time, Event::Rise(slot));
            }
            Some(_) => {}
            None => {
                member.stop();
                member.is_gone = true;
                self.note(&("leaves", slot));
                self.counts.add("leaves", 1);
            }
        }
    }
}
