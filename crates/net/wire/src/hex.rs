//! Hexadecimal strings of byte arrays: two lowercase digits per byte.

use data_encoding::HEXLOWER;

/// Error for a string that is not in the expected hexadecimal form.
///
/// The error never contains the string, which may be a secret pasted in the wrong place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HexUnreadable {
    /// The string is too short or too long.
    #[error("a {what} has {expected} hexadecimal digits, this text has {found} characters")]
    Length {
        /// Name of the expected kind of value.
        what: &'static str,
        /// Number of digits expected.
        expected: usize,
        /// Number of characters found.
        found: usize,
    },
    /// A character is not a lowercase hexadecimal digit.
    #[error(
        "a {what} consists of the digits 0-9 and a-f in lower case, but character {at} of this text is not one of them"
    )]
    Digit {
        /// Name of the expected kind of value.
        what: &'static str,
        /// Position of the character, counted from 1.
        at: usize,
    },
}

pub(crate) fn from_hex<const N: usize>(
    what: &'static str,
    text: &str,
) -> Result<[u8; N], HexUnreadable> {
    let is_other = |digit| !matches!(digit, '0'..='9' | 'a'..='f');
    let other = |at| HexUnreadable::Digit { what, at: at + 1 };
    if let Some(at) = text.chars().position(is_other) {
        return Err(other(at));
    }
    if text.len() != 2 * N {
        return Err(HexUnreadable::Length { what, expected: 2 * N, found: text.len() });
    }
    let mut bytes = [0; N];
    HEXLOWER
        .decode_mut(text.as_bytes(), &mut bytes)
        .map_err(|partial| other(partial.error.position))?;
    Ok(bytes)
}

/// Implements the string and JSON forms of a type that wraps bytes.
macro_rules! hex_text {
    ($type:ident, $what:literal) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                data_encoding::HEXLOWER.encode_display(&self.0).fmt(f)
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{self}")
            }
        }

        impl std::str::FromStr for $type {
            type Err = crate::HexUnreadable;

            fn from_str(text: &str) -> Result<Self, crate::HexUnreadable> {
                crate::hex::from_hex($what, text).map(Self)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use hex_text;
