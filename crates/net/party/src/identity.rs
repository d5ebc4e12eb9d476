//! The keys of a party.

use std::path::Path;

use fedbo_database::sync_folder;
use fedbo_transport::{KeyError, read_key, read_or_make_key};
use fedbo_wire::{PublicKey, SigningKey};

use crate::HomeError;

/// Name of the key's file in a home.
const KEY_FILE: &str = "identity.key";
/// Name of the key that is to replace it, while coordinators are being told.
const NEXT_FILE: &str = "identity.key.next";

/// The key of a party, and the one that is to replace it.
#[derive(Debug)]
pub struct Identity {
    /// In force.
    pub key: SigningKey,
    /// A rotation has begun and is not complete: coordinators know the one or the other.
    pub next: Option<SigningKey>,
}

impl Identity {
    /// Reads the keys of a home.
    ///
    /// # Errors
    /// If there is none, or it is not its owner's alone.
    pub fn load(home: &Path) -> Result<Self, HomeError> {
        let path = home.join(KEY_FILE);
        Ok(Self {
            key: read_key(&path)?.ok_or(HomeError::KeyMissing { path })?,
            next: read_key(&home.join(NEXT_FILE))?,
        })
    }

    /// Reads the keys of a home, after making one if there is none.
    ///
    /// # Errors
    /// If it cannot be made, or is not its owner's alone.
    pub fn load_or_make(home: &Path) -> Result<Self, HomeError> {
        read_or_make_key(&home.join(KEY_FILE))?;
        Self::load(home)
    }

    /// Returns the key in force and the one that is to replace it, which is made unless that was done before.
    ///
    /// # Errors
    /// If a key cannot be read or made.
    pub fn with_next(home: &Path) -> Result<(SigningKey, SigningKey), HomeError> {
        let Self { key, .. } = Self::load(home)?;
        Ok((key, read_or_make_key(&home.join(NEXT_FILE))?))
    }

    /// Puts the next key in force.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn adopt_next(home: &Path) -> Result<(), HomeError> {
        let (from, to) = (home.join(NEXT_FILE), home.join(KEY_FILE));
        let adopted = std::fs::rename(&from, &to).and_then(|()| sync_folder(&to));
        Ok(adopted.map_err(|cause| KeyError::Refused { path: to, cause })?)
    }

    /// The keys, first the one with this public half if there is such.
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
