//! A player whose moves are typed at a terminal.

use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex};

use crate::common::{Sandbox, finished_code, terminal, wait_until};
use crate::play::two_programs::{rounds, sandbox};

/// A person at a terminal: the screen and the keyboard.
struct Person {
    screen: Arc<Mutex<String>>,
    keyboard: std::fs::File,
    child: std::process::Child,
}

impl Person {
    fn at(sandbox: &Sandbox, columns: u16, arguments: &[&str]) -> Self {
        let (ours, theirs) = terminal(columns);
        let other = theirs.try_clone().expect("another one");
        let child = sandbox
            .command(arguments)
            .stdin(theirs)
            .stdout(std::process::Stdio::null())
            .stderr(other)
            .spawn()
            .expect("the binary starts");
        let ours = std::fs::File::from(ours);
        let mut from = ours.try_clone().expect("another one");
        let screen = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(n_bytes @ 1..) = from.read(&mut part) {
                let text = String::from_utf8_lossy(&part[..n_bytes]).into_owned();
                shown.lock().expect("no panic").push_str(&text);
            }
        });
        Self { screen, keyboard: ours, child }
    }

    fn sees(&self, text: &str) -> bool {
        self.screen.lock().expect("no panic").contains(text)
    }

    fn waits_for(&self, text: &str) {
        wait_until(|| self.sees(text));
    }

    fn types(&mut self, line: &str) {
        self.keyboard.write_all(line.as_bytes()).expect("a terminal");
    }
}

#[test]
fn moves_are_typed_and_wrong_ones_typed_again() {
    let changes =
        [("command = [\"sh\", \"rival.sh\"]", "by_hand = true"), ("rounds = 6", "rounds = 3")];
    let sandbox = sandbox(&changes);
    let mut person = Person::at(&sandbox, 80, &["play", "duel.toml"]);
    person.waits_for("round 1 of 3, rival: your move? price=(one of 21 numbers from 0.0 to 1.0)");
    for (line, answer) in [
        ("dear\n", "dear"),
        ("price=0.49\n", "the nearest is price=0.5"),
        ("prize=1\n", "prize"),
        ("7\n", "7"),
        ("0.1 0.2\n", "given twice"),
    ] {
        person.types("\n");
        person.types(line);
        person.waits_for(answer);
    }
    assert_eq!(rounds(&sandbox).len(), 0);
    person.types("price=0.5\n");
    person.waits_for("round 2 of 3, rival: your move?");
    // A move from a different terminal can come first.
    sandbox.fedbo(&["game", "tell", "duel.toml", "rival", "0.25"]).expect(0, &[]);
    person.waits_for("round 3 of 3, rival: your move?");
    person.types("  1  \n");
    assert_eq!(finished_code(&mut person.child), Some(0));
    let prices: Vec<_> =
        rounds(&sandbox).iter().map(|round| round["actions"]["rival"]["price"].as_f64()).collect();
    assert_eq!(prices, [Some(0.5), Some(0.25), Some(1.0)]);
}

#[test]
fn a_game_in_memory_is_played_at_a_terminal_and_ends_with_ctrl_c() {
    let changes = [
        ("command = [\"sh\", \"rival.sh\"]", "by_hand = true"),
        ("storage = \"sqlite:duel.db\"\n", ""),
    ];
    let sandbox = sandbox(&changes);
    let mut person = Person::at(&sandbox, 40, &["play", "duel.toml"]);
    person.waits_for("your move?");
    person.types("0.5\n");
    person.waits_for("round 2 of 6");
    crate::common::interrupt(&person.child, rustix::process::Signal::INT);
    assert_eq!(finished_code(&mut person.child), Some(130));
    person.waits_for("interrupted after 1 round; the record was in memory and is lost");
}
