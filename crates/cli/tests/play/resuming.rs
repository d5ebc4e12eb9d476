//! Games that are killed or interrupted in the middle of a round, and continue as if they had not
//! been.

use rustix::process::Signal;

use crate::common::{Sandbox, finished, finished_code, interrupt, json, wait_until};
use crate::play::two_programs::{
    PAYOFFS, RIVAL, broken_in, duel, play, record, results_of, rounds, sandbox,
};

/// Start of a payoff script that records the round, and is slow in the round named in the file
/// `hold`.
const SLOW: &str = r#"echo "$FEDBO_ROUND" >> log
if [ "$FEDBO_ROUND" = "$(cat hold)" ]; then exec sleep 4; fi
"#;

fn log(sandbox: &Sandbox) -> Vec<String> {
    let text = std::fs::read_to_string(sandbox.path("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Ends a game in the middle of the given rounds, and compares its record with that of an
/// uninterrupted game.
fn takes_the_same_course(text: &str, payoffs: &str, ends: &[(usize, Signal)]) {
    let with_scripts = || {
        let sandbox = Sandbox::new();
        sandbox.write("duel.toml", text);
        sandbox.write("payoffs.sh", &format!("{SLOW}{payoffs}"));
        sandbox.write("rival.sh", RIVAL);
        sandbox.write("hold", "none\n");
        sandbox
    };
    let whole = with_scripts();
    play(&whole).expect(0, &[]);
    let expected = record(&whole);
    let cut = with_scripts();
    for (round, signal) in ends {
        cut.write("hold", &format!("{round}\n"));
        let child = cut.start(&["play", "duel.toml"]);
        let holds = || log(&cut).last().is_some_and(|last| *last == round.to_string());
        wait_until(holds);
        interrupt(&child, *signal);
        let mut child = child;
        if *signal == Signal::KILL {
            assert_eq!(finished_code(&mut child), None);
        } else {
            let ran = finished(child);
            let said = format!(
                "interrupted after {} rounds; continue with: fedbo play duel.toml",
                round - 1
            );
            ran.expect(130, &["stopping: ", &said]);
        }
        assert_eq!(rounds(&cut).len(), round - 1);
        // The round is played again from the start.
        cut.write("hold", "none\n");
        cut.write("log", "");
    }
    let ran = cut.fedbo(&["play", "duel.toml"]);
    ran.expect(0, &["duel: continues after "]);
    assert_eq!(record(&cut), expected);
    assert_eq!(results_of(&cut, "shop").len(), rounds(&whole).len());
}

const ENDS: [(usize, Signal); 5] = [
    (2, Signal::KILL),
    (5, Signal::INT),
    (6, Signal::KILL),
    (11, Signal::KILL),
    (13, Signal::TERM),
];

#[test]
fn levels_1_and_2_on_grids() {
    let text =
        duel(&[("rounds = 6", "rounds = 14"), ("command = [\"sh\", \"rival.sh\"]", "level = 2")]);
    takes_the_same_course(&text, PAYOFFS, &ENDS);
}

#[test]
fn levels_1_and_2_with_continuous_actions() {
    let text = duel(&[
        ("rounds = 6", "rounds = 14"),
        ("command = [\"sh\", \"rival.sh\"]\ngrid = 21", "level = 2\nexpectation = 20"),
        ("grid = 11", "expectation = 20"),
    ]);
    takes_the_same_course(&text, PAYOFFS, &ENDS);
}

/// The game has levels 0 to 2 and a program, grids and continuous actions, and a few lost payoffs.
#[test]
fn four_players() {
    let third = r#"
[players.market]
level = 2
expectation = "lite"
[players.market.space.price]
type = "float"
low = 0.1
high = 10.0
log = true
[players.market.space.kind]
type = "categorical"
choices = ["plain", "fancy"]
[players.fair]
level = 0
[players.fair.space.stands]
type = "int"
low = 3
high = 9
"#;
    let text = duel(&[
        ("rounds = 6", "rounds = 14\nfailures_max = 2"),
        ("timeout_s = 20", "on_failure = \"go-on\""),
        (
            "\"{rival.price}\"]",
            "\"{rival.price}\", \"{market.price}\", \"{market.kind}\", \"{fair.stands}\"]",
        ),
    ]) + third;
    let payoffs = r#"if [ $FEDBO_ROUND = 4 ]; then echo nan 1 2 inf; exit; fi
awk -v a="$1" -v b="$2" -v c="$3" -v k="$4" -v s="$5" 'BEGIN {
    printf "%.17g %.17g %.17g %.17g\n", a - b * c, b / 3, log(c) + (k == "fancy"), a * s / 7
}'"#;
    takes_the_same_course(&text, payoffs, &ENDS);
}

#[test]
fn equal_seeds_give_equal_games_and_other_seeds_others() {
    let of = |seed: &str, rounds: &str| {
        let sandbox =
            sandbox(&[("seed = 3", seed), ("rounds = 6", rounds), ("initial = 2", "initial = 5")]);
        play(&sandbox).expect(0, &[]);
        record(&sandbox)
    };
    let first = of("seed = 3", "rounds = 6");
    assert_eq!(of("seed = 3", "rounds = 6"), first);
    assert_ne!(of("seed = 4", "rounds = 6"), first);
    // More rounds extend the same game.
    assert!(of("seed = 3", "rounds = 9").starts_with(&first));
}

#[test]
fn a_complete_game_stays_and_more_rounds_extend_it() {
    let sandbox = sandbox(&[]);
    let ran = sandbox.fedbo(&["play", "duel.toml"]);
    ran.expect(0, &["duel: 6 rounds: shop (level 1) v rival (program); the first 2 at random"]);
    assert!(ran.stdout.contains("level 1"), "{}", ran.stdout);
    let first = record(&sandbox);
    sandbox.write("payoffs.sh", "exit 1");
    sandbox
        .fedbo(&["play", "duel.toml"])
        .expect(0, &["duel: complete, 6 rounds of 6; there is nothing left to do"]);
    sandbox.write("payoffs.sh", PAYOFFS);
    // The results file is replaced atomically rather than overwritten: a reader or a kill finds a
    // complete file at any moment.
    let path = sandbox.path("results/duel/results.csv");
    let written = std::fs::read_to_string(&path).expect("results");
    let mut reader = std::fs::File::open(&path).expect("results");
    let ran = sandbox.fedbo(&["play", "duel.toml", "--rounds", "9", "--json", "--quiet"]);
    assert_eq!(std::io::read_to_string(&mut reader).expect("what was opened"), written);
    assert_ne!(std::fs::read_to_string(&path).expect("results"), written);
    assert!(!sandbox.path("results/duel/.new-results").exists());
    assert!(ran.expect(0, &[]).stderr.is_empty(), "{}", ran.stderr);
    let closing = json(&ran);
    assert_eq!(closing["schema_version"], 1);
    assert_eq!(closing["game"], "duel");
    assert_eq!(closing["ended"], "complete");
    assert_eq!(closing["rounds"], 9);
    assert_eq!(closing["rounds_wanted"], 9);
    assert_eq!(closing["results"], "results/duel");
    assert!(record(&sandbox).starts_with(&first));
    // The means agree with the record.
    let played = rounds(&sandbox);
    let of_shop: Vec<f64> =
        played.iter().map(|round| round["payoffs"]["shop"].as_f64().expect("a number")).collect();
    let mean = |values: &[f64]| {
        values.iter().sum::<f64>() / f64::from(u8::try_from(values.len()).expect("few"))
    };
    let near = |found: &serde_json::Value, expected: f64| {
        (found.as_f64().expect("a number") - expected).abs() < 1e-12
    };
    let shop = &closing["players"][0];
    assert!(near(&shop["mean"], mean(&of_shop[2..])), "{shop}");
    assert!(near(&shop["mean_of_initial"], mean(&of_shop[..2])), "{shop}");
    assert!(near(&shop["mean_of_last_tenth"], of_shop[8]), "{shop}");
    for name in ["payoffs.svg", "payoffs.png", "actions.svg", "actions.png"] {
        assert!(sandbox.path("results/duel").join(name).exists(), "{name}");
    }
    sandbox
        .fedbo(&["play", "duel.toml", "--rounds", "0"])
        .expect(2, &["--rounds", "from 1 to 20000"]);
}

/// A player's program gets the player's name and all rounds so far. The payoffs get the actions of
/// all players. Both run in the file's folder.
#[test]
fn programs_are_told_what_they_need() {
    let folder = Sandbox::new();
    std::fs::create_dir(folder.path("game")).expect("a writable folder");
    folder.write("game/duel.toml", &duel(&[]));
    let noted = "cat > told.$FEDBO_ROUND; echo \"$FEDBO_PLAYER\" > name";
    folder.write("game/rival.sh", &format!("{noted}\n{RIVAL}"));
    folder.write(
        "game/payoffs.sh",
        &format!("echo \"$FEDBO_ACTIONS\" > actions.$FEDBO_ROUND\n{PAYOFFS}"),
    );
    folder.fedbo(&["play", "game/duel.toml", "--quiet"]).expect(0, &[]);
    assert_eq!(folder.names(), ["game", "results"]);
    let record = folder.fedbo(&["game", "record", "game/duel.toml", "--json"]);
    let rounds: Vec<serde_json::Value> =
        record.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(rounds.len(), 6);
    let read = |name: String| {
        let text = std::fs::read_to_string(folder.path("game").join(name)).expect("written");
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")
    };
    for (number, round) in (1..).zip(&rounds) {
        assert_eq!(read(format!("actions.{number}")), round["actions"]);
        let told = read(format!("told.{number}"));
        assert_eq!(told["round"], number);
        assert_eq!(told["player"], "rival");
        assert_eq!(told["game"], "duel");
        let before = told["rounds"].as_array().expect("a list");
        assert_eq!(before.len(), number - 1);
        for (told, played) in before.iter().zip(&rounds) {
            for key in ["round", "actions", "payoffs"] {
                assert_eq!(told[key], played[key]);
            }
        }
    }
    let name = std::fs::read_to_string(folder.path("game/name")).expect("written");
    assert_eq!(name, "rival\n");
}

/// Ctrl-C also ends the program of a player. The resumed game runs the program again.
#[test]
fn ctrl_c_while_a_program_thinks() {
    let cut = sandbox(&[]);
    cut.write(
        "rival.sh",
        &format!(
            "if [ $FEDBO_ROUND = 3 ] && [ ! -e begun ]; then touch begun; sleep 60; fi\n{RIVAL}"
        ),
    );
    let child = cut.start(&["play", "duel.toml"]);
    wait_until(|| cut.path("begun").exists());
    interrupt(&child, Signal::INT);
    finished(child).expect(130, &["interrupted after 2 rounds"]);
    play(&cut).expect(0, &[]);
    let whole = sandbox(&[]);
    play(&whole).expect(0, &[]);
    assert_eq!(record(&cut), record(&whole));
}

/// The highest allowed level can be stored, read and continued.
#[test]
fn the_highest_level_is_kept_and_read() {
    let high =
        sandbox(&[("level = 1", "level = 16"), ("command = [\"sh\", \"rival.sh\"]", "level = 15")]);
    for rounds in ["3", "4"] {
        high.fedbo(&["play", "duel.toml", "--rounds", rounds, "--quiet"]).expect(0, &[]);
    }
    assert_eq!(rounds(&high).len(), 4);
}

/// After a kill at any moment, all rounds seen by a reader remain, and the game continues like an
/// uninterrupted one.
#[test]
fn a_game_that_is_killed_fifteen_times_loses_no_round() {
    let changes = [
        ("rounds = 6", "rounds = 40"),
        ("level = 1", "level = 1\nsurrogate.lengthscale = 0.5"),
        ("grid = 21", "grid = 21\non_failure = \"random\""),
    ];
    let with_scripts = || {
        let sandbox = sandbox(&changes);
        let broken = broken_in("4|11|12|25", "exit 3", RIVAL);
        sandbox.write("rival.sh", &broken);
        sandbox
    };
    let whole = with_scripts();
    let begun = std::time::Instant::now();
    play(&whole).expect(0, &[]);
    // Fifteen processes that each live up to a fifth of that time get far into the game, even on a
    // slow machine.
    let at_most = (begun.elapsed() / 5).as_millis().max(1);
    let cut = with_scripts();
    let mut moment = 7_u64;
    let mut seen = 0;
    for _ in 0..15 {
        let mut child = cut.start(&["play", "duel.toml"]);
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let lives = u128::from(moment >> 33) % at_most;
        std::thread::sleep(std::time::Duration::from_millis(u64::try_from(lives).unwrap()));
        let shown = match cut.path("duel.db").exists() {
            true => cut.fedbo(&["game", "record", "duel.toml", "--json"]).stdout,
            false => String::new(),
        };
        interrupt(&child, Signal::KILL);
        finished_code(&mut child);
        if cut.path("duel.db").exists() {
            let kept = cut.fedbo(&["game", "record", "duel.toml", "--json"]);
            assert!(kept.stdout.starts_with(&shown), "{} {}", kept.stdout, kept.stderr);
            seen = seen.max(kept.stdout.lines().count());
        }
    }
    assert!(seen > 3, "{seen}");
    play(&cut).expect(0, &[]);
    assert_eq!(record(&cut), record(&whole));
}

/// Names that are too long for their column are truncated there, and complete everywhere else.
#[test]
fn long_names_are_cut_in_the_table_of_rounds() {
    let name = "größter-anzunehmender-spieler-mit-sehr-langem-namen";
    let rival = format!("players.{name}");
    let text = duel(&[
        ("{rival.price}", &format!("{{{name}.price}}")),
        ("players.rival]", &format!("players.\"{name}\"]")),
        ("players.rival.space", &format!("players.\"{name}\".space")),
    ]);
    assert!(!text.contains(&rival), "quoted, as TOML asks");
    let sandbox = sandbox(&[]);
    sandbox.write("duel.toml", &text);
    let ran = sandbox.fedbo(&["play", "duel.toml"]);
    ran.expect(0, &["größter-anzunehmender-spieler…", "price=0.35"]);
    assert!(ran.stdout.contains(name), "{}", ran.stdout);
}

/// Plays `examples/pricing.toml` unchanged. Both shops reason, and earn more than with random
/// prices.
#[test]
#[ignore = "python: run by cargo xtask test --all"]
fn the_example_of_the_readme_is_played() {
    let sandbox = Sandbox::new();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/");
    for name in ["pricing.toml", "pricing.py"] {
        let text = std::fs::read_to_string(format!("{examples}{name}")).unwrap();
        sandbox.write(name, &text);
    }
    let ran = sandbox.fedbo(&["play", "pricing.toml", "--json", "--quiet"]);
    ran.expect(0, &[]);
    let closing = json(&ran);
    assert_eq!(closing["rounds"], 40);
    for player in closing["players"].as_array().unwrap() {
        let number = |key: &str| player[key].as_f64().unwrap();
        assert!(number("mean_of_last_tenth") > number("mean_of_initial"), "{player}");
    }
    let names = ["results.csv", "payoffs.png", "actions.svg"];
    assert!(names.iter().all(|name| sandbox.path("results/pricing").join(name).exists()));
}
