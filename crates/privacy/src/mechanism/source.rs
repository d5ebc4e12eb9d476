//! The source of a round's randomness, and the kind of release that follows from it.

use zeroize::Zeroizing;

/// The operating system gave no random bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gave no random bytes ({0}); without them no round is released")]
pub struct NoiseError(pub(crate) getrandom::Error);

mod sealed {
    use zeroize::Zeroizing;

    use super::NoiseError;

    /// Keys of rounds; outside this crate nobody can make one.
    pub trait Keys {
        /// The key of a round's streams.
        fn key(&mut self, round: u64) -> Result<Zeroizing<[u8; 32]>, NoiseError>;
        /// Told how many 32-bit words a round has drawn.
        fn count(&mut self, _n_words: u128) {}
    }

    pub trait Sealed {
        /// In the bytes of a release.
        const CODE: u8;
    }
}
pub(crate) use sealed::Sealed;

/// The kind of a release, which says what it is worth: [`Secure`] or [`Simulated`]. Nothing turns one into the other.
pub trait Kind: Sealed + Copy + Eq + std::fmt::Debug + Send + Sync + 'static {
    /// True if the release may be called private.
    const PRIVATE: bool;
}

/// Noise from the operating system's generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secure {}

/// Noise from a seed: nothing about it is private (INV-10).
///
/// A simulated release is of another type than a secure one. With `Secure` in the place of `Simulated` this compiles:
///
/// ```compile_fail,E0308
/// use fedbo_privacy::mechanism::{Release, Secure, Simulated};
/// fn publish(_: Release<Secure>) {}
/// fn rehearse(release: Release<Simulated>) { publish(release) }
/// ```
///
/// ```
/// use fedbo_privacy::mechanism::{Release, Secure};
/// fn publish(_: Release<Secure>) {}
/// fn release(release: Release<Secure>) { publish(release) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulated {}

impl Sealed for Secure {
    const CODE: u8 = 1;
}
impl Kind for Secure {
    const PRIVATE: bool = true;
}
impl Sealed for Simulated {
    const CODE: u8 = 2;
}
impl Kind for Simulated {
    const PRIVATE: bool = false;
}

/// Gives each round a key of its own. Sealed: the sources are [`SecureNoise`] and, for simulations, `SimNoise`.
pub trait NoiseSource: sealed::Keys {
    /// The kind of its releases.
    type Kind: Kind;
}

/// 32 fresh bytes of the operating system for each round, expanded by ChaCha20 and cleared after use (INV-8).
///
/// There is no seed to give, nothing to save and nothing to copy (INV-10); without `Clone` this compiles:
///
/// ```compile_fail,E0277
/// fn copies<T: Clone>(_: T) {}
/// copies(fedbo_privacy::mechanism::SecureNoise::new());
/// ```
///
/// ```
/// fn takes<T>(_: T) {}
/// takes(fedbo_privacy::mechanism::SecureNoise::new());
/// ```
#[derive(Debug)]
pub struct SecureNoise(());

impl SecureNoise {
    /// The source for production.
    #[expect(
        clippy::new_without_default,
        reason = "where noise comes from is said in full wherever it is chosen"
    )]
    pub fn new() -> Self {
        Self(())
    }
}

impl sealed::Keys for SecureNoise {
    fn key(&mut self, _round: u64) -> Result<Zeroizing<[u8; 32]>, NoiseError> {
        let mut key = Zeroizing::new([0; 32]);
        getrandom::fill(key.as_mut()).map_err(NoiseError)?;
        Ok(key)
    }
}

impl NoiseSource for SecureNoise {
    type Kind = Secure;
}

/// Noise that a seed and the number of a round determine: for simulations and tests.
///
/// The same seed and round give the same coins and the same noise, whatever was drawn before.
#[cfg(feature = "simulation")]
#[derive(Debug)]
pub struct SimNoise {
    seed: [u8; 32],
    n_words: u128,
}

#[cfg(feature = "simulation")]
impl SimNoise {
    /// The source with this seed.
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed, n_words: 0 }
    }

    /// 32-bit words that all rounds so far have drawn.
    pub fn n_words(&self) -> u128 {
        self.n_words
    }
}

#[cfg(feature = "simulation")]
impl sealed::Keys for SimNoise {
    fn key(&mut self, round: u64) -> Result<Zeroizing<[u8; 32]>, NoiseError> {
        use sha2::{Digest, Sha256};
        let mut hasher = Sha256::new();
        hasher.update(b"fedbo simulated noise\0");
        hasher.update(self.seed);
        hasher.update(round.to_le_bytes());
        Ok(Zeroizing::new(hasher.finalize().into()))
    }

    fn count(&mut self, n_words: u128) {
        self.n_words += n_words;
    }
}

#[cfg(feature = "simulation")]
impl NoiseSource for SimNoise {
    type Kind = Simulated;
}
