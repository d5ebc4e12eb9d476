//! Enrolment tokens. An operator gives a token to a party, which uses it once to claim a slot.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64URL_NOPAD;
use zeroize::{Zeroize as _, Zeroizing};

use crate::keys::sha256;
use crate::{Digest, PublicKey, SigningKey, digest};

/// A single-use secret for claiming a slot, with the coordinator's key and the digest of the
/// study's configuration.
///
/// The key and the digest tell the holder which coordinator to trust and which configuration to
/// agree to (INV-11).
///
/// The string form is `fbt2_` followed by unpadded URL-safe base64 of the three fields in this
/// order and the first four bytes of their SHA-256. Only this string reveals the secret. The secret
/// is never sent. Instead, requests are signed with [`EnrolmentToken::key`].
#[derive(Clone)]
pub struct EnrolmentToken {
    /// The secret: 20 bytes from the system's random number generator.
    pub secret: [u8; 20],
    /// The key of the coordinator that accepts the token and signs everything that the agent
    /// receives.
    pub coordinator: PublicKey,
    /// [`config_digest`](crate::config_digest) of the study. The party agrees only to this
    /// configuration.
    pub config: Digest,
}

/// Error for a string that is not a token. Reveals nothing about the string.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenUnreadable {
    /// The string does not begin with the prefix of a token.
    #[error(
        "this is another kind of text: an enrolment token begins with \"fbt2_\"; ask the study's operator for it"
    )]
    OtherKind,
    /// The token is from version 1 of the protocol.
    #[error(
        "this enrolment token was made by an earlier version of fedbo and does not contain the \
         configuration that you agree to; ask the study's operator for a new one, made by a \
         coordinator of this version"
    )]
    Earlier,
    /// Characters are missing.
    #[error(
        "the enrolment token was cut off: it has {found} of {TEXT_LENGTH} characters; copy it again, all of it"
    )]
    CutOff {
        /// Number of characters found.
        found: usize,
    },
    /// There are too many characters.
    #[error(
        "the enrolment token has {found} characters, expected {TEXT_LENGTH}: other text was copied with it; copy only the token"
    )]
    TooLong {
        /// Number of characters found.
        found: usize,
    },
    /// Some characters were changed.
    #[error(
        "the enrolment token was mistyped: its last characters do not match the rest; copy it again"
    )]
    Mistyped,
}

const PREFIX: &str = "fbt2_";
/// The prefix of tokens from version 1 of the protocol.
const EARLIER_PREFIX: &str = "fbt1_";

const CHECK_SIZE: usize = 4;
const SIZE: usize = 20 + 32 + 32 + CHECK_SIZE;

/// Length of the string form: the prefix, and four characters per three bytes without padding.
const TEXT_LENGTH: usize = PREFIX.len() + (4 * SIZE).div_ceil(3);

impl EnrolmentToken {
    /// Derives a key from the secret. An [`EnrolRequest`](crate::EnrolRequest) signed with this key
    /// claims the slot.
    ///
    /// A coordinator stores only the public half, with which nobody can claim a slot.
    pub fn key(&self) -> SigningKey {
        let seed = digest("fedbo enrolment token, version 2", &[&self.secret]);
        SigningKey::from_seed(seed.0)
    }

    /// Returns the string to give to the party.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new([0; SIZE]);
        let (content, check) = bytes.split_at_mut(SIZE - CHECK_SIZE);
        content[..20].copy_from_slice(&self.secret);
        content[20..52].copy_from_slice(&self.coordinator.0);
        content[52..].copy_from_slice(&self.config.0);
        check.copy_from_slice(&sha256(content)[..CHECK_SIZE]);
        let mut text = Zeroizing::new(String::with_capacity(TEXT_LENGTH));
        text.push_str(PREFIX);
        BASE64URL_NOPAD.encode_append(bytes.as_ref(), &mut text);
        text
    }
}

impl FromStr for EnrolmentToken {
    type Err = TokenUnreadable;

    /// Parses a token. Surrounding white space is ignored.
    fn from_str(text: &str) -> Result<Self, TokenUnreadable> {
        let text = text.trim();
        if text.starts_with(EARLIER_PREFIX) {
            return Err(TokenUnreadable::Earlier);
        }
        let Some(encoded) = text.strip_prefix(PREFIX) else {
            // A proper prefix of `PREFIX` is a truncated token.
            let is_rest = !text.is_empty() && PREFIX.starts_with(text);
            return Err(if is_rest {
                TokenUnreadable::CutOff { found: text.len() }
            } else {
                TokenUnreadable::OtherKind
            });
        };
        match text.chars().count() {
            found @ ..TEXT_LENGTH => return Err(TokenUnreadable::CutOff { found }),
            TEXT_LENGTH => {}
            found => return Err(TokenUnreadable::TooLong { found }),
        }
        let mut bytes = Zeroizing::new([0; SIZE]);
        let encoded = encoded.as_bytes();
        if BASE64URL_NOPAD.decode_len(encoded.len()) != Ok(SIZE)
            || BASE64URL_NOPAD.decode_mut(encoded, bytes.as_mut()).is_err()
        {
            return Err(TokenUnreadable::Mistyped);
        }
        let (content, check) = bytes.split_at(SIZE - CHECK_SIZE);
        if sha256(content)[..CHECK_SIZE] != *check {
            return Err(TokenUnreadable::Mistyped);
        }
        let mut token =
            Self { secret: [0; 20], coordinator: PublicKey([0; 32]), config: Digest([0; 32]) };
        token.secret.copy_from_slice(&content[..20]);
        token.coordinator.0.copy_from_slice(&content[20..52]);
        token.config.0.copy_from_slice(&content[52..]);
        Ok(token)
    }
}

impl Drop for EnrolmentToken {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

impl fmt::Debug for EnrolmentToken {
    /// Omits the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnrolmentToken {{ coordinator: {}, config: {} }}", self.coordinator, self.config)
    }
}
