//! A set of a roster's slots, with one bit per slot.

use fedbo_wire::{Digest, digest};

/// A set of slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotSet(Vec<u8>);

impl SlotSet {
    /// Returns an empty set for a roster of `n_slots` slots.
    pub(crate) fn new(n_slots: u32) -> Self {
        Self(vec![0; n_slots.div_ceil(8) as usize])
    }

    /// Restores a stored set. Ignores slots beyond the roster.
    pub(crate) fn of(mut bytes: Vec<u8>, n_slots: u32) -> Self {
        bytes.resize(n_slots.div_ceil(8) as usize, 0);
        if let (Some(last), rest @ 1..) = (bytes.last_mut(), n_slots % 8) {
            *last &= (1 << rest) - 1;
        }
        Self(bytes)
    }

    pub(crate) fn has(&self, slot: u32) -> bool {
        self.0.get(slot as usize / 8).is_some_and(|byte| byte & (1 << (slot % 8)) != 0)
    }

    /// Adds a slot. Ignores slots beyond the roster.
    pub(crate) fn insert(&mut self, slot: u32) {
        if let Some(byte) = self.0.get_mut(slot as usize / 8) {
            *byte |= 1 << (slot % 8);
        }
    }

    /// Adds all slots of another set.
    pub(crate) fn add(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own |= other;
        }
    }

    /// Removes all slots of another set.
    pub(crate) fn remove_all(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own &= !other;
        }
    }

    /// Returns the number of slots.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// Iterates over the slots in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let n_bits = u32::try_from(8 * self.0.len()).unwrap_or(u32::MAX);
        (0..n_bits).filter(|slot| self.has(*slot))
    }

    /// Returns a digest of the slots. A sum identifies the slots of its vectors by this digest.
    pub(crate) fn digest(&self) -> Digest {
        digest("fedbo slots of a shard, version 1", &[&self.0])
    }

    /// Returns the set as a bitmap, lowest bit first.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_beyond_the_roster_are_left_out() {
        let all = SlotSet::of(vec![0xff; 9], 11);
        assert_eq!(all.iter().collect::<Vec<_>>(), (0..11).collect::<Vec<_>>());
        assert_eq!((all.len(), all.has(11), all.bytes().len()), (11, false, 2));
        let whole = SlotSet::of(vec![0xff], 16);
        assert_eq!(whole.len(), 8);
        let mut some = SlotSet::new(11);
        some.insert(10);
        some.insert(99);
        let mut rest = all.clone();
        rest.remove_all(&some);
        assert_eq!((some.len(), rest.len(), rest.has(10)), (1, 10, false));
        rest.add(&some);
        assert_eq!(rest, all);
    }
}
