//! Repeated timing, as in the peers' `measure`.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};

/// Limits on the number of repetitions of an operation.
///
/// After `min_reps`, repetitions continue until `budget_s` has elapsed or `max_reps` is reached.
pub(crate) struct Limits {
    /// Seconds after which no repetition beyond `min_reps` starts.
    pub(crate) budget_s: f64,
    /// Minimum number of repetitions.
    pub(crate) min_reps: usize,
    /// Maximum number of repetitions.
    pub(crate) max_reps: usize,
}

/// Wall-clock and CPU seconds of every repetition.
pub(crate) struct Timing {
    wall_s: Vec<f64>,
    cpu_s: Vec<f64>,
}

impl Timing {
    /// Returns the mean wall-clock seconds.
    pub(crate) fn mean(&self) -> f64 {
        self.wall_s.iter().sum::<f64>() / count(self.wall_s.len())
    }

    /// Returns the median wall-clock seconds.
    pub(crate) fn median(&self) -> f64 {
        quantile(&self.wall_s, 0.5)
    }

    /// Returns the same columns as the peers: median, minimum, quartiles and number of wall-clock
    /// times, and median CPU time.
    pub(crate) fn columns(&self) -> Map<String, Value> {
        let smallest = self.wall_s.iter().copied().fold(f64::INFINITY, f64::min);
        columns(json!({
            "seconds": rounded(self.median(), 9),
            "min": rounded(smallest, 9),
            "q25": rounded(quantile(&self.wall_s, 0.25), 9),
            "q75": rounded(quantile(&self.wall_s, 0.75), 9),
            "n": self.wall_s.len(),
            "cpu": rounded(quantile(&self.cpu_s, 0.5), 9),
        }))
    }
}

/// Times `run` on the results of `setup` for repetitions 0, 1, …
///
/// An additional repetition at the start warms up and is discarded. Setup and drop are not timed.
pub(crate) fn measure<S, T>(
    limits: &Limits,
    mut setup: impl FnMut(u64) -> anyhow::Result<S>,
    mut run: impl FnMut(&mut S) -> anyhow::Result<T>,
) -> anyhow::Result<(Timing, Vec<T>)> {
    run(&mut setup(0)?)?;
    let (mut timing, mut results) = (Timing { wall_s: Vec::new(), cpu_s: Vec::new() }, Vec::new());
    let begin = Instant::now();
    for repetition in 0.. {
        let n = results.len();
        let in_budget = begin.elapsed().as_secs_f64() < limits.budget_s && n < limits.max_reps;
        if n >= limits.min_reps && !in_budget {
            break;
        }
        let mut state = setup(repetition)?;
        let (wall, cpu) = (Instant::now(), cpu_seconds());
        let result = run(&mut state)?;
        timing.wall_s.push(wall.elapsed().as_secs_f64());
        timing.cpu_s.push(cpu_seconds() - cpu);
        results.push(std::hint::black_box(result));
    }
    Ok((timing, results))
}

/// Adds `value_mean` and its standard error, computed as in the peers' scripts.
pub(crate) fn add_mean(row: &mut Map<String, Value>, values: &[f64]) {
    let n = count(values.len());
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    row.insert("value_mean".into(), rounded(mean, 4));
    row.insert("value_se".into(), rounded((variance / n).sqrt(), 4));
}

/// Converts a JSON object to the columns of a row.
///
/// # Panics
/// If the value is not an object.
pub(crate) fn columns(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(columns) => columns,
        other => unreachable!("{other} is written as an object"),
    }
}

/// Returns a quantile, interpolated linearly between order statistics.
pub(crate) fn quantile(values: &[f64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut position = p * count(sorted.len() - 1);
    for pair in sorted.windows(2) {
        if position < 1.0 {
            return pair[0] + position * (pair[1] - pair[0]);
        }
        position -= 1.0;
    }
    sorted[sorted.len() - 1]
}

/// Converts a count for use in divisions.
#[expect(clippy::cast_precision_loss, reason = "counts in a benchmark are far below 2^53")]
pub(crate) fn count(n: usize) -> f64 {
    n as f64
}

/// Rounds a number to `decimals` decimal places, because further digits are noise.
pub(crate) fn rounded(value: f64, decimals: i32) -> Value {
    let unit = 10_f64.powi(decimals);
    json!((value * unit).round() / unit)
}

/// Returns the CPU seconds that this process has used so far.
#[expect(
    clippy::cast_precision_loss,
    reason = "seconds and nanoseconds of a run are far below 2^53"
)]
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_like_the_peers() {
        // Calculated by hand: positions 0.75, 1.5 and 3 in (1, 2, 4, 8).
        let values = [8.0, 1.0, 4.0, 2.0];
        for (p, expected) in [(0.25, 1.75), (0.5, 3.0), (1.0, 8.0)] {
            assert!((quantile(&values, p) - expected).abs() < 1e-12);
        }
        assert!((quantile(&[5.0], 0.25) - 5.0).abs() < 1e-12);
    }

    #[test]
    fn a_cell_is_repeated_between_its_limits() {
        let limits = |budget_s| Limits { budget_s, min_reps: 3, max_reps: 7 };
        for (budget_s, expected) in [(0.0, 3), (60.0, 7)] {
            let (timing, results) =
                measure(&limits(budget_s), Ok, |repetition| Ok(*repetition)).unwrap();
            assert_eq!(results, (0..expected).collect::<Vec<u64>>());
            assert_eq!(timing.columns()["n"], json!(expected));
        }
    }
}
