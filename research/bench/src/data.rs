//! Data sets used by the peers' scripts.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use fedbo_optim::Points;

/// Loads the first `n` rows of a data set: inputs n×d and outputs n.
///
/// Reads from the folder `BENCH_DATA`, by default `../shared/bench/data` next to the workspace.
pub(crate) fn load(name: &str, n: usize) -> Result<(Points, Vec<f64>)> {
    let folder = std::env::var_os("BENCH_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/bench/data"),
        PathBuf::from,
    );
    let path = folder.join(name);
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("{}: set BENCH_DATA to the data sets' folder", path.display()))?;
    let mut lines = text.lines();
    let dim = lines.next().map_or(0, |head| head.split(',').count() - 1);
    ensure!(dim > 0, "{} has no header line", path.display());
    let (mut inputs, mut y) = (Points::new(dim), Vec::with_capacity(n));
    for line in lines.take(n) {
        let numbers: Vec<f64> = line
            .split(',')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .with_context(|| format!("{}: {line}", path.display()))?;
        ensure!(
            numbers.len() == dim + 1,
            "{}: {line} does not have {dim} inputs and an output",
            path.display()
        );
        inputs.push(&numbers[..dim]);
        y.push(numbers[dim]);
    }
    ensure!(y.len() == n, "{} has {} rows, but {n} are requested", path.display(), y.len());
    Ok((inputs, y))
}
