//! An agent's secrets occur only in the files that are meant to contain them (INV-16, INV-26).

use std::path::{Path, PathBuf};

use crate::ways::token;
use crate::world::{CHARGED, coordinator, members, take_turns};

/// Returns all files below a folder with their contents.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    found
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Decodes hexadecimal digits.
fn from_digits(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len()).step_by(2);
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    pairs.map(byte).collect()
}

/// None of an agent's files contains its token, and only the key file contains its key, whether as
/// text, hexadecimal digits or bytes. This is true while the agent takes part and after its study
/// has ended.
#[test]
fn canary_grep() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = coordinator("canaries", "dp-fts-de", CHARGED);
    let members = members(folder.path(), &coordinator);
    let look = |when: &str| {
        // The first slot's token consists of zeros, which occur in any file.
        for (slot, member) in (0..).zip(&members).skip(1) {
            let token = token(&coordinator.borrow(), slot);
            let key = std::fs::read_to_string(member.home.join("identity.key")).unwrap();
            let digits = key.trim_end().rsplit(|c: char| !c.is_ascii_hexdigit());
            let digits = digits.max_by_key(|part| part.len()).unwrap();
            let secret = from_digits(digits);
            assert_eq!(secret.len(), 32);
            let found = files(&member.home);
            let of_key = |name: &Path| name.ends_with("identity.key");
            assert_eq!(found.iter().filter(|(path, _)| of_key(path)).count(), 1);
            assert!(found.len() >= 3, "{found:?}");
            for (path, bytes) in &found {
                let place = format!("{} {when}", path.display());
                assert!(!holds(bytes, token.to_text().as_bytes()), "{place}");
                assert!(!holds(bytes, &token.secret), "{place}");
                if !of_key(path) {
                    assert!(!holds(bytes, digits.as_bytes()), "{place}");
                    assert!(!holds(bytes, &secret), "{place}");
                }
            }
        }
    };
    look("after enrolment");
    let mut sessions: Vec<_> = members.iter().map(|m| m.session().unwrap()).collect();
    for session in &mut sessions {
        for _ in 0..10 {
            session.advance().unwrap();
        }
    }
    look("in a round");
    take_turns(&mut sessions);
    look("at the end");
    drop(sessions);
    look("afterwards");
}
