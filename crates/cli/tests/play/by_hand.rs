//! Moves that another process enters.

use rustix::process::Signal;

use crate::common::{Sandbox, finished, interrupt, json, wait_until};
use crate::play::two_programs::{play, record, rounds, sandbox};

/// Creates the game with the rival's moves made by hand.
fn by_hand(more: &str) -> Sandbox {
    let told = format!("by_hand = true{more}");
    sandbox(&[("command = [\"sh\", \"rival.sh\"]", &told)])
}

fn ask(sandbox: &Sandbox, more: &[&str]) -> serde_json::Value {
    let mut arguments = vec!["game", "ask", "duel.toml", "rival", "--json"];
    arguments.extend(more);
    let ran = sandbox.fedbo(&arguments);
    ran.expect(0, &[]);
    json(&ran)
}

#[test]
fn a_program_of_ones_own_plays_through_ask_and_tell() {
    let hand = by_hand("");
    let child = hand.start(&["play", "duel.toml"]);
    for round in 1..=6_u32 {
        let state = ask(&hand, &["--wait"]);
        assert_eq!(state["round"], round);
        assert_eq!(state["rounds_in_all"], 6);
        assert_eq!(state["told"], serde_json::Value::Null);
        assert_eq!(state["player"], "rival");
        assert_eq!(state["grid"], 21);
        assert_eq!(state["space"]["price"]["high"], 1.0);
        let before = state["rounds"].as_array().expect("a list");
        assert_eq!(before.len(), round as usize - 1);
        if let Some(last) = before.last() {
            assert!(last["actions"]["shop"]["price"].is_number(), "{last}");
            assert!(last["payoffs"]["rival"].is_number(), "{last}");
        }
        // The program of the other tests does the same.
        let price = format!("price={}", f64::from(round * 7 % 21) / 20.0);
        let meant = round.to_string();
        let ran = hand.fedbo(&[
            "game",
            "tell",
            "duel.toml",
            "rival",
            &price,
            "--round",
            &meant,
            "--json",
        ]);
        ran.expect(0, &[]);
        assert_eq!(json(&ran)["round"], round);
        assert_eq!(json(&ran)["told"], "new");
    }
    // The wait ends when the game ends.
    assert_eq!(ask(&hand, &["--wait"])["round"], serde_json::Value::Null);
    let ran = finished(child);
    ran.expect(0, &["round 1 of 6 waits for rival: fedbo game tell duel.toml rival price="]);
    let program = sandbox(&[]);
    play(&program).expect(0, &[]);
    assert_eq!(record(&hand), record(&program));
    for (arguments, part) in [
        (
            &["game", "tell", "duel.toml", "rival", "price=0.5"][..],
            "the game is complete after 6 rounds; to continue, increase rounds in the file",
        ),
        (
            &["game", "tell", "duel.toml", "rival", "price=0.5", "--round", "6"],
            "the game is complete after 6 rounds",
        ),
    ] {
        hand.fedbo(arguments).expect(2, &[part]);
    }
    let ran = hand.fedbo(&["game", "ask", "duel.toml", "rival"]);
    assert!(ran.stdout.contains("the game is complete after 6 rounds"), "{}", ran.stdout);
    assert_eq!(hand.fedbo(&["play", "duel.toml"]).code, Some(0));
}

