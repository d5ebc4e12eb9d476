//! Mistakes of new users, as transcripts: tests/mistakes/*.trycmd, one per part of the program.
//!
//! `TRYCMD=overwrite cargo test -p fedbo-cli --test services mistakes` records the current output.

use std::net::TcpListener;

#[test]
fn mistakes() {
    // From now on, the port is in use, by this listener or by a different program.
    let _taken = TcpListener::bind("127.0.0.1:47433");
    let cases = trycmd::TestCases::new();
    for name in ["FEDBO_TOKEN", "FEDBO_LOG", "FEDBO_COORDINATOR"] {
        assert!(std::env::var_os(name).is_none(), "{name} is set");
    }
    // Make the output independent of the environment.
    cases.env("LANG", "C").env("NO_COLOR", "1");
    cases.case("tests/mistakes/*.trycmd");
    if cfg!(not(feature = "games")) {
        cases.skip("tests/mistakes/games.trycmd");
    }
}

/// The transcripts have at least forty mistakes, without duplicates.
#[test]
fn the_transcripts_hold_many_mistakes() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mistakes");
    let mut commands = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "trycmd") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let Some(command) = line.strip_prefix("$ ") else {
                continue;
            };
            // Commands that succeed only prepare later ones.
            if let Some(code) = lines.next_if(|next| next.starts_with("? ")) {
                assert_ne!(code, "? 1", "an internal error: {command}");
                let answer = lines.peek().copied().unwrap_or_default();
                assert!(!answer.is_empty(), "{command} is answered with nothing");
                commands.push(command.to_owned());
            }
        }
    }
    let n = commands.len();
    commands.sort();
    commands.dedup();
    assert_eq!(commands.len(), n, "a mistake is made twice");
    assert!(n >= 40, "{n} mistakes");
}
