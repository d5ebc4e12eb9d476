//! Mistakes in a `game.toml`: the exit code is 2, the message states the file, the line, the key,
//! the value and the remedy, and nothing is created.

use crate::play::two_programs::{duel, sandbox};

/// Plays the valid file with `from` replaced by `to`, which must fail.
pub(crate) fn refused(from: &str, to: &str, parts: &[&str]) {
    refused_text(&duel(&[(from, to)]), parts);
}

pub(crate) fn refused_text(text: &str, parts: &[&str]) {
    let sandbox = sandbox(&[]);
    sandbox.write("duel.toml", text);
    let names = sandbox.names();
    let ran = sandbox.fedbo(&["play", "duel.toml"]);
    ran.expect(2, &["duel.toml"]);
    ran.expect(2, parts);
    assert!(ran.stdout.is_empty(), "{}", ran.stdout);
    assert_eq!(sandbox.names(), names);
}

pub(crate) const LEVEL: &str = "level = 1\n";
pub(crate) const RIVAL: &str = "command = [\"sh\", \"rival.sh\"]\n";

#[test]
fn of_the_game() {
    refused("rounds = 6", "rounds = = 6", &["duel.toml, line 3, column 10"]);
    refused(
        "rounds = 6",
        "round = 6",
        &["duel.toml, line 3: unknown key game.round; did you mean rounds?"],
    );
    refused(
        "rounds = 6",
        "rounds = 0",
        &["line 3: game.rounds = 0, expected a whole number from 1 to 20000"],
    );
    refused("rounds = 6", "rounds = 20001", &["line 3: game.rounds = 20001", "20000"]);
    refused("rounds = 6", "rounds = 6.5", &["line 3: game.rounds = 6.5"]);
    refused("rounds = 6\n", "", &["game.rounds is missing; add rounds = .."]);
    refused("name = \"duel\"\n", "", &["game.name is missing; add name = "]);
    refused(
        "name = \"duel\"",
        "name = \"a/b\"",
        &["line 2: game.name = \"a/b\", expected a name that is valid for a folder"],
    );
    refused("initial = 2", "initial = -1", &["line 4: game.initial = -1"]);
    refused("seed = 3", "seed = -3", &["line 5: game.seed = -3"]);
    refused(
        "seed = 3",
        "failures_max = 0",
        &["line 5: game.failures_max = 0, expected a whole number from 1"],
    );
    refused(
        "sqlite:duel.db",
        "postgresql://localhost/duel",
        &[
            "line 6: game.storage = ",
            "expected \"sqlite:FILE\" (without storage, the record is kept in memory)",
        ],
    );
    refused("sqlite:duel.db", "duel.db", &["game.storage = \"duel.db\", expected \"sqlite:FILE\""]);
    refused("[game]", "version = 2\n[game]", &["line 1: version = 2, expected 1"]);
    refused(
        "[game]\nname = \"duel\"\nrounds = 6\ninitial = 2\nseed = 3\nstorage = \"sqlite:duel.db\"\n",
        "",
        &["[game] is missing; begin the file with [game]"],
    );
    refused_text("", &["[game] is missing; begin the file with [game]"]);
}

#[test]
fn of_the_payoffs() {
    refused(
        "\"{rival.price}\"",
        "\"{rival.prize}\"",
        &["line 9: payoffs.command", "{rival.prize}", "known are shop.price, rival.price"],
    );
    refused("\"{rival.price}\"", "\"{price}\"", &["{price}", "known are shop.price, rival.price"]);
    refused(
        "command = [\"sh\", \"payoffs.sh\"",
        "command = [\"no-such-program\"",
        &["payoffs.command[0] = \"no-such-program\" is not on PATH"],
    );
    refused(
        "timeout_s = 20",
        "timeout_s = 0",
        &["line 10: payoffs.timeout_s = 0, expected a number of seconds above 0"],
    );
    refused("timeout_s = 20", "timeout_s = nan", &["payoffs.timeout_s = nan"]);
    refused(
        "range = [-2.0, 2.0]",
        "range = [2.0, -2.0]",
        &["line 11: payoffs.range = [2.0, -2.0], expected [LEAST, LARGEST]"],
    );
    refused("range = [-2.0, 2.0]", "range = [-2.0, inf]", &["payoffs.range = [-2.0, inf]"]);
    refused("range = [-2.0, 2.0]", "range = [-2.0]", &["payoffs.range"]);
    refused(
        "timeout_s = 20",
        "on_failure = \"continue\"",
        &["line 10: payoffs.on_failure = \"continue\", expected \"stop\" or \"go-on\""],
    );
    refused(
        "command = [\"sh\", \"payoffs.sh\", \"{shop.price}\", \"{rival.price}\"]\n",
        "",
        &["payoffs.command is missing; add command = "],
    );
    refused("timeout_s = 20", "directory = \"nowhere\"", &["nowhere", "is not a directory"]);
}

