//! Two processes that play the same game.

use crate::common::{finished, wait_until};
use crate::play::two_programs::{PAYOFFS, play, record, rounds, sandbox};

#[test]
fn one_folder_of_results_is_written_by_one_process() {
    let sandbox = sandbox(&[]);
    sandbox.write("payoffs.sh", &format!("until [ -e open ]; do sleep 0.05; done\n{PAYOFFS}"));
    let first = sandbox.start(&["play", "duel.toml"]);
    wait_until(|| sandbox.path("duel.db").exists());
    let ran = play(&sandbox);
    ran.expect(2, &["results/duel", "another"]);
    sandbox.write("open", "");
    finished(first).expect(0, &[]);
    assert_eq!(rounds(&sandbox).len(), 6);
}

/// With different folders, both processes start. The process that is second in a round exits, and
/// the record is that of a single game.
#[test]
fn who_is_overtaken_ends_and_the_record_is_whole() {
    let whole = sandbox(&[]);
    play(&whole).expect(0, &[]);
    let both = sandbox(&[]);
    // Both processes compute the payoffs of round 3 before either can write them.
    both.write(
        "payoffs.sh",
        &format!(
            "if [ $FEDBO_ROUND = 3 ]; then touch here.$$; while [ ! -e open ]; do sleep 0.02; done; fi\n{PAYOFFS}"
        ),
    );
    let here = || {
        let names = both.names();
        names.iter().filter(|name| name.starts_with("here.")).count()
    };
    let first = both.start(&["play", "duel.toml"]);
    wait_until(|| here() == 1);
    let second = both.start(&["play", "duel.toml", "--out", "elsewhere"]);
    wait_until(|| here() == 2);
    both.write("open", "");
    let ran = [finished(first), finished(second)];
    let mut codes: Vec<_> = ran.iter().map(|ran| ran.code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(2)], "{} {}", ran[0].stderr, ran[1].stderr);
    let loser = ran.iter().find(|ran| ran.code == Some(2)).expect("one");
    loser.expect(
        2,
        &["was played by another process in the meantime; run only one process per game"],
    );
    assert_eq!(record(&both), record(&whole));
}

/// The players' programs return different actions each time. The first action is final for both
/// processes.
#[test]
fn a_move_that_another_process_has_noted_stands() {
    let both = sandbox(&[("rounds = 6", "rounds = 30")]);
    both.write("rival.sh", r#"awk -v n="$$" 'BEGIN { print "{\"price\": " n % 21 / 20 "}" }'"#);
    let mut running = [
        both.start(&["play", "duel.toml"]),
        both.start(&["play", "duel.toml", "--out", "elsewhere"]),
    ]
    .map(Some);
    let ended = running.iter_mut().map(|child| finished(child.take().expect("started")));
    let ended: Vec<_> = ended.collect();
    let n_done = ended.iter().filter(|ran| ran.code == Some(0)).count();
    assert!(n_done >= 1, "{} {}", ended[0].stderr, ended[1].stderr);
    for ran in &ended {
        if ran.code != Some(0) {
            ran.expect(2, &["was played by another process in the meantime"]);
        }
    }
    let played = rounds(&both);
    assert_eq!(played.len(), 30);
    for (index, round) in played.iter().enumerate() {
        assert_eq!(round["round"], index + 1);
    }
    // A partially recorded round can be continued.
    both.fedbo(&["play", "duel.toml", "--rounds", "31"]).expect(0, &[]);
}

/// If many processes tell different moves at the same time, one move is accepted, and the others
/// are refused.
#[test]
fn one_of_many_moves_stands() {
    let hand = sandbox(&[("command = [\"sh\", \"rival.sh\"]", "by_hand = true")]);
    let values: Vec<String> = (0..8).map(|n| format!("price={}", f64::from(n) / 20.0)).collect();
    let running: Vec<_> = values
        .iter()
        .map(|value| hand.start(&["game", "tell", "duel.toml", "rival", value]))
        .collect();
    let ended: Vec<_> = running.into_iter().map(finished).collect();
    let taken: Vec<usize> = (0..8).filter(|index| ended[*index].code == Some(0)).collect();
    let [taken] = taken[..] else {
        panic!("{:?}", ended.iter().map(|ran| &ran.stderr).collect::<Vec<_>>())
    };
    for (index, ran) in ended.iter().enumerate() {
        if index != taken {
            ran.expect(2, &["\"rival\" has already submitted its move for round 1"]);
        }
    }
    let state = hand.fedbo(&["game", "ask", "duel.toml", "rival", "--json"]);
    let told = crate::common::json(&state)["told"]["price"].as_f64();
    assert_eq!(told, u32::try_from(taken).ok().map(|n| f64::from(n) / 20.0));
}
