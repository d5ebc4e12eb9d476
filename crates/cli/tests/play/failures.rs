//! Players and payoffs that crash, return invalid output or time out.

use crate::common::json;
use crate::play::two_programs::{
    PAYOFFS, RIVAL, broken_in, play, record, results_of, rounds, sandbox,
};

/// Failing commands of a player, and the message for each.
const BROKEN: [(&str, &str); 9] = [
    (
        "echo no more stock >&2; exit 3",
        "the command ended with exit status 3; its standard error ends: no more stock",
    ),
    ("kill -9 $$", "signal 9"),
    ("exit 0", "it printed nothing, expected {\"price\": ..}"),
    ("echo thinking; exit", "it printed \"thinking\", expected {\"price\": ..}"),
    ("echo '{\"prize\": 0.5}'; exit", "prize"),
    ("echo '{\"price\": NaN}'; exit", "NaN"),
    ("echo '{\"price\": 1.5}'; exit", "1.5"),
    (
        "echo '{\"price\": 0.49}'; exit",
        "it is not on the grid of 21 actions; the nearest is price=0.5",
    ),
    ("sleep 9", "killed after its timeout of 1.5 s"),
];

#[test]
fn a_player_who_fails_ends_the_run_and_the_same_line_goes_on() {
    let whole = sandbox(&[]);
    play(&whole).expect(0, &[]);
    let expected = record(&whole);
    assert_eq!(expected.lines().count(), 6);
    for (broken, cause) in BROKEN {
        let timeout = match broken.starts_with("sleep") {
            true => "timeout_s = 1.5\ngrid = 21",
            false => "timeout_s = 20\ngrid = 21",
        };
        let cut = sandbox(&[("grid = 21", timeout)]);
        cut.write("rival.sh", &broken_in("3", broken, RIVAL));
        let ran = cut.fedbo(&["play", "duel.toml"]);
        ran.expect(
            7,
            &[
                "error: round 3: no action from \"rival\": ",
                cause,
                "the game stopped after 2 rounds, which are kept; continue with: fedbo play duel.toml\n",
            ],
        );
        assert!(ran.stdout.contains("mean payoff"), "{}", ran.stdout);
        assert_eq!(record(&cut).lines().count(), 2);
        assert_eq!(results_of(&cut, "rival").len(), 2);
        cut.write("mended", "");
        // The time limit may be too short on a busy machine.
        let file = std::fs::read_to_string(cut.path("duel.toml")).expect("our own file");
        cut.write("duel.toml", &file.replace("timeout_s = 1.5\n", ""));
        play(&cut).expect(0, &[]);
        assert_eq!(record(&cut), expected, "{broken}");
    }
}

#[test]
fn stand_ins_are_random_or_the_last_action_and_are_recorded() {
    for kind in ["random", "repeat"] {
        let on_failure = format!("on_failure = \"{kind}\"\ngrid = 21");
        let kept = sandbox(&[("grid = 21", &on_failure)]);
        let broken = "echo lost its mind >&2; exit 4";
        kept.write("rival.sh", &broken_in("1|3|5", broken, RIVAL));
        let ran = kept.fedbo(&["play", "duel.toml", "--json"]);
        let what = match kind {
            "repeat" => "its last action is used",
            _ => "a random action is used",
        };
        ran.expect(0, &["warning: round 3: no action from rival: ", what]);
        let closing = json(&ran);
        assert_eq!(closing["ended"], "complete");
        assert_eq!(closing["players"][1]["n_stand_ins"], 3);
        assert_eq!(closing["players"][0]["n_stand_ins"], 0);
        let played = rounds(&kept);
        assert_eq!(played.len(), 6);
        for (index, round) in played.iter().enumerate() {
            let stand_ins = round["stand_ins"].as_array().expect("a list");
            if index % 2 == 1 {
                assert!(stand_ins.is_empty(), "{round}");
                continue;
            }
            // There is no earlier action to repeat in the first round.
            let expected = if index == 0 { "random" } else { kind };
            assert_eq!(stand_ins[0]["player"], "rival");
            assert_eq!(stand_ins[0]["kind"], expected);
            let because = stand_ins[0]["because"].as_str().expect("a text");
            assert!(because.contains("lost its mind"), "{because}");
            if expected == "repeat" {
                assert_eq!(round["actions"]["rival"], played[index - 1]["actions"]["rival"]);
            }
        }
        let rows = results_of(&kept, "rival");
        let sources: Vec<&str> = rows.iter().map(|row| row["source"].as_str()).collect();
        let action_substituted = format!("stand-in: {kind}");
        let expected = ["stand-in: random", "program", &action_substituted, "program"];
        assert_eq!(sources[..4], expected);
        // The same seed and the same failures give the same substituted actions.
        let again = sandbox(&[("grid = 21", &on_failure)]);
        again.write("rival.sh", &broken_in("1|3|5", broken, RIVAL));
        play(&again).expect(0, &["warning: round 5"]);
        assert_eq!(record(&again), record(&kept));
        let ran = kept.fedbo(&["game", "record", "duel.toml"]);
        assert_eq!(ran.stdout.matches("(stand-in)").count(), 3);
    }
}

