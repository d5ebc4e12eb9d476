//! The federations of these tests, and the content of their ledgers.

use std::path::Path;

use fedbo_ledger::Statement;
use rusqlite::OpenFlags;

pub(crate) const LEDGER: &str = "results/test/ledger.db";

/// Returns a federation of test functions.
pub(crate) fn federation(n_agents: usize, rounds: u64, tables: &str) -> String {
    let mut text = format!(
        "[federation]\nname = \"test\"\ndirection = \"minimize\"\nalgorithm = \"dp-fts-de\"\nrounds = {rounds}\n\
         initial = 2\nseed = 3\nnoisy = true\n[features]\ncount = 20\nlengthscale = 0.3\n{tables}\n"
    );
    for index in 0..n_agents {
        text +=
            &format!("[[agents]]\nname = \"a{index}\"\nproblem = \"branin\"\nnoise_std = 0.1\n");
    }
    text
}

/// Returns a federation of agents with constant objectives over the unit square.
pub(crate) fn constant(tables: &str, n_agents: usize) -> String {
    let mut text = format!(
        "[federation]\nname = \"test\"\nalgorithm = \"dp-fts-de\"\nrounds = 5\ninitial = 2\nseed = 3\n[features]\n\
         count = 16\nlengthscale = 0.3\n{tables}\n"
    );
    for name in ["x", "y"] {
        text += &format!("[space.{name}]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n");
    }
    for index in 0..n_agents {
        let value = canary(index);
        text += &format!("[[agents]]\nname = \"a{index}\"\ncommand = [\"echo\", \"{value:?}\"]\n");
    }
    text
}

/// Returns the constant value of an agent's objective.
fn canary(agent: usize) -> f64 {
    0.731_946_285_307_1 + 0.013_579_246_801_3 * agent as f64
}

pub(crate) fn statement(path: &Path) -> Statement {
    fedbo_ledger::read(path).expect("a sound ledger")
}

/// Returns the releases in a ledger by round, or nothing if there is no ledger yet. Does not change
/// the ledger.
pub(crate) fn releases(path: &Path) -> Vec<(u64, Vec<u8>)> {
    if !path.exists() {
        return Vec::new();
    }
    let connection = rusqlite::Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .expect("a ledger");
    let mut query =
        connection.prepare("SELECT round, release FROM entries ORDER BY seq").expect("its entries");
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.expect("its entries").collect::<Result<_, _>>().expect("rounds and bytes")
}
