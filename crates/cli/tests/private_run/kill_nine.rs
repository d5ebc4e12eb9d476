//! SIGKILL at random points.

use std::time::Duration;

use fedbo_ledger::Head;
use rustix::process::Signal;

use crate::common::{Sandbox, finished_code, interrupt, wait_until};
use crate::private_run::federations::{LEDGER, federation, releases, statement};

/// The run is killed twenty times at random points. Every release is charged, stays identical byte
/// for byte, and is never released twice.
#[test]
fn kill_nine() {
    const N_AGENTS: usize = 8;
    const N_ROUNDS: u64 = 30;
    let sandbox = Sandbox::new();
    let tables = format!("[privacy]\nepsilon = 2.0\nreleases = {N_ROUNDS}\n");
    sandbox.write("f.toml", &federation(N_AGENTS, N_ROUNDS, &tables));
    let (ledger, head) = (sandbox.path(LEDGER), sandbox.path("results/test/ledger.head"));
    let n_released = || {
        let text = std::fs::read_to_string(&head).unwrap_or_default();
        text.parse::<Head>().map_or(0, |head| head.seq)
    };
    let mut kept: Vec<(u64, Vec<u8>)> = Vec::new();
    let (mut moment, mut n_midway) = (11_u64, 0);
    for kill in 0..20_u64 {
        let arguments = ["run", "f.toml", "--threads", "2", "--quiet"].into_iter();
        let arguments: Vec<&str> = arguments.chain(sandbox.resume()).collect();
        let mut child = sandbox.start(&arguments);
        // Spread the kills over the whole course: some come before any work is done, the others
        // around a release.
        if kill % 4 != 0 {
            let target = kill * N_ROUNDS / 20;
            wait_until(|| n_released() >= target || child.try_wait().expect("a child").is_some());
        }
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_micros((moment >> 33) % 30_000));
        if child.try_wait().expect("a child").is_none() {
            interrupt(&child, Signal::KILL);
        }
        finished_code(&mut child);

        let noted = n_released();
        let found = releases(&ledger);
        assert!(found.len() as u64 >= noted, "what has left is charged"); // INV-1
        assert_eq!(found[..kept.len()], kept, "what was released is released for ever"); // INV-2
        for (index, (round, _)) in found.iter().enumerate() {
            assert_eq!(*round, index as u64, "each round once");
        }
        if ledger.exists() {
            let text = std::fs::read_to_string(&head).ok();
            let known = text.map(|text| text.parse::<Head>().expect("a whole head"));
            let report = fedbo_ledger::verify(&ledger, known.as_ref()).expect("a ledger");
            assert_eq!(report.problems, []);
            let charged = statement(&ledger).charges.iter().map(|c| c.count).sum::<u64>();
            assert_eq!(charged, found.len() as u64);
        }
        n_midway += u64::from((1..N_ROUNDS).contains(&(found.len() as u64)));
        kept = found;
    }
    assert!(n_midway >= 10, "{n_midway} kills were midway");

    sandbox.fedbo(&["run", "f.toml", "--resume"]).expect(0, &[]);
    let found = releases(&ledger);
    assert_eq!(found.len() as u64, N_ROUNDS);
    assert_eq!(found[..kept.len()], kept);
    let spent = statement(&ledger);
    assert!(spent.claim.epsilon <= 2.0 && spent.n_releases() == N_ROUNDS);
    let rows = sandbox.results("results/test");
    assert_eq!(rows.len(), 1 + N_AGENTS * 32);
    assert!(rows[1..].iter().all(|row| row.ends_with(",ok")));
    // A complete run has nothing left to compute or to charge.
    sandbox.fedbo(&["run", "f.toml", "--resume"]).expect(0, &["spent before: "]);
    assert_eq!(sandbox.results("results/test"), rows);
    assert_eq!(releases(&ledger), found);
}
