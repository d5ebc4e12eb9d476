//! `fedbo run` of a charged federation.

use std::collections::BTreeMap;

use fedbo_ledger::Head;

use crate::common::{Ran, Sandbox};
use crate::io_fault_loop::shim::{Mode, Shim};

const LEDGER: &str = "results/test/ledger.db";
const N_AGENTS: usize = 3;
const N_ROUNDS: u64 = 3;

fn federation() -> String {
    let mut text = format!(
        "[federation]\nname = \"test\"\ndirection = \"minimize\"\nalgorithm = \"dp-fts-de\"\nrounds = {N_ROUNDS}\ninitial = 2\n\
         seed = 3\nnoisy = true\n[features]\ncount = 20\nlengthscale = 0.3\n[privacy]\nepsilon = 2.0\nreleases = {N_ROUNDS}\n"
    );
    for agent in 0..N_AGENTS {
        text +=
            &format!("[[agents]]\nname = \"a{agent}\"\nproblem = \"branin\"\nnoise_std = 0.1\n");
    }
    text
}

/// Returns the releases in a ledger, or nothing if there is no readable ledger.
fn releases(sandbox: &Sandbox) -> Vec<(u64, Vec<u8>)> {
    let path = sandbox.path(LEDGER);
    if !path.exists() {
        return Vec::new();
    }
    let ledger = rusqlite::Connection::open(&path).unwrap();
    let Ok(mut query) = ledger.prepare("SELECT round, release FROM entries ORDER BY seq") else {
        return Vec::new(); // the tables have not been created
    };
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

/// Runs on a disk that fails at call number `at`, then on a working disk. Returns the failed call
/// and the exit code; `None` if no call failed.
fn run(shim: &Shim, at: usize, mode: Mode) -> Option<(String, i32)> {
    let sandbox = Sandbox::new();
    sandbox.write("f.toml", &federation());
    let name = format!("run {at} {mode:?}");
    let mut command = sandbox.command(&["run", "f.toml", "--threads", "1"]);
    shim.load(&mut command, &name, sandbox.folder.path(), (at, mode));
    let ran: Ran = command.output().unwrap().into(); // no panic
    let failed = shim.failure(&name);
    let context = format!("{name}: {failed:?}\n{}", ran.stderr);
    let code = ran.code.expect(&context);
    match code {
        0 => {}
        2 | 4 => assert!(ran.stderr.contains("error: "), "{context}"),
        _ => panic!("exit code {code}: {context}"),
    }
    let before = releases(&sandbox);
    let head = std::fs::read_to_string(sandbox.path("results/test/ledger.head"));
    // The head's file may be partially written, in which case it does not parse.
    let left = head.ok().and_then(|text| text.parse::<Head>().ok());
    assert!(before.len() as u64 >= left.map_or(0, |head| head.seq), "{context}"); // INV-1

    // On a working disk, the run continues.
    let arguments = ["run", "f.toml"].into_iter();
    let arguments: Vec<&str> = arguments.chain(sandbox.resume()).collect();
    let again = sandbox.fedbo(&arguments);
    assert_eq!(again.code, Some(0), "{context}\nthen: {}", again.stderr);
    let after = releases(&sandbox);
    let rounds: Vec<u64> = after.iter().map(|(round, _)| *round).collect();
    assert_eq!(rounds, (0..N_ROUNDS).collect::<Vec<_>>(), "{context}");
    assert_eq!(after[..before.len()], before, "{context}"); // INV-2
    let report = fedbo_ledger::verify(&sandbox.path(LEDGER), left.as_ref()).expect(&context);
    assert_eq!(report.problems, [], "{context}");
    let statement = fedbo_ledger::read(&sandbox.path(LEDGER)).expect(&context);
    let charged: u64 = statement.charges.iter().map(|charge| charge.count).sum();
    assert_eq!(charged, N_ROUNDS, "{context}");
    let rows = sandbox.results("results/test");
    assert_eq!(rows.len(), 1 + N_AGENTS * 5, "{context}");
    assert!(rows[1..].iter().all(|row| row.ends_with(",ok")), "{context}");
    for file in ["summary.json", "curves.svg"] {
        assert!(sandbox.path("results/test").join(file).exists(), "{context}");
    }
    failed.map(|what| (what, code))
}

/// Makes every `step`-th call fail, in alternating modes or in all modes, and prints the outcomes.
fn faults(step: usize, all_modes: bool) {
    let shim = Shim::build();
    assert_eq!(run(&shim, 0, Mode::Broken), None);
    let n_calls = shim.calls("run 0 Broken").len();
    assert!(n_calls > 50, "{n_calls} calls");
    let mut outcomes: BTreeMap<(String, i32), usize> = BTreeMap::new();
    // The last call number exceeds the number of calls, so nothing fails.
    for (index, at) in (1..n_calls + step).step_by(step).enumerate() {
        for (which, mode) in Mode::ALL.into_iter().enumerate() {
            if (all_modes || which == index % 3)
                && let Some(outcome) = run(&shim, at, mode)
            {
                *outcomes.entry(outcome).or_default() += 1;
            }
        }
    }
    let n_failed: usize = outcomes.values().sum();
    assert!(n_failed * step >= n_calls * 9 / 10, "{n_failed} of {n_calls}: {outcomes:#?}");
    let stopped = outcomes.keys().filter(|(_, code)| *code != 0).count();
    assert!(stopped >= 3, "{outcomes:#?}");
    eprintln!("{n_calls} calls: {outcomes:#?}");
}

#[test]
fn a_run_goes_on_from_any_failed_call() {
    faults(17, false);
}

#[test]
#[ignore = "long: run by cargo xtask test --long"]
fn a_run_goes_on_from_every_failed_call() {
    faults(1, true);
}
