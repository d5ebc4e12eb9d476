//! Enrolment tokens: what an operator gives to a party, once, so that it can take a slot.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64URL_NOPAD;
use zeroize::{Zeroize as _, Zeroizing};

use crate::keys::sha256;
use crate::{Digest, PublicKey, SigningKey, digest};

/// A secret that takes a slot once, the key of the coordinator that gave it, and the digest of the study's configuration: who holds
/// a token knows whom to believe, and what is agreed to (INV-11).
///
/// Its text is `fbt2_` and, in base64 for URLs without padding, the three in this order and the first four bytes of their SHA-256.
/// Nothing shows the secret but this text, and it never travels: [`EnrolmentToken::key`] signs in its place.
#[derive(Clone)]
pub struct EnrolmentToken {
    /// 20 bytes from the system's generator.
    pub secret: [u8; 20],
    /// The coordinator that accepts it, and signs what the agent will be given.
    pub coordinator: PublicKey,
    /// [`config_digest`](crate::config_digest) of the study: another configuration is none that the party agreed to.
    pub config: Digest,
}

/// A text that is no token. It says nothing of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenUnreadable {
    /// It does not begin as a token does.
    #[error(
        "this is another kind of text: an enrolment token begins with \"fbt2_\"; ask the study's operator for it"
    )]
    OtherKind,
    /// It is a token of version 1 of the protocol.
    #[error(
        "this enrolment token was made by an earlier version of fedbo and does not say to which configuration you agree; ask the \
         study's operator for a new one, made by a coordinator of this version"
    )]
    Earlier,
    /// Characters are missing.
    #[error(
        "the enrolment token was cut off: it has {found} of {TEXT_LENGTH} characters; copy it again, all of it"
    )]
    CutOff {
        /// Characters there are.
        found: usize,
    },
    /// There are too many.
    #[error(
        "the enrolment token has {found} characters, expected {TEXT_LENGTH}: something else was copied with it; copy it alone"
    )]
    TooLong {
        /// Characters there are.
        found: usize,
    },
    /// Characters are others than they were.
    #[error(
        "the enrolment token was mistyped: its last characters do not fit the others; copy it again"
    )]
    Mistyped,
}

const PREFIX: &str = "fbt2_";
/// The prefix of tokens of version 1 of the protocol.
const EARLIER_PREFIX: &str = "fbt1_";

const CHECK_SIZE: usize = 4;
const SIZE: usize = 20 + 32 + 32 + CHECK_SIZE;

/// Characters of the text: the prefix, and four for every three bytes, the last piece as short as it may be.
const TEXT_LENGTH: usize = PREFIX.len() + (4 * SIZE).div_ceil(3);

impl EnrolmentToken {
    /// The key that the secret stands for. It signs that a slot is taken ([`EnrolRequest`](crate::EnrolRequest)); of it a coordinator
    /// stores the public half, which takes no slot.
    pub fn key(&self) -> SigningKey {
        let seed = digest("fedbo enrolment token, version 2", &[&self.secret]);
        SigningKey::from_seed(seed.0)
    }

    /// The token as it is handed over.
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

    /// White space around it is ignored.
    fn from_str(text: &str) -> Result<Self, TokenUnreadable> {
        let text = text.trim();
        if text.starts_with(EARLIER_PREFIX) {
            return Err(TokenUnreadable::Earlier);
        }
        let Some(encoded) = text.strip_prefix(PREFIX) else {
            // The beginning of a prefix is a token of which little is left.
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
    /// Prints nothing of the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnrolmentToken {{ coordinator: {}, config: {} }}", self.coordinator, self.config)
    }
}
