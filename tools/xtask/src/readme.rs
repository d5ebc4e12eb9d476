//! Checks the first screen of README.md: its commands are those of CI, and its picture belongs to
//! its first command.

use std::fs;

use crate::process::root;

/// Heading that follows the first screen.
const BELOW: &str = "## First steps";

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn first_screen() -> String {
    let text = read("README.md");
    let (first, _) = text.split_once(BELOW).expect("a heading below the first screen");
    first.to_owned()
}

/// Commands of the first screen that start with `cargo`, without comments.
fn commands(screen: &str) -> Vec<&str> {
    let lines = screen.lines().filter(|line| line.starts_with("cargo "));
    lines.map(|line| line.split(" #").next().unwrap_or(line).trim_end()).collect()
}

/// Returns the text after `option` up to the next space.
fn value<'a>(command: &'a str, option: &str) -> &'a str {
    let (_, after) = command.split_once(option).expect("the option");
    after.split_whitespace().next().expect("its value")
}

#[test]
fn the_first_screen_has_one_command_for_the_job_and_the_test_command_of_ci() {
    let screen = first_screen();
    let commands = commands(&screen);
    assert!(commands[0].starts_with("cargo run --release -- run "), "{commands:?}");
    assert!(root().join(value(commands[0], "-- run ")).is_file(), "{commands:?}");
    assert_eq!(commands[1], "cargo xtask test");
    assert!(read(".ci/run").lines().any(|line| line == commands[1]));
    for link in ["docs/install.md", "docs/from-optuna.md", "#limits-of-the-guarantees"] {
        assert!(screen.contains(&format!("({link})")), "{link}");
    }
    // This is about two screens of text.
    assert!(screen.lines().count() < 60, "{} lines", screen.lines().count());
}

/// The legend describes each arm of the first command in plain words that also occur in the text,
/// and the axis label comes from the command's file.
#[test]
fn the_picture_of_the_first_screen_is_of_its_first_command() {
    let screen = first_screen();
    let picture = screen
        .split("](")
        .find_map(|part| part.split(')').next()?.ends_with(".svg").then_some(part));
    let path = picture.and_then(|part| part.split(')').next()).expect("a picture");
    let svg = read(path).replace("&apos;", "'").replace("&#39;", "'");
    let command = commands(&screen)[0];
    let words = ["together", "each alone", "copy the others' best"];
    for (arm, words) in value(command, "--arms ").split(',').zip(words) {
        assert!(svg.contains(&format!("{words} ({arm})")), "{words} ({arm}) is not in {path}");
    }
    for words in ["*together*", "*each alone*", "others' best"] {
        assert!(screen.contains(words), "{words}");
    }
    let file = read(value(command, "-- run "));
    let name = file.lines().find_map(|line| line.strip_prefix("value_name = \""));
    let name = name.and_then(|line| line.split('"').next()).expect("words for the value");
    assert!(svg.contains(&format!("{name} (best so far)")), "{name} is not in {path}");
    assert!(svg.contains(&format!("n = {}", value(command, "--runs "))), "{path}");
    assert!(svg.len() < 100_000, "{} bytes", svg.len());
}
