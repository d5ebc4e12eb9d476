//! The frozen configuration of a study, signed by its coordinator (INV-11).

use crate::{BadSignature, Digest, PublicKey, Signature, SigningKey, digest};

/// Header of a response with a configuration: the configuration's [`config_digest`] in hexadecimal.
pub const HEADER_CONFIG: &str = "fedbo-config";

/// Header of a response that offers a slot: the slot in decimal.
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
/// If the signature does not match.
pub fn verify_config(
    coordinator: &PublicKey,
    text: &[u8],
    signature: &Signature,
) -> Result<(), BadSignature> {
    coordinator.verify(PURPOSE, &[text], signature)
}