#[test]
fn a_move_may_be_told_before_play_begins_and_stands() {
    let hand = by_hand("");
    let tell = |values: &[&str]| {
        let mut arguments = vec!["game", "tell", "duel.toml", "rival"];
        arguments.extend(values);
        hand.fedbo(&arguments)
    };
    let ran = tell(&["price=0.25"]);
    assert_eq!(ran.expect(0, &[]).stdout, "round 1: told: price=0.25\n");
    // A single parameter needs no name; repeating the move is allowed.
    let ran = tell(&["0.25"]);
    assert_eq!(ran.expect(0, &[]).stdout, "round 1: was already told: price=0.25\n");
    assert_eq!(json(&tell(&["0.25", "--json"]))["told"], "already");
    tell(&["0.3"]).expect(
        2,
        &["\"rival\" has already submitted its move for round 1: {\"price\":0.25}, which is final"],
    );
    let state = ask(&hand, &[]);
    assert_eq!(state["told"]["price"], 0.25);
    let ran = hand.fedbo(&["game", "ask", "duel.toml", "rival"]);
    assert!(
        ran.stdout.contains(
            "rival has submitted its move for round 1: price=0.25; waiting for the others"
        ),
        "{}",
        ran.stdout
    );
    // The move is played, and the game waits for the next one.
    let child = hand.start(&["play", "duel.toml", "--quiet"]);
    wait_until(|| record(&hand).lines().count() == 1);
    assert_eq!(rounds(&hand)[0]["actions"]["rival"]["price"], 0.25);
    assert_eq!(ask(&hand, &["--wait"])["round"], 2);
    tell(&["0.5", "--round", "1"]).expect(2, &["--round 1: round 2 is being played"]);
    interrupt(&child, Signal::INT);
    finished(child)
        .expect(130, &["interrupted after 1 round; continue with: fedbo play duel.toml"]);
    let ran = hand.fedbo(&["game", "ask", "duel.toml", "rival"]);
    assert!(
        ran.stdout.contains("round 2 of 6: fedbo game tell duel.toml rival price=("),
        "{}",
        ran.stdout
    );
}

#[test]
fn what_is_no_move_is_refused_in_words() {
    let hand = by_hand("");
    for (arguments, parts) in [
        (&["rival", "price=2"][..], &["price", "2", "0.0 to 1.0"][..]),
        (&["rival", "price=0.49"], &["not on the grid of 21 actions; the nearest is price=0.5"]),
        (&["rival", "price=nan"], &["price", "NaN", "0.0 to 1.0"]),
        (&["rival", "price=dear"], &["price", "dear"]),
        (&["rival", "price="], &["price"]),
        (&["rival", "prize=0.5"], &["prize", "price"]),
        (&["rival", "price=0.5", "price=0.5"], &["price is given twice"]),
        (&["rival", "0.5", "0.5"], &["price is given twice"]),
        (&["rival", "-0.5"], &["-0.5"]),
        (
            &["shop", "price=0.5"],
            &[
                "PLAYER = \"shop\" does not move by hand (level 1); moves can be told only for players with by_hand = true",
            ],
        ),
        (&["rivla", "price=0.5"], &["PLAYER = \"rivla\": no such player; did you mean \"rival\"?"]),
        (&["bank", "price=0.5"], &["PLAYER = \"bank\": no such player; players are shop, rival"]),
        (&["rival"], &["NAME=VALUE"]),
        (&["rival", "price=0.5", "--round", "2"], &["--round 2: round 1 is being played"]),
    ] {
        let mut line = vec!["game", "tell", "duel.toml"];
        line.extend(arguments);
        let ran = hand.fedbo(&line);
        ran.expect(2, parts);
        assert!(ran.stdout.is_empty(), "{}", ran.stdout);
    }
    assert_eq!(ask(&hand, &[])["told"], serde_json::Value::Null);
    hand.fedbo(&["game", "ask", "duel.toml", "shop"]).expect(2, &["does not move by hand"]);
    hand.fedbo(&["game", "ask", "duel.toml", "rivla"]).expect(2, &["did you mean"]);
    hand.fedbo(&["game", "ask", "nowhere.toml", "rival"]).expect(2, &["nowhere.toml"]);
}

#[test]
fn without_a_record_in_a_file_nothing_can_be_told() {
    let hand = by_hand("");
    let file = std::fs::read_to_string(hand.path("duel.toml")).expect("our own file");
    hand.write("duel.toml", &file.replace("storage = \"sqlite:duel.db\"\n", ""));
    let names = hand.names();
    let way = "add storage = \"sqlite:duel.db\" to [game]";
    hand.fedbo(&["play", "duel.toml"])
        .expect(2, &["moves made by hand need a record in a file, or a terminal", way]);
    hand.fedbo(&["game", "tell", "duel.toml", "rival", "0.5"])
        .expect(2, &["keeps its record in memory", "add storage = \"sqlite:FILE\""]);
    assert_eq!(hand.names(), names);
}

