//! The frozen configuration of a study, signed by its coordinator (INV-11).

use crate::{BadSignature, Digest, PublicKey, Signature, SigningKey, digest};

/// Header of the response with the configuration: its [`config_digest`] in hexadecimal.
pub const HEADER_CONFIG: &str = "fedbo-config";

/// Header of the response that offers a slot: the slot in decimal.
pub const HEADER_SLOT: &str = "fedbo-slot";

const PURPOSE: &str = "fedbo config, version 1";

/// Returns the digest that identifies a configuration in uploads and handouts.
pub fn config_digest(text: &[u8]) -> Digest {
    digest(PURPOSE, &[text])
}

/// Signs the text of a configuration, byte for byte.
pub fn sign_config(coordinator: &SigningKey, text: &[u8]) -> Signature {
    coordinator.sign(PURPOSE, &[text])
}

/// Checks that this coordinator signed this text.
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
