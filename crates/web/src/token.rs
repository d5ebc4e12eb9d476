//! Tokens: secrets in URLs and headers, compared in constant time. Tokens that outlive a server are
//! stored in files that only their owner can access.

use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use fedbo_console::BadInput;

/// A secret that authenticates a browser or a worker.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Creates a random token of 160 bits.
    ///
    /// # Errors
    /// Fails if the system cannot provide random bytes.
    pub fn new() -> Result<Self, BadInput> {
        let mut bytes = [0; 20];
        getrandom::fill(&mut bytes).map_err(|error| {
            BadInput(format!("cannot get random bytes from the system: {error}"))
        })?;
        Ok(Self(letters(&bytes)))
    }

    /// Returns the token as a string.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Derives a secret of `n_bytes` bytes (at most 32) for a purpose. The token cannot be
    /// recovered from the secret.
    pub fn derived(&self, purpose: &str, n_bytes: usize) -> Self {
        let whole: [u8; 32] = Sha256::digest(format!("fedbo {purpose}\0{}", self.0)).into();
        Self(letters(&whole[..n_bytes.min(whole.len())]))
    }

    /// Compares with the given string in constant time.
    pub fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

/// Encodes bytes as letters and digits.
fn letters(bytes: &[u8]) -> String {
    data_encoding::BASE32_NOPAD.encode(bytes).to_lowercase()
}

/// Minimum number of characters in a token: 160 bits in the alphabet of fedbo's own tokens.
const CHARS_MIN: usize = 32;
/// Maximum size of the file in bytes.
const BYTES_MAX: u64 = 1024;

/// Reads the token from a file. Creates the file with a new token if it does not exist.
///
/// # Errors
/// Fails if other users can read the file, it contains no token, or the system denies access.
pub fn kept_token(path: &Path) -> Result<Token, BadInput> {
    let refused = |error: std::io::Error| BadInput(format!("{}: {error}", path.display()));
    let opened = match std::fs::File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // If another process creates the file first, its token is used.
            let text = format!("{}\n", Token::new()?.text());
            fedbo_transport::write_new_secret(path, &text).map_err(refused)?;
            std::fs::File::open(path)
        }
        opened => opened,
    };
    let file = opened.map_err(refused)?;
    let mode = file.metadata().map_err(refused)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(BadInput(format!(
            "{}: others may read or change this token (its mode is {mode:03o}, expected 600); `chmod 600` it if nobody has, or remove it \
             for a new one",
            path.display()
        )));
    }
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).map_err(refused)?;
    let token = text.trim();
    let is_plain = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if token.len() < CHARS_MIN || !is_plain {
        return Err(BadInput(format!(
            "{}: expected a token of at least {CHARS_MIN} letters and digits; remove the file to create a new one",
            path.display()
        )));
    }
    Ok(Token(token.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_kept_from_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let made = kept_token(&path).expect("a token");
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!((mode & 0o777, made.text().len()), (0o600, 32));
        assert_eq!(kept_token(&path).expect("the same").text(), made.text());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("nowhere"), &link).expect("a link");
        let error = kept_token(&link).err().expect("a refusal").0;
        let parts =
            ["/link: it is a link to /", "/nowhere, which does not exist", "remove the link"];
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("a mode");
        let error = kept_token(&path).err().expect("a refusal").0;
        assert!(error.contains("640") && error.contains("chmod 600"), "{error}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("a mode");
        for text in ["", "short", &"a b".repeat(20), &"\u{e9}".repeat(40)] {
            std::fs::write(&path, text).expect("a file");
            let error = kept_token(&path).err().expect("a refusal").0;
            assert!(error.contains("at least 32"), "{text:?}: {error}");
        }
    }
}
