//! Processor time and memory of processes, as reported by Linux.

use std::fs;

use anyhow::{Context, Result};
use rustix::param::clock_ticks_per_second;

/// Returns the processor seconds that a process has used so far.
pub(super) fn cpu_seconds(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("{path}: Linux only"))?;
    // The name, in parentheses, may contain spaces. User and system time are the 12th and 13th
    // fields after it.
    let after_name = text.rsplit_once(')').context("a stat line without a name")?;
    let fields: Vec<&str> = after_name.1.split_whitespace().collect();
    ticks(fields.get(11..13).context("a short stat line")?)
}

/// Returns the total busy seconds of all processors so far.
pub(super) fn machine_seconds() -> Result<f64> {
    let path = "/proc/stat";
    let text = fs::read_to_string(path).with_context(|| format!("{path}: Linux only"))?;
    let line = text.lines().next().unwrap_or_default();
    let fields: Vec<&str> = line.split_whitespace().collect();
    // Fields: user, nice, system, idle, iowait, irq, softirq. All but idle and iowait are busy.
    let busy = [1, 2, 3, 6, 7].map(|at| fields.get(at).copied().unwrap_or("0"));
    ticks(&busy)
}

/// Returns a process's current and peak resident memory, in MiB.
pub(super) fn resident_mib(pid: u32) -> Result<(f64, f64)> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("{path}: Linux only"))?;
    let of = |name: &str| -> Result<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next());
        let kib: f64 = kib.with_context(|| format!("no {name} in {path}"))?.parse()?;
        Ok(kib / 1024.0)
    };
    Ok((of("VmRSS:")?, of("VmHWM:")?))
}

#[expect(clippy::cast_precision_loss, reason = "ticks of a run are far below 2^53")]
fn ticks(fields: &[&str]) -> Result<f64> {
    let mut sum = 0_u64;
    for field in fields {
        sum += field.parse::<u64>()?;
    }
    Ok(sum as f64 / clock_ticks_per_second() as f64)
}
