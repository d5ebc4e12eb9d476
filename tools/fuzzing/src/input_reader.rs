//! Splits the bytes of an input, as provided by libFuzzer, into the values that a target needs.

/// Remaining bytes of an input. At the end of the input, numbers are 0 and slices are empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces<'a>(pub(crate) &'a [u8]);

impl<'a> Pieces<'a> {
    /// Returns the next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }

    /// Returns a number below `n`, which must be above 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::from(u16::from_le_bytes(self.take())) % n
    }

    /// Returns the next four bytes as a little-endian number.
    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    /// Returns the next eight bytes as a little-endian number.
    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    /// Returns the next N bytes, padded with zeros at the end of the input.
    pub(crate) fn take<const N: usize>(&mut self) -> [u8; N] {
        let (first, rest) = self.0.split_at(self.0.len().min(N));
        self.0 = rest;
        let mut bytes = [0; N];
        bytes[..first.len()].copy_from_slice(first);
        bytes
    }

    /// Reads a length from the next byte and returns a slice of that length, or a shorter one if
    /// fewer bytes are left.
    pub(crate) fn piece(&mut self) -> &'a [u8] {
        let n = usize::from(self.byte());
        let (first, rest) = self.0.split_at(self.0.len().min(n));
        self.0 = rest;
        first
    }

    /// Returns the bytes up to the next line break. The line break is consumed but not returned.
    pub(crate) fn line(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == b'\n');
        let (first, rest) = match end {
            Some(end) => (&self.0[..end], &self.0[end + 1..]),
            None => (self.0, &[][..]),
        };
        self.0 = rest;
        first
    }

    /// Returns true if no bytes are left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Decodes bytes as UTF-8; invalid sequences become replacement characters.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
