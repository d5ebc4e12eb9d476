//! One round of the private mechanism over a large roster, compared with a single pass over the
//! same memory.

use anyhow::{Context, Result};
use fedbo_privacy::accounting::{NoiseMultiplier, SamplingRate};
use fedbo_privacy::mechanism::{Mechanism, MechanismSettings, ReleaseShape, SecureNoise};
use fedbo_streams::{Purpose, Seed};
use serde_json::{Value, json};

use crate::measure::{Limits, columns, measure, rounded};

/// Returns two rows with M = 100 and P = 4. The first uses standard normal vectors, most of which
/// are not clipped. The second uses vectors ten times as long, all of which are clipped.
///
/// `draw_s` is the time of sampling and noise, measured in a round without participants. Two passes
/// over the same numbers serve as a baseline: `sum_s` is a plain sum, and `stream_s` uses eight
/// parallel sums at memory bandwidth.
pub(crate) fn rows(n_slots: u32, limits: &Limits) -> Result<Vec<Value>> {
    let (n_regions, n_features) = (4, 100);
    let mechanism = Mechanism::new(MechanismSettings {
        n_slots,
        n_regions,
        n_features,
        max_norm: 1.1 * f64::from(n_regions * n_features).sqrt(),
        sampling_rate: SamplingRate::new(0.25)?,
        noise_multiplier: NoiseMultiplier::new(1.0)?,
    })?;
    let n_features = n_features as usize;
    let mut rows = Vec::new();
    for (vectors, scale) in [("inside", 1.0), ("clipped", 10.0)] {
        let mut draws = Seed::new(1).stream(Purpose::TEST, 0, 0);
        let mut numbers = draws.normals(n_slots as usize * n_features);
        numbers.iter_mut().for_each(|x| *x *= scale);
        let (sum, _) = measure(limits, Ok, |_| Ok(numbers.iter().sum::<f64>()))?;
        let (stream, _) = measure(limits, Ok, |_| Ok(stream_sum(&numbers)))?;
        let (draw, _) = measure(
            limits,
            |_| Ok(SecureNoise::new()),
            |source| Ok(mechanism.begin(0, ReleaseShape::Regions).close(source)?),
        )?;
        let (timing, _) = measure(
            limits,
            |round| Ok(Some(mechanism.begin(round, ReleaseShape::Regions))),
            |collecting| {
                let mut collecting = collecting.take().context("a round closes once")?;
                for (slot, vector) in (0..n_slots).zip(numbers.chunks_exact(n_features)) {
                    collecting.receive(slot, vector)?;
                }
                Ok(collecting.close(&mut SecureNoise::new())?)
            },
        )?;
        let mut row = columns(json!({
            "peer": "fedbo", "vectors": vectors, "agents": n_slots, "M": n_features, "P": n_regions
        }));
        row.extend(timing.columns());
        for (name, other) in [("draw", &draw), ("sum", &sum), ("stream", &stream)] {
            row.insert(format!("{name}_s"), rounded(other.median(), 9));
        }
        for (name, other) in [("sum", &sum), ("stream", &stream)] {
            let ratio = timing.median() / other.median();
            row.insert(format!("ratio_{name}"), rounded(ratio, 2));
        }
        rows.push(Value::Object(row));
    }
    Ok(rows)
}

/// Sums all numbers with eight parallel accumulators.
fn stream_sum(numbers: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    for block in numbers.as_chunks().0 {
        let block: &[f64; 8] = block;
        sums.iter_mut().zip(block).for_each(|(s, x)| *s += x);
    }
    sums.iter().sum()
}
