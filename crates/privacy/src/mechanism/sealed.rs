//! The vectors of a round before anybody reads them.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use super::collecting::VectorRefused;

/// One vector a slot, copied and not read; each is cleared when it goes (INV-16). At most N M numbers of 8 bytes (INV-18).
pub(crate) struct Sealed {
    n_slots: u32,
    n_features: u32,
    /// To be read at last, in the order of slots.
    pub(super) by_slot: BTreeMap<u32, Zeroizing<Box<[f64]>>>,
}

impl Sealed {
    /// None yet.
    pub(crate) fn new(n_slots: u32, n_features: u32) -> Self {
        Self { n_slots, n_features, by_slot: BTreeMap::new() }
    }

    /// Keeps the vector of a slot. Looks at the slot, at the length and at who has sent, and at nothing else (INV-5).
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
