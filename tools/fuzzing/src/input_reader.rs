//! An input taken apart: libFuzzer gives bytes, a target wants several things.

/// The rest of an input. Where nothing is left, numbers are 0 and pieces are empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces<'a>(pub(crate) &'a [u8]);

impl<'a> Pieces<'a> {
    /// The next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }

    /// A number below `n`, which is above 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::from(u16::from_le_bytes(self.take())) % n
    }

    /// The next four bytes as a number, little end first.
    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    /// The next eight bytes as a number, little end first.
    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    /// The next N bytes; zeros for those that are not there.
    pub(crate) fn take<const N: usize>(&mut self) -> [u8; N] {
        let (first, rest) = self.0.split_at(self.0.len().min(N));
        self.0 = rest;
        let mut bytes = [0; N];
        bytes[..first.len()].copy_from_slice(first);
        bytes
    }

    /// So many bytes, where the next byte says how many; fewer if fewer are left.
    pub(crate) fn piece(&mut self) -> &'a [u8] {
        let n = usize::from(self.byte());
        let (first, rest) = self.0.split_at(self.0.len().min(n));
        self.0 = rest;
        first
    }

    /// Up to the next line break, which is taken and not part of it.
    pub(crate) fn line(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == b'\n');
        let (first, rest) = match end {
            Some(end) => (&self.0[..end], &self.0[end + 1..]),
            None => (self.0, &[][..]),
        };
        self.0 = rest;
        first
    }

    /// Returns true if nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The text that bytes are in UTF-8, with a replacement for what is none.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
