//! Sources of a round's randomness, and the kinds of release that they produce.

use zeroize::Zeroizing;

/// The operating system returned no random bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system provided no random bytes ({0}); no round is released without them")]
pub struct NoiseError(pub(crate) getrandom::Error);

mod sealed {
    use zeroize::Zeroizing;

    use super::NoiseError;

    /// Keys for rounds. This trait cannot be implemented outside the crate.
    pub trait Keys {
        /// Returns the key from which a round's streams are derived.
        fn key(&mut self, round: u64) -> Result<Zeroizing<[u8; 32]>, NoiseError>;
        /// Records the number of 32-bit words that a round has drawn.
        fn count(&mut self, _n_words: u128) {}
    }

    pub trait Sealed {
        /// The kind's code in an encoded release.
        const CODE: u8;
    }
}
pub(crate) use sealed::Sealed;

/// The kind of a release, which determines its guarantee: [`Secure`] or [`Simulated`]. Kinds cannot
/// be converted.
pub trait Kind: Sealed + Copy + Eq + std::fmt::Debug + Send + Sync + 'static {
    /// True if the release is private.
    const PRIVATE: bool;
}

/// The kind of releases with noise from the operating system's random generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secure {}

/// The kind of releases with noise from a seed, which gives no privacy (INV-10).
///
/// Simulated and secure releases have different types. The first example does not compile; the
/// second, with `Secure` instead of `Simulated`, does:
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

/// A source of one key per round. The trait is sealed; it is implemented by [`SecureNoise`] and,
/// for simulations, by `SimNoise`.
pub trait NoiseSource: sealed::Keys {
    /// The kind of the resulting releases.
    type Kind: Kind;
}

/// A source that takes 32 fresh bytes from the operating system for each round. ChaCha20 expands
/// them, and they are cleared after use (INV-8).
///
/// The source has no seed and can be neither stored nor copied (INV-10). The first example does not
/// compile; the second, without the bound `Clone`, does:
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
    /// Creates the source for production.
    #[expect(
        clippy::new_without_default,
        reason = "every caller names the source of noise explicitly"
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

/// A source whose noise is determined by a seed and the round number, for simulations and tests.
///
/// The same seed and round always give the same coins and noise, regardless of earlier draws.
#[cfg(feature = "simulation")]
#[derive(Debug)]
pub struct SimNoise {
    seed: [u8; 32],
    n_words: u128,
}

#[cfg(feature = "simulation")]
impl SimNoise {
    /// Creates a source from a seed.
    pub fn new(seed: [u8; 32]) -> Self {
        Self { seed, n_words: 0 }
    }

    /// Returns the number of 32-bit words drawn in all rounds so far.
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
