//! Tests of sessions at a free pace, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fedbo_federation::{ALGORITHMS, Federation};
use fedbo_objective::{Closure, FailuresMax};
use fedbo_report::{RESULTS_FILE, read_results};
use fedbo_runner::federation::{ExistingResults, Quiet, RunOptions, run_federation};
use fedbo_space::Point;

use crate::arms::{federation, queries};

const FEATURES: &str = "[features]\ncount = 40\n";

/// If all trials take as long as a window, agents at a free pace behave as in rounds, bit for bit.
#[test]
fn at_equal_speeds_trials_are_those_of_rounds() {
    let private = "[features]\ncount = 40\n[privacy]\nsimulate = true\nepsilon = 4.0\n";
    for algorithm in ["fts", "shared-prior", "rgpe", "taf"] {
        let free = federation(algorithm, 2, &format!("pace = \"free\"\n{FEATURES}"));
        let rounds = federation(algorithm, 2, FEATURES);
        let found = queries(&free, free.own_arm());
        assert_eq!(found, queries(&rounds, rounds.own_arm()), "{algorithm}");
        let others = ["message:", "shared:", "others:"];
        assert!(
            found.iter().any(|query| others.iter().any(|word| query.contains(word))),
            "{algorithm}: {found:?}"
        );
    }
    for algorithm in ["dp-fts-de", "dp-shared-prior"] {
        let free = format!("pace = \"free\"\nwindows = 4\n{private}participations = 4");
        let free = federation(algorithm, 1, &free);
        let rounds = federation(algorithm, 1, &format!("{private}releases = 4"));
        assert_eq!(
            queries(&free, free.own_arm()),
            queries(&rounds, rounds.own_arm()),
            "{algorithm}"
        );
    }
}

/// A federation with agents that need 1 s, 100 s and almost forever per trial. Windows last 1 s.
fn of_unequal_speeds(algorithm: &str, tables: &str, network: &str) -> Federation {
    let mut text = format!(
        "[federation]\nname = \"bumps\"\nalgorithm = {algorithm:?}\nrounds = 20\ninitial = 2\npace = \"free\"\nwindows = 3000\n\
         {tables}[network]\nround_s = 1.0\n{network}"
    );
    for name in ["x", "y"] {
        text += &format!("[space.{name}]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n");
    }
    for (agent, seconds) in ["1.0", "100.0", "1e9"].iter().enumerate() {
        text += &format!("[[agents]]\nname = \"a{agent}\"\ntrial_s = {seconds}\n");
    }
    let federation = Federation::from_text(&text, ALGORITHMS).unwrap();
    (0..3).fold(federation, |federation, agent| {
        let top = 0.3 + 0.02 * f64::from(agent);
        let value =
            move |at: &Point| Ok(-(at.number("x") - top).powi(2) - (at.number("y") - 0.6).powi(2));
        federation.with_objective(&format!("a{agent}"), Arc::new(Closure(value))).unwrap()
    })
}

/// The queries of a run in the order in which they end: agent, iteration, source and parameters.
fn in_order(federation: &Federation, threads: usize) -> Vec<(String, i64, String)> {
    let row = |row: fedbo_report::Row| {
        (row.agent, row.iteration, format!("{} {:?}", row.source, row.parameters))
    };
    rows(federation, threads).into_iter().map(row).collect()
}

fn rows(federation: &Federation, threads: usize) -> Vec<fedbo_report::Row> {
    let folder = tempfile::tempdir().unwrap();
    let options = RunOptions {
        arms: Vec::new(),
        runs: None,
        out: folder.path().to_owned(),
        existing: ExistingResults::Refuse,
        spend_again: false,
        threads: Some(threads),
        failures_max: FailuresMax::default(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    run_federation(federation, &options, &Quiet, &stop).unwrap();
    read_results(&folder.path().join(RESULTS_FILE)).unwrap()
}

/// A run that ends because one agent fails keeps the other agents' trials that were evaluated ahead
/// of virtual time.
#[test]
fn trials_that_were_evaluated_are_kept_where_an_agent_fails() {
    let evaluated = Arc::new(AtomicUsize::new(0));
    let mut federation = of_unequal_speeds("fts", FEATURES, "");
    for agent in ["a0", "a1", "a2"] {
        let evaluated = Arc::clone(&evaluated);
        let value = move |at: &Point| {
            evaluated.fetch_add(1, Ordering::Relaxed);
            match agent {
                "a0" => Err("broken".to_owned()),
                _ => Ok(at.number("x")),
            }
        };
        federation = federation.with_objective(agent, Arc::new(Closure(value))).unwrap();
    }
    let rows = rows(&federation, 1);
    let of = |agent: &str| rows.iter().filter(|row| row.agent == agent).count();
    assert!(of("a0") > 0 && of("a0") < 22, "{}", of("a0"));
    assert_eq!((of("a1"), of("a2")), (1, 1));
    assert_eq!(rows.len(), evaluated.load(Ordering::Relaxed));
}

/// No agent waits. An agent that is a hundred times as fast finishes before another has its second
/// result, and a stalled agent delays neither of them. The exchanged information does not depend on
/// the number of threads.
#[test]
fn a_fast_agent_waits_for_nobody() {
    let private = "[privacy]\nsimulate = true\nepsilon = 4.0\nparticipations = 5\n";
    let tables = [("fts", FEATURES.to_owned()), ("shared-prior", FEATURES.to_owned())];
    let private = ("dp-fts-de", format!("{FEATURES}{private}"));
    for (algorithm, tables) in tables.into_iter().chain([private]) {
        let federation = of_unequal_speeds(algorithm, &tables, "");
        let queries = in_order(&federation, 1);
        assert_eq!(queries.len(), 3 * 22, "{algorithm}");
        let of = |agent: &str| {
            let mut places = queries.iter().enumerate().filter(|(_, query)| query.0 == agent);
            let first = places.next().unwrap().0;
            (first, places.next().unwrap().0, places.next_back().unwrap().0)
        };
        assert_eq!(of("a0"), (0, 1, 21), "{algorithm}: as quick as alone");
        let (first, second, last) = of("a1");
        assert!(first >= 22 && second > first && last == 43, "{algorithm}");
        assert_eq!(of("a2"), (44, 45, 65), "{algorithm}: the one that stands still");
        assert_eq!(queries, in_order(&federation, 3), "{algorithm}: whatever the threads");
    }
}

/// A slow agent learns from the fast one by using messages from an agent that has finished.
#[test]
fn messages_of_an_agent_that_has_ended_are_of_use_until_they_are_too_old() {
    let is_message = |(agent, _, query): &&(String, i64, String)| {
        agent == "a1" && query.starts_with("message:a0")
    };
    let n_used = |network: &str| {
        let federation = of_unequal_speeds("fts", FEATURES, network);
        in_order(&federation, 1).iter().filter(is_message).count()
    };
    assert_eq!(n_used("max_age = 5000\n"), 1, "its last message, once");
    assert_eq!(n_used("max_age = 10\n"), 0);
}
