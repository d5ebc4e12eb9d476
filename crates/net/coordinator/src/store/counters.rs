//! Counters of agents' requests (INV-28).

use fedbo_wire::Digest;

use super::StudyKey;

/// Number of recent requests to remember per slot. A message-based transport may redeliver several
/// of them, in the same order.
const KEPT: usize = 8;
/// Size of a stored request in bytes: its counter, and a prefix of its digest.
const SIZE: usize = 8 + 16;

/// A signed request from a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedRequest {
    /// The study.
    pub study: StudyKey,
    /// The slot.
    pub slot: u32,
    /// The counter of the request.
    pub counter: u64,
    /// Digest of the request's signature, which is different for each request.
    pub mark: Digest,
}

/// Verdict on the counter of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The counter is larger than all earlier ones, or the request exactly repeats a recent one.
    Taken,
    /// The counter is not larger than all earlier ones, and the request does not exactly repeat a
    /// recent one.
    Behind {
        /// Largest known counter.
        known: u64,
    },
}

/// Counter of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounter {
    /// Largest accepted counter. 0 before the first request.
    pub counter: u64,
    /// First round that may belong to the slot's current key. Earlier rounds belong to a different
    /// key.
    pub since: u64,
}

/// Recent requests from a slot, newest last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recent(Vec<(u64, [u8; 16])>);

impl Recent {
    /// Decodes stored requests. Ignores a truncated entry at the end.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let (requests, _) = bytes.as_chunks::<SIZE>();
        let request = |bytes: &[u8; SIZE]| {
            let (counter, mark) = bytes.split_at(8);
            let counter = counter.try_into().map(u64::from_le_bytes).unwrap_or(0);
            (counter, mark.try_into().unwrap_or_default())
        };
        Self(requests.iter().map(request).collect())
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let requests = self.0.iter();
        requests.flat_map(|(counter, mark)| [&counter.to_le_bytes()[..], mark].concat()).collect()
    }

    /// Returns the largest counter, or 0 before the first request.
    pub(super) fn counter(&self) -> u64 {
        self.0.last().map_or(0, |(counter, _)| *counter)
    }

    /// Checks a request, and records it if it is new. The returned flag is true if the request is
    /// new.
    pub(super) fn take(&mut self, request: &CountedRequest) -> (Counted, bool) {
        let known = self.counter();
        let mut mark = [0; 16];
        mark.copy_from_slice(&request.mark.0[..16]);
        let entry = (request.counter, mark);
        if request.counter > known {
            self.0.push(entry);
            let n_old = self.0.len().saturating_sub(KEPT);
            self.0.drain(..n_old);
            return (Counted::Taken, true);
        }
        match self.0.contains(&entry) {
            true => (Counted::Taken, false),
            false => (Counted::Behind { known }, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(counter: u64, mark: u8) -> CountedRequest {
        CountedRequest { study: StudyKey(1), slot: 0, counter, mark: Digest([mark; 32]) }
    }

    #[test]
    fn a_counter_grows_and_the_last_requests_may_come_again() {
        let mut recent = Recent::default();
        assert_eq!(recent.take(&request(0, 1)).0, Counted::Behind { known: 0 });
        for counter in 1..=20 {
            assert_eq!(recent.take(&request(2 * counter, 1)), (Counted::Taken, true));
        }
        recent = Recent::of(&recent.to_bytes());
        assert_eq!(recent.counter(), 40);
        let behind = (Counted::Behind { known: 40 }, false);
        for counter in [26, 40] {
            assert_eq!(recent.take(&request(counter, 1)), (Counted::Taken, false));
            assert_eq!(recent.take(&request(counter, 2)), behind, "another request");
        }
        assert_eq!(recent.take(&request(39, 1)), behind, "a request that never arrived");
        assert_eq!(recent.take(&request(24, 1)), behind, "a request that was dropped");
        assert_eq!(recent.to_bytes().len(), KEPT * SIZE);
    }
}
