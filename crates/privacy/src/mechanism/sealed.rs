//! The unread vectors of a round.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use super::collecting::VectorRefused;

/// One vector per slot, copied without being read and cleared on drop (INV-16). At most N M numbers
/// of 8 bytes (INV-18).
pub(crate) struct Sealed {
    n_slots: u32,
    n_features: u32,
    /// The vectors in slot order, read only at the end of the round.
    pub(super) by_slot: BTreeMap<u32, Zeroizing<Box<[f64]>>>,
}

impl Sealed {
    /// Creates an empty collection for a mechanism with `n_slots` slots and `n_features` features.
    pub(crate) fn new(n_slots: u32, n_features: u32) -> Self {
        Self { n_slots, n_features, by_slot: BTreeMap::new() }
    }

    /// Stores a slot's vector. Checks only the slot, the length and whether the slot already has a
    /// vector (INV-5).
    pub(crate) fn keep(&mut self, slot: u32, vector: &[f64]) -> Result<(), VectorRefused> {
        if slot >= self.n_slots {
            return Err(VectorRefused::UnknownSlot { slot, last: self.n_slots - 1 });
        }
        if vector.len() != self.n_features as usize {
            return Err(VectorRefused::WrongLength {
                slot,
                expected: self.n_features,
                found: vector.len(),
            });
        }
        if self.by_slot.contains_key(&slot) {
            return Err(VectorRefused::Repeated { slot });
        }
        self.by_slot.insert(slot, Zeroizing::new(vector.into()));
        Ok(())
    }
}
