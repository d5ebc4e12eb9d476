//! The frozen configuration of a study, as its coordinator signs it (INV-11).

use crate::{BadSignature, Digest, PublicKey, Signature, SigningKey, digest};

/// Header of the configuration's answer: its [`config_digest`] in hexadecimal.
pub const HEADER_CONFIG: &str = "fedbo-config";

const PURPOSE: &str = "fedbo config, version 1";

/// The digest that stands for a configuration in uploads and handouts.
pub fn config_digest(text: &[u8]) -> Digest {
    digest(PURPOSE, &[text])
}

/// A coordinator's signature under the text, byte for byte.
pub fn sign_config(coordinator: &SigningKey, text: &[u8]) -> Signature {
    coordinator.sign(PURPOSE, &[text])
}

/// That this coordinator signed this text.
///
/// # Errors
/// If it did not.
pub fn verify_config(
    coordinator: &PublicKey,
    text: &[u8],
    signature: &Signature,
) -> Result<(), BadSignature> {
    coordinator.verify(PURPOSE, &[text], signature)
}
