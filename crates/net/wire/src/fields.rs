//! Fields of fixed size, read from the front of bytes.

/// The rest of a message that is not read yet. A field that is not there is `None`, and takes nothing.
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

    /// So many bytes, as they lie there.
    pub(crate) fn bytes(&mut self, n: u64) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(usize::try_from(n).ok()?)?;
        self.0 = rest;
        Some(first)
    }

    /// So many numbers, every bit of them. Nothing is allocated unless all are there (INV-19).
    pub(crate) fn weights(&mut self, n: u64) -> Option<Vec<f64>> {
        let (numbers, _) = self.bytes(n.checked_mul(8)?)?.as_chunks();
        Some(numbers.iter().map(|n| f64::from_le_bytes(*n)).collect())
    }

    /// Bytes that are left.
    pub(crate) fn n_left(&self) -> u64 {
        self.0.len() as u64
    }
}
