//! The game of these tests: a reasoning player and a program, with payoffs from a shell script.

use crate::common::{Ran, Sandbox};

const FILE: &str = r#"[game]
name = "duel"
rounds = 6
initial = 2
seed = 3
storage = "sqlite:duel.db"

[payoffs]
command = ["sh", "payoffs.sh", "{shop.price}", "{rival.price}"]
timeout_s = 20
range = [-2.0, 2.0]

[players.shop]
level = 1
grid = 11

[players.shop.space.price]
type = "float"
low = 0.0
high = 1.0

[players.rival]
command = ["sh", "rival.sh"]
grid = 21

[players.rival.space.price]
type = "float"
low = 0.0
high = 1.0
"#;

/// Script that prints the payoffs of both players.
pub(crate) const PAYOFFS: &str = r#"awk -v a="$1" -v b="$2" 'BEGIN { printf "%.17g %.17g\n", 1 - (a - b) ^ 2, b * (a - b / 2) }'"#;

/// Script that prints the rival's action, which differs between rounds.
pub(crate) const RIVAL: &str =
    r#"awk -v r="$FEDBO_ROUND" 'BEGIN { print "{\"price\": " (r * 7) % 21 / 20 "}" }'"#;

/// Returns the game's file with these replacements.
pub(crate) fn duel(changes: &[(&str, &str)]) -> String {
    let mut text = FILE.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from:?} in {text}");
        text = text.replacen(from, to, 1);
    }
    text
}

/// Returns a folder with the game in `duel.toml` and its scripts.
pub(crate) fn sandbox(changes: &[(&str, &str)]) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("duel.toml", &duel(changes));
    sandbox.write("payoffs.sh", PAYOFFS);
    sandbox.write("rival.sh", RIVAL);
    sandbox
}

/// Returns a script that behaves differently in some rounds, unless a file `mended` exists.
pub(crate) fn broken_in(rounds: &str, broken: &str, script: &str) -> String {
    format!("if [ ! -e mended ]; then case $FEDBO_ROUND in {rounds}) {broken};; esac; fi\n{script}")
}

/// Plays the game quietly.
pub(crate) fn play(sandbox: &Sandbox) -> Ran {
    sandbox.fedbo(&["play", "duel.toml", "--quiet"])
}

/// Returns the record, with one JSON object per line.
pub(crate) fn record(sandbox: &Sandbox) -> String {
    let ran = sandbox.fedbo(&["game", "record", "duel.toml", "--json"]);
    ran.expect(0, &[]);
    ran.stdout
}

/// Returns the rounds of the record.
pub(crate) fn rounds(sandbox: &Sandbox) -> Vec<serde_json::Value> {
    let text = record(sandbox);
    let rounds = text.lines().map(serde_json::from_str);
    rounds.collect::<Result<_, _>>().expect("JSON on each line")
}

/// Returns the rows of `results.csv` about a player, with columns by name.
pub(crate) fn results_of(sandbox: &Sandbox, player: &str) -> Vec<crate::common::Exported> {
    let path = sandbox.path("results/duel/results.csv");
    let mut reader = csv::Reader::from_path(path).expect("results");
    let header = reader.headers().expect("a header").clone();
    let mut rows: Vec<crate::common::Exported> = Vec::new();
    for record in reader.records() {
        let record = record.expect("a whole row");
        let columns = header.iter().zip(&record);
        rows.push(columns.map(|(name, field)| (name.to_owned(), field.to_owned())).collect());
    }
    rows.retain(|row| row["agent"] == player);
    rows
}