#[test]
fn failures_in_a_row_end_a_game_that_would_go_on() {
    let changes = [
        ("seed = 3", "seed = 3\nfailures_max = 3"),
        ("rounds = 6", "rounds = 12"),
        ("grid = 21", "on_failure = \"repeat\"\ngrid = 21"),
    ];
    let cut = sandbox(&changes);
    // Two failures in a row, one success, then only failures.
    cut.write("rival.sh", &broken_in("2|3|5|6|7", "exit 1", RIVAL));
    play(&cut).expect(
        7,
        &[
            "error: round 7: player \"rival\" failed 3 times in a row, the last time because the command ended with exit status 1",
            "the game stopped after 6 rounds, which are kept",
        ],
    );
    assert_eq!(rounds(&cut).len(), 6);
    // Failures of earlier runs do not count.
    cut.write("mended", "");
    play(&cut).expect(0, &[]);
    assert_eq!(rounds(&cut).len(), 12);
}

/// Failing commands of the payoffs, and the message for each.
const LOST: [(&str, &str); 8] = [
    (
        "echo shops are closed >&2; exit 3",
        "the command ended with exit status 3; its standard error ends: shops are closed",
    ),
    (
        "exit 0",
        "it printed nothing, expected {\"shop\": .., \"rival\": ..}, or 2 numbers in this order",
    ),
    ("echo well; exit", "it printed \"well\", expected"),
    ("echo 1; exit", "it printed \"1\", expected"),
    ("echo 1 2 3; exit", "it printed \"1 2 3\", expected"),
    ("echo '{\"shop\": 1, \"rivla\": 2}'; exit", "rivla"),
    ("echo nan nan; exit", "the payoff of \"shop\" is not a finite number"),
    ("sleep 9", "killed after its timeout of 1.5 s"),
];

#[test]
fn payoffs_that_fail_end_the_run_or_are_lost() {
    let whole = sandbox(&[]);
    play(&whole).expect(0, &[]);
    let expected = record(&whole);
    for (broken, cause) in LOST {
        let cut = sandbox(&[]);
        let short = |on_failure: &str| {
            let timeout = if broken.starts_with("sleep") { "1.5" } else { "20" };
            let text = format!("timeout_s = {timeout}\non_failure = \"{on_failure}\"");
            crate::play::two_programs::duel(&[("timeout_s = 20", &text)])
        };
        cut.write("duel.toml", &short("stop"));
        cut.write("payoffs.sh", &broken_in("4", broken, PAYOFFS));
        play(&cut).expect(
            7,
            &[
                "error: round 4: no payoffs: ",
                cause,
                "the game stopped after 3 rounds, which are kept",
            ],
        );
        assert_eq!(record(&cut).lines().count(), 3);
        // The rival has already made its move, so it is not asked again.
        cut.write("rival.sh", &broken_in("4", "exit 9", RIVAL));
        cut.write("duel.toml", &short("go-on"));
        play(&cut).expect(0, &["warning: round 4: payoffs lost: ", cause]);
        let played = rounds(&cut);
        assert_eq!(played.len(), 6);
        assert_eq!(played[3]["payoffs"]["shop"], serde_json::Value::Null);
        assert_eq!(played[3]["payoffs"]["rival"], serde_json::Value::Null);
        let because = played[3]["lost_because"].as_str().expect("a text");
        assert!(because.contains(cause), "{because}");
        for (index, round) in played.iter().enumerate() {
            assert_eq!(round["lost_because"].is_null(), index != 3, "{round}");
        }
        for player in ["shop", "rival"] {
            let rows = results_of(&cut, player);
            assert_eq!(rows[3]["value"], "");
            assert!(rows[3]["status"].starts_with("failed"), "{:?}", rows[3]);
            assert_eq!(rows[4]["status"], "ok");
        }
        // Earlier rounds do not depend on the lost payoffs.
        let before = |text: &str| text.lines().take(3).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(before(&record(&cut)), before(&expected));
    }
}

