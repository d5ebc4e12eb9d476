//! A party's keys.

use std::path::Path;

use fedbo_database::sync_folder;
use fedbo_transport::{KeyError, read_key, read_or_make_key};
use fedbo_wire::{PublicKey, SigningKey};

use crate::HomeError;

/// File name of the key in a home.
const KEY_FILE: &str = "identity.key";
/// File name of the next key during a rotation.
const NEXT_FILE: &str = "identity.key.next";

/// A party's key, and during a rotation the next key.
#[derive(Debug)]
pub struct Identity {
    /// The current key.
    pub key: SigningKey,
    /// The next key, during a rotation. Each coordinator knows one of the two keys.
    pub next: Option<SigningKey>,
}

impl Identity {
    /// Reads the keys of a home.
    ///
    /// # Errors
    /// If the key is missing, or other users can access it.
    pub fn load(home: &Path) -> Result<Self, HomeError> {
        let path = home.join(KEY_FILE);
        Ok(Self {
            key: read_key(&path)?.ok_or(HomeError::KeyMissing { path })?,
            next: read_key(&home.join(NEXT_FILE))?,
        })
    }

    /// Reads the keys of a home, creating the current key if it does not exist.
    ///
    /// # Errors
    /// If the key cannot be created, or other users can access it.
    pub fn load_or_make(home: &Path) -> Result<Self, HomeError> {
        read_or_make_key(&home.join(KEY_FILE))?;
        Self::load(home)
    }

    /// Returns the current and the next key, creating the next key if it does not exist.
    ///
    /// # Errors
    /// If a key cannot be read or created.
    pub fn with_next(home: &Path) -> Result<(SigningKey, SigningKey), HomeError> {
        let Self { key, .. } = Self::load(home)?;
        Ok((key, read_or_make_key(&home.join(NEXT_FILE))?))
    }

    /// Makes the next key the current one.
    ///
    /// # Errors
    /// If the file cannot be renamed.
    pub fn adopt_next(home: &Path) -> Result<(), HomeError> {
        let (from, to) = (home.join(NEXT_FILE), home.join(KEY_FILE));
        let adopted = std::fs::rename(&from, &to).and_then(|()| sync_folder(&to));
        Ok(adopted.map_err(|cause| KeyError::Refused { path: to, cause })?)
    }

    /// Returns all keys. If one of them has the public key `known`, it comes first.
    #[must_use]
    pub fn in_order(self, known: PublicKey) -> Vec<SigningKey> {
        let mut keys: Vec<SigningKey> = std::iter::once(self.key).chain(self.next).collect();
        if let Some(place) = keys.iter().position(|key| key.public() == known) {
            keys.swap(0, place);
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_missing_is_not_made_anew() {
        let home = tempfile::tempdir().unwrap();
        Identity::load_or_make(home.path()).unwrap();
        std::fs::remove_file(home.path().join(KEY_FILE)).unwrap();
        let missing = Identity::load(home.path());
        assert!(matches!(missing, Err(HomeError::KeyMissing { .. })));
    }

    #[test]
    fn the_next_key_is_made_once_and_takes_the_place_of_the_first() {
        let home = tempfile::tempdir().unwrap();
        Identity::load_or_make(home.path()).unwrap();
        let (first, next) = Identity::with_next(home.path()).unwrap();
        let again = Identity::with_next(home.path()).unwrap();
        assert_eq!(again.1.public(), next.public());
        let both = Identity::load(home.path()).unwrap();
        assert_eq!(both.key.public(), first.public());
        let ordered = both.in_order(next.public());
        assert_eq!(ordered[0].public(), next.public());
        Identity::adopt_next(home.path()).unwrap();
        let after = Identity::load(home.path()).unwrap();
        assert!(after.key.public() == next.public() && after.next.is_none());
    }
}
