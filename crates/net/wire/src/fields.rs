//! Reader of fixed-size fields from the front of a byte slice.

/// The unread rest of a message. Reading past the end returns `None` and consumes nothing.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// Takes the next `n` bytes.
    pub(crate) fn bytes(&mut self, n: u64) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(usize::try_from(n).ok()?)?;
        self.0 = rest;
        Some(first)
    }

    /// Takes `n` little-endian floats, bit for bit. Allocates only if all of them are present
    /// (INV-19).
    pub(crate) fn weights(&mut self, n: u64) -> Option<Vec<f64>> {
        let (numbers, _) = self.bytes(n.checked_mul(8)?)?.as_chunks();
        Some(numbers.iter().map(|n| f64::from_le_bytes(*n)).collect())
    }

    /// Number of unread bytes.
    pub(crate) fn n_left(&self) -> u64 {
        self.0.len() as u64
    }
}
