//! Rates of phrases that make prose hard to read, in comments and documentation, per 1,000 words. A rise above the ceilings fails.
//!
//! A rate shows where to read. It does not judge a sentence.

use std::fs;
use std::path::Path;

use crate::process::root;

/// A phrase: one of `first`, followed by one of `then` if there are any.
struct Phrase {
    name: &'static str,
    first: &'static [&'static str],
    then: &'static [&'static str],
}

const PHRASES: [Phrase; 12] = [
    Phrase {
        name: "what … as a noun",
        first: &["what", "What"],
        then: &[
            "is", "was", "it", "they", "the", "a", "an", "has", "have", "had", "other", "others",
            "one", "each", "of",
        ],
    },
    Phrase {
        name: "who",
        first: &["who", "Who", "whoever", "Whoever", "whose", "Whose", "whom", "Whom"],
        then: &[],
    },
    Phrase { name: "stands", first: &["stand", "stands", "stood"], then: &[] },
    Phrase { name: "none where", first: &["none", "None"], then: &["where", "if", "of"] },
    Phrase { name: "so many", first: &["so"], then: &["many"] },
    Phrase { name: "anew", first: &["anew"], then: &[] },
    Phrase { name: "goes on", first: &["go", "goes", "going", "went"], then: &["on"] },
    Phrase { name: "of which", first: &["of", "to", "from", "in", "by"], then: &["which", "whom"] },
    Phrase { name: "told trial", first: &["told", "untold"], then: &["trial", "trials"] },
    Phrase { name: "set back", first: &["set", "sets"], then: &["back"] },
    Phrase { name: "given back", first: &["give", "gives", "given", "gave"], then: &["back"] },
    Phrase { name: "begun", first: &["begun"], then: &[] },
];

/// Ceilings per 1,000 words: of everything, and of documents for users.
const CEILINGS: [(&str, f64); 2] = [("all", 0.2), ("documents", 0.2)];
/// Ceilings, in everything, of phrases that are common elsewhere too: up to 0.45 and 0.4 times per
/// 1,000 words in other Rust projects.
const COMMON: [(&str, f64); 2] = [("who", 0.3), ("of which", 0.5)];

/// Words and phrases of some texts.
#[derive(Default)]
struct Count {
    n_words: usize,
    n_phrases: [usize; PHRASES.len()],
}

impl Count {
    fn add(&mut self, line: &str) {
        self.n_words += line.split_whitespace().count();
        // Words with the character before each: phrases are separated by one space.
        let mut words: Vec<(&str, bool)> = Vec::new();
        let mut rest = line;
        while let Some(at) = rest.find(is_of_word) {
            let after = &rest[at..];
            let end = after.find(|c| !is_of_word(c)).unwrap_or(after.len());
            words.push((&after[..end], &rest[..at] == " "));
            rest = &after[end..];
        }
        for (index, (word, _)) in words.iter().enumerate() {
            let next = words.get(index + 1).filter(|(_, is_near)| *is_near).map(|(next, _)| next);
            for (phrase, n) in PHRASES.iter().zip(&mut self.n_phrases) {
                let follows =
                    phrase.then.is_empty() || next.is_some_and(|n| phrase.then.contains(n));
                *n += usize::from(phrase.first.contains(word) && follows);
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    fn rate(&self, phrase: usize) -> f64 {
        1e3 * self.n_phrases[phrase] as f64 / self.n_words.max(1) as f64
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Adds the comments of sources, and all lines of documents, below a folder.
fn count(folder: &Path, all: &mut Count, documents: &mut Count) {
    const LEFT_OUT: [&str; 6] =
        ["target", ".git", "node_modules", "corpus", "regressions", "__pycache__"];
    for entry in fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !LEFT_OUT.contains(&name.as_str()) {
                count(&path, all, documents);
            }
        } else if matches!(ending.as_str(), "rs" | "py" | "md") {
            let text = fs::read_to_string(&path).expect("a text");
            let relative = path.strip_prefix(root()).expect("below the root");
            let is_document = ending == "md"
                && (relative.starts_with("docs") || relative.components().count() == 1);
            for line in text.lines().map(str::trim) {
                let comment = match ending.as_str() {
                    "rs" => line.starts_with("//"),
                    "py" => line.starts_with('#') || line.starts_with("\"\"\""),
                    _ => true,
                };
                if comment {
                    all.add(line);
                    if is_document {
                        documents.add(line);
                    }
                }
            }
        }
    }
}

#[test]
fn phrases_that_readers_have_to_decode_are_rare() {
    let (mut all, mut documents) = (Count::default(), Count::default());
    count(&root(), &mut all, &mut documents);
    assert!(all.n_words > 100_000 && documents.n_words > 50_000, "{}", all.n_words);
    let mut faults = Vec::new();
    for ((texts, ceiling), found) in CEILINGS.into_iter().zip([&all, &documents]) {
        for (index, phrase) in PHRASES.iter().enumerate() {
            let rate = found.rate(index);
            let common = COMMON.iter().find(|(name, _)| texts == "all" && *name == phrase.name);
            let ceiling = common.map_or(ceiling, |(_, ceiling)| *ceiling);
            if rate > ceiling {
                faults.push(format!(
                    "{texts}: {:?} {rate:.2} times per 1,000 words, at most {ceiling}",
                    phrase.name
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn phrases_are_counted_as_words() {
    let mut count = Count::default();
    count.add("// What is sent goes on; none of which, somewhat isolated, stands. Whose? So many.");
    assert_eq!(count.n_phrases, [1, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0]);
    let mut count = Count::default();
    count.add("// A told trial is set back and given back, begun anew.");
    assert_eq!(count.n_phrases, [0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 1]);
    let mut count = Count::default();
    count.add("what, is; in: which so manyfold going once");
    assert_eq!(count.n_phrases, [0; PHRASES.len()]);
}