#[test]
fn a_lost_payoff_of_one_player_leaves_the_others() {
    let kept = sandbox(&[("timeout_s = 20", "on_failure = \"go-on\"")]);
    let of_one = r#"echo '{"rival": 0.25, "shop": null}'; exit"#;
    kept.write("payoffs.sh", &broken_in("3|4", of_one, PAYOFFS));
    let ran = kept.fedbo(&["play", "duel.toml", "--quiet", "--json"]);
    ran.expect(0, &["warning: round 3: payoffs lost: the payoff of \"shop\""]);
    let closing = json(&ran);
    assert_eq!(closing["players"][0]["n_lost"], 2);
    assert_eq!(closing["players"][1]["n_lost"], 0);
    let played = rounds(&kept);
    assert_eq!(played[2]["payoffs"]["rival"], 0.25);
    assert!(played[2]["payoffs"]["shop"].is_null());
    let rows = results_of(&kept, "rival");
    assert_eq!((rows[3]["value"].as_str(), rows[3]["status"].as_str()), ("0.25", "ok"));
    let ran = kept.fedbo(&["game", "record", "duel.toml"]);
    assert_eq!(ran.stdout.matches("lost").count(), 2, "{}", ran.stdout);
}

#[test]
fn lost_payoffs_in_a_row_end_a_game_that_would_go_on() {
    let changes =
        [("timeout_s = 20", "on_failure = \"go-on\""), ("seed = 3", "seed = 3\nfailures_max = 2")];
    let cut = sandbox(&changes);
    cut.write("payoffs.sh", &broken_in("2|4|5", "exit 1", PAYOFFS));
    play(&cut).expect(
        7,
        &[
            "error: round 5: the payoffs failed 2 times in a row",
            "the game stopped after 4 rounds, which are kept",
        ],
    );
    assert_eq!(rounds(&cut).len(), 4);
    cut.write("mended", "");
    play(&cut).expect(0, &[]);
    assert_eq!(rounds(&cut).len(), 6);
}

#[test]
fn a_game_that_fails_at_once_says_so_and_is_begun() {
    let cut = sandbox(&[]);
    cut.write("payoffs.sh", "exit 5");
    let ran = cut.fedbo(&["play", "duel.toml", "--json", "--quiet"]);
    ran.expect(7, &["error: round 1: no payoffs: ", "after 0 rounds"]);
    let closing = json(&ran);
    assert_eq!(closing["ended"], "failed");
    assert_eq!(closing["rounds"], 0);
    assert!(closing["players"][0]["mean"].is_null());
    assert_eq!(record(&cut), "");
}

/// A game in memory cannot be continued. The message explains how to keep one.
#[test]
fn a_game_in_memory_that_fails_is_lost() {
    let cut = sandbox(&[("storage = \"sqlite:duel.db\"\n", "")]);
    cut.write("payoffs.sh", &broken_in("3", "exit 5", PAYOFFS));
    let ran = cut.fedbo(&["play", "duel.toml"]);
    ran.expect(
        7,
        &["add storage = \"sqlite:duel.db\" to [game]", "the record was in memory and is lost"],
    );
    assert_eq!(results_of(&cut, "shop").len(), 2);
    cut.fedbo(&["game", "record", "duel.toml"])
        .expect(2, &["add storage = \"sqlite:FILE\" to [game]"]);
}