#[test]
fn of_players() {
    refused(
        RIVAL,
        "",
        &[
            "line 22: players.rival.level is missing",
            "specify how rival plays: level = 0, 1, 2, .. (it reasons), command = [..] (a program is asked), or by_hand = true",
        ],
    );
    refused(
        RIVAL,
        &format!("level = 0\n{RIVAL}"),
        &["line 22: player \"rival\" plays in more than one way; keep one of"],
    );
    refused(RIVAL, "level = 0\nby_hand = true\n", &["plays in more than one way"]);
    refused(
        LEVEL,
        "level = 1\ntimeout_s = 3\n",
        &["line 15: players.shop.timeout_s is for a player with command or by_hand", "remove it"],
    );
    refused(LEVEL, "level = 1\non_failure = \"random\"\n", &["players.shop.on_failure is for"]);
    refused(
        RIVAL,
        &format!("level0 = \"random\"\n{RIVAL}"),
        &["players.rival.level0 is for a player with level", "[players.NAME.believes.rival]"],
    );
    refused(
        RIVAL,
        "by_hand = true\ndirectory = \".\"\n",
        &["players.rival.directory is for a player with command"],
    );
    refused(
        RIVAL,
        &format!("{RIVAL}on_failure = \"retry\"\n"),
        &["players.rival.on_failure = \"retry\", expected \"stop\", \"random\" or \"repeat\""],
    );
    refused(
        RIVAL,
        "command = [\"sh\", \"rival.sh\", \"{shop.price}\"]\n",
        &["players.rival.command", "{shop.price}"],
    );
    refused(RIVAL, "command = []\n", &["players.rival.command"]);
    refused(
        RIVAL,
        "command = [\"no-such-program\"]\n",
        &["players.rival.command[0] = \"no-such-program\" is not on PATH"],
    );
    refused(RIVAL, &format!("{RIVAL}lvl = 1\n"), &["unknown key players.rival.lvl"]);
    refused(
        "grid = 11",
        "grid = 1",
        &["line 15: players.shop.grid = 1, expected at least 2 values of each float"],
    );
    refused(
        "grid = 11",
        "grid = 10001",
        &["players.shop.grid = 10001, expected a whole number from"],
    );
    refused(
        "[players.shop.space.price]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n",
        "",
        &[
            "players.shop.space is missing; add a [players.shop.space.PARAMETER] table for each parameter of its actions",
        ],
    );
    refused(
        "low = 0.0",
        "low = 3.0",
        &["line 19: players.shop.space.price.low = 3.0, expected a number below high = 1"],
    );
    refused(
        "\"float\"",
        "\"real\"",
        &["players.shop.space.price.type = \"real\", expected \"float\""],
    );
    let two = duel(&[]).replace("grid = 11", "grid = 101")
        + "[players.rival.space.pack]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n";
    refused_text(
        &two.replace("grid = 21", "grid = 101"),
        &[
            "players.rival.grid = 101, expected a coarser grid: with this one rival has more than 10000 actions",
        ],
    );
}

#[test]
fn of_names_and_numbers_of_players() {
    for name in ["two words", "a.b", "a{b", "a}b", "a=b", "a\\tb"] {
        let text = duel(&[("\"{rival.price}\"", "\"x\"")])
            .replace("players.rival", &format!("players.\"{name}\""));
        refused_text(&text, &["line 22"]);
    }
    let text = duel(&[("\"{rival.price}\"", "\"x\"")]);
    refused_text(
        &text.replace("players.rival", "players.\"two words\""),
        &[
            "player \"two words\": a name must not have a space, dot, brace or =, because commands contain {NAME.PARAMETER}",
        ],
    );
    refused_text(
        &text.replace("players.rival", "players.\"a/b\""),
        &["a name that is valid for a folder"],
    );
    let (alone, _) = text.split_once("[players.rival]").expect("a table");
    refused_text(
        alone,
        &["a game has 2 to 16 players, found 1; for one player use a study.toml and fedbo tune"],
    );
    let (head, _) = text.split_once("[players.shop]").expect("a table");
    refused_text(head, &["[players] is missing; add a [players.NAME] table for each player"]);
    let many = |n: usize| {
        let player = |i| {
            format!(
                "[players.p{i}]\nlevel = 0\n[players.p{i}.space.x]\ntype = \"int\"\nlow = 0\nhigh = 3\n"
            )
        };
        head.replace(", \"{shop.price}\", \"x\"", "") + &(0..n).map(player).collect::<String>()
    };
    refused_text(&many(17), &["a game has 2 to 16 players, found 17"]);
    let sandbox = sandbox(&[]);
    sandbox.write("duel.toml", &many(16));
    sandbox.write("payoffs.sh", "echo 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16");
    sandbox.fedbo(&["play", "duel.toml"]).expect(0, &[]);
}

/// For a file of a different kind, the message suggests the right command.
#[test]
fn files_of_other_kinds_name_their_command() {
    let sandbox = sandbox(&[]);
    sandbox.write("study.toml", "[study]\nname = \"a\"\n");
    sandbox.write("federation.toml", "[federation]\nname = \"a\"\n");
    for (arguments, says) in [
        (["tune", "duel.toml"], "fedbo play duel.toml"),
        (["trials", "duel.toml"], "fedbo play duel.toml"),
        (["play", "study.toml"], "fedbo tune study.toml"),
        (["play", "federation.toml"], "fedbo run federation.toml"),
    ] {
        sandbox.fedbo(&arguments).expect(2, &[says]);
    }
}

/// A choice inside a script would be executed as code (INV-24).
#[test]
fn of_a_choice_within_a_script() {
    let by_shell = ("[\"sh\", \"payoffs.sh\"", "[\"sh\", \"-c\", \"echo {rival.mood}\"");
    let mood = "[players.rival.space.mood]\ntype = \"categorical\"\nchoices = [\"calm\", \"x; touch pwned\"]\n";
    refused_text(
        &format!("{}\n{mood}", duel(&[by_shell])),
        &[
            "line 9: payoffs.command[2] = \"echo {rival.mood}\": {rival.mood} is text",
            "\"{rival.mood}\"]",
            "FEDBO_ACTIONS",
        ],
    );
}

#[test]
fn of_a_conditional_parameter() {
    let tables = "[players.rival.space.kind]\ntype = \"categorical\"\nchoices = [\"a\", \"b\"]\n\
                  [players.rival.space.rate]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\nwhen = { kind = \"a\" }\n";
    refused_text(
        &format!("{}\n{tables}", duel(&[])),
        &["players.rival.space.rate.when: a game cannot use conditional parameters yet; remove"],
    );
}
