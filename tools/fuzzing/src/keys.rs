//! Keys of all parties that a target simulates.

use std::sync::OnceLock;

use fedbo_wire::SigningKey;

/// Returns the coordinator's key, with which targets sign on its behalf.
pub(crate) fn coordinator() -> &'static SigningKey {
    static KEY: OnceLock<SigningKey> = OnceLock::new();
    KEY.get_or_init(|| SigningKey::from_seed([7; 32]))
}

/// Returns an agent's key.
pub(crate) fn agent() -> &'static SigningKey {
    static KEY: OnceLock<SigningKey> = OnceLock::new();
    KEY.get_or_init(|| SigningKey::from_seed([8; 32]))
}

/// Appends the coordinator's signature to arbitrary bytes, as in a handout.
pub(crate) fn signed_handout(unsigned: &[u8]) -> Vec<u8> {
    let signature = coordinator().sign("fedbo handout, version 1", &[unsigned]);
    [unsigned, &signature.0].concat()
}
