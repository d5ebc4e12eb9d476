//! Language checks: documentation does not open with a question word, and names are terms of the
//! field.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::root;

/// Words that documentation must not start with, as they introduce a question instead of a
/// statement.
const QUESTIONS: [&str; 10] =
    ["What", "Whose", "Who", "Whom", "How", "Where", "Which", "Whether", "When", "Why"];
/// Prepositions that introduce a question together with a word of [`ASKED`]: "By whom", "In which".
const PREPOSITIONS: [&str; 12] =
    ["By", "In", "On", "At", "For", "To", "With", "Of", "From", "Under", "Between", "After"];
/// Question words after a preposition.
const ASKED: [&str; 6] = ["whom", "which", "whose", "what", "how", "where"];
/// Former names in the code, each with its replacement.
const DIALECT: [(&str, &str); 14] = [
    ("Purse", "PrivacyBudget"),
    ("Book", "Releases, ResultsFile"),
    ("Desk", "CoordinatorDriver"),
    ("Scribe", "ArmWriter"),
    ("Course", "GameHistory"),
    ("Because", "StopReason"),
    ("Seat", "MemberState, Leader"),
    ("Trouble", "HostError"),
    ("Tellings", "ToldTrials"),
    ("Standing", "ConnectionState"),
    ("Brake", "FailureCounter"),
    ("sit_down", "acquire_leadership"),
    ("carry_out", "apply"),
    ("vouch", "authenticate"),
];

/// Collects the Rust sources below a folder.
pub(crate) fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("a folder of sources");
    for entry in entries.map(|entry| entry.expect("an entry")) {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Splits a line of documentation into its marker and its text.
fn documentation(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let marker = ["///", "//!"].into_iter().find(|marker| line.starts_with(marker))?;
    Some((marker, line[marker.len()..].trim()))
}

/// Returns true if documentation that starts with this line opens with a question word.
fn asks(opening: &str) -> bool {
    let mut words = opening.split_whitespace();
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    QUESTIONS.contains(&first) || PREPOSITIONS.contains(&first) && ASKED.contains(&second)
}

/// Returns true if a line contains `word` in code, outside comments and string literals.
fn has_word(line: &str, word: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let unquoted: String = code.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    unquoted.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|each| each == word)
}

#[test]
fn documentation_says_what_a_thing_is_and_names_are_those_of_the_field() {
    let mut files = Vec::new();
    for folder in ["crates", "games", "research", "tools"] {
        sources(&root().join(folder), &mut files);
    }
    let mut faults = Vec::new();
    for path in files.iter().filter(|path| !path.ends_with("xtask/src/language.rs")) {
        let text = fs::read_to_string(path).expect("a source");
        let mut before = None;
        for (line, number) in text.lines().zip(1..) {
            let place = || format!("{}:{number}", path.display());
            let found = documentation(line);
            if let Some((marker, opening)) = found
                && before != Some(marker)
                && asks(opening)
            {
                faults.push(format!("{}: {opening}", place()));
            }
            before = found.map(|(marker, _)| marker);
            for (word, instead) in DIALECT {
                if has_word(line, word) {
                    faults.push(format!("{}: {word}; say {instead}", place()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn questions_are_told_from_statements() {
    for question in ["What it is.", "By whom it is made.", "Whether it ends."] {
        assert!(asks(question), "{question}");
    }
    for statement in ["The reason.", "A trial in which it ends.", "Returns true."] {
        assert!(!asks(statement), "{statement}");
    }
    assert!(has_word("let desk: Desk = new();", "Desk"));
    assert!(!has_word("// Desk", "Desk") && !has_word("\"Desk\"", "Desk"));
}