/// Once an action has been substituted, a move is too late and is refused, because moves are final.
#[test]
fn a_move_that_comes_too_late_is_refused() {
    let hand = by_hand("\ntimeout_s = 0.3\non_failure = \"random\"");
    hand.write("payoffs.sh", "until [ -e open ]; do sleep 0.05; done; echo 1 2");
    let mut child = hand.start(&["play", "duel.toml", "--quiet"]);
    let stand_in = || ask(&hand, &[])["told"].clone();
    wait_until(|| !stand_in().is_null());
    let late = ["game", "tell", "duel.toml", "rival", "0.5"];
    let told = stand_in();
    hand.fedbo(&late).expect(
        2,
        &["no move of \"rival\" arrived in time for round 1", &told.to_string(), "replaces it"],
    );
    // If the program is killed while it waits for the payoffs, the round keeps its substituted
    // action.
    interrupt(&child, Signal::KILL);
    crate::common::finished_code(&mut child);
    hand.write("open", "");
    hand.fedbo(&late).expect(2, &["no move of \"rival\" arrived in time"]);
    let ran = hand.fedbo(&["play", "duel.toml", "--rounds", "2", "--quiet"]);
    ran.expect(0, &["warning: round 2: no action from rival: no move was submitted within 0.3 s"]);
    let played = rounds(&hand);
    assert_eq!(played[0]["actions"]["rival"], told);
    assert_eq!(played[0]["stand_ins"][0]["kind"], "random");
    assert_eq!(played[1]["stand_ins"][0]["player"], "rival");
    let ran = hand.fedbo(&["play", "duel.toml", "--rounds", "3", "--quiet"]);
    ran.expect(0, &[]);
}

#[test]
fn a_move_that_does_not_come_ends_the_run() {
    let hand = by_hand("\ntimeout_s = 0.3");
    hand.fedbo(&["play", "duel.toml"]).expect(
        7,
        &["error: round 1: no action from \"rival\": no move was submitted within 0.3 s"],
    );
    hand.fedbo(&["game", "tell", "duel.toml", "rival", "0.5"]).expect(0, &[]);
    hand.fedbo(&["play", "duel.toml"]).expect(
        7,
        &["error: round 2: no action from \"rival\"", "the game stopped after 1 round, which"],
    );
}

/// Moves for rounds beyond those in the file are possible too. The command that the game suggests
/// works unchanged.
#[test]
fn rounds_beyond_the_file_are_told_of() {
    let hand = by_hand("");
    hand.write(
        "duel.toml",
        &crate::play::two_programs::duel(&[
            ("command = [\"sh\", \"rival.sh\"]", "by_hand = true"),
            ("rounds = 6", "rounds = 1"),
        ]),
    );
    let mut child = hand.start(&["play", "duel.toml", "--rounds", "2"]);
    for _ in 0..2 {
        let state = ask(&hand, &["--wait", "--rounds", "2"]);
        assert_eq!(state["rounds_in_all"], 2);
        hand.fedbo(&["game", "tell", "duel.toml", "--rounds", "2", "rival", "price=0.5"])
            .expect(0, &[]);
        let told = state["round"].as_u64().expect("a number");
        wait_until(|| record(&hand).lines().count() as u64 >= told);
        if told == 1 {
            hand.fedbo(&["game", "tell", "duel.toml", "rival", "price=0.5"]).expect(
                2,
                &["the game is complete after 1 round; to continue, increase rounds in the file or pass --rounds as with fedbo play"],
            );
        }
    }
    child.wait().expect("it ends");
    finished(child).expect(
        0,
        &["round 2 of 2 waits for rival: fedbo game tell duel.toml --rounds 2 rival price="],
    );
}
