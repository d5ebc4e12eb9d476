//! `fuzz`: tests every decoder with hostile bytes that libFuzzer derives from `fuzz/corpus`.
//!
//! The targets are in `tools/fuzzing`. The tests of that crate replay the corpus and the
//! regressions without libFuzzer. This task builds the binaries of `fuzz` with instrumentation and
//! runs each for a fixed number of executions. A failing input is saved below `fuzz/regressions`,
//! where those tests find it.

use std::collections::VecDeque;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::process::{installed, root, run};
use crate::system;

/// Version to install if cargo-fuzz is missing.
const CARGO_FUZZ: &str = "0.13.2";
/// Seconds after which an input counts as a hang.
const TIMEOUT_S: u32 = 30;
/// Maximum memory of a target, in megabytes.
const MEMORY_MB: u32 = 2048;

/// The arguments of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Fuzz {
    /// Run only these targets
    targets: Vec<String>,
    /// Executions per target, instead of those of `cargo xtask test --all`
    #[arg(long, conflicts_with = "long")]
    runs: Option<u64>,
    /// Run fifty times as many executions as `cargo xtask test --all`
    #[arg(long)]
    long: bool,
    /// Targets to run in parallel [default: the number of processors]
    #[arg(long)]
    jobs: Option<NonZero<usize>>,
    /// Seed of libFuzzer [default: drawn and printed by libFuzzer]
    #[arg(long)]
    seed: Option<NonZero<u32>>,
    /// Add the new inputs to the corpus, minimized to the fewest and smallest ones that reach the
    /// same code
    #[arg(long)]
    keep: bool,
    /// List the targets and stop
    #[arg(long)]
    list: bool,
}

/// A binary of `fuzz`.
struct Target {
    name: &'static str,
    /// Number of executions in `cargo xtask test --all`.
    n_runs: u64,
    /// Maximum size of an input in bytes.
    max_len: u32,
}

/// All targets. Slow targets come first, so that the run does not end with a single slow target.
const TARGETS: [Target; 13] = [
    // Targets with SQLite files and sockets, a hundred to a thousand times slower than the others.
    target_of("database", 2_000, 512),
    target_of("ledger_file", 4_000, 512),
    target_of("service", 30_000, 2_048),
    target_of("table", 15_000, 2_048),
    target_of("sum", 30_000, 4_096),
    target_of("cli", MANY, 4_096),
    target_of("checkpoint", MANY, 4_096),
    target_of("config", MANY, 4_096),
    target_of("broadcast", MANY, 4_096),
    target_of("http", MANY, 4_096),
    target_of("ledger", MANY, 4_096),
    target_of("report", MANY, 4_096),
    target_of("upload", MANY, 4_096),
];

/// Number of executions of a fast target.
const MANY: u64 = 100_000;

/// Multiplier for the number of executions in the long form.
const LONG: u64 = 50;

const fn target_of(name: &'static str, n_runs: u64, max_len: u32) -> Target {
    Target { name, n_runs, max_len }
}

impl Fuzz {
    /// Creates the task for all targets, as in `cargo xtask test --all`.
    pub(crate) fn all(long: bool) -> Self {
        Self {
            targets: Vec::new(),
            runs: None,
            long,
            jobs: None,
            seed: None,
            keep: false,
            list: false,
        }
    }

    pub(crate) fn run(&self) -> Result<()> {
        let chosen = self.chosen()?;
        if self.list {
            for target in chosen {
                println!("{:<12} {:>9} executions", target.name, target.n_runs);
            }
            return Ok(());
        }
        let binaries = build()?;
        let scratch = Scratch::make()?;
        let jobs = self.jobs.or_else(|| std::thread::available_parallelism().ok());
        let waiting = Mutex::new(VecDeque::from(chosen));
        let failures = Mutex::new(Vec::new());
        let work = || {
            let next = || lock(&waiting).pop_front();
            while let Some(target) = next() {
                let scratch = scratch.0.join(target.name);
                match self.try_out(target, &binaries, &scratch) {
                    Ok(said) => println!("{said}"),
                    Err(error) => {
                        println!("{:<12} FAILED: {error:#}", target.name);
                        lock(&failures).push(target.name);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..jobs.map_or(1, NonZero::get) {
                scope.spawn(work);
            }
        });
        let failures = lock(&failures);
        if !failures.is_empty() {
            bail!("{} failed", failures.join(", "));
        }
        Ok(())
    }

    fn chosen(&self) -> Result<Vec<&'static Target>> {
        let named = |name: &String| {
            let found = TARGETS.iter().find(|target| target.name == name);
            found.with_context(|| format!("no target is called {name}; `--list` shows them"))
        };
        if self.targets.is_empty() {
            return Ok(TARGETS.iter().collect());
        }
        self.targets.iter().map(named).collect()
    }

    fn n_runs(&self, target: &Target) -> u64 {
        match self.long {
            true => LONG * target.n_runs,
            false => self.runs.unwrap_or(target.n_runs),
        }
    }

    /// Runs one target and returns a summary of the run.
    fn try_out(&self, target: &Target, binaries: &Path, scratch: &Path) -> Result<String> {
        let name = target.name;
        let folders = Folders::of(name)?;
        fs::create_dir(scratch).with_context(|| scratch.display().to_string())?;
        let binary = binaries.join(name);
        let mut command = Command::new(&binary);
        command
            .arg(&folders.learned)
            .arg(&folders.corpus)
            .arg(format!("-runs={}", self.n_runs(target)))
            .arg(format!("-max_len={}", target.max_len))
            .arg(format!("-timeout={TIMEOUT_S}"))
            .arg(format!("-report_slow_units={TIMEOUT_S}"))
            .arg(format!("-rss_limit_mb={MEMORY_MB}"))
            .arg(format!("-artifact_prefix={}/", folders.regressions.display()))
            .arg("-print_final_stats=1")
            .current_dir(root())
            .env("FEDBO_FUZZ_SCRATCH", scratch)
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null());
        if let Some(seed) = self.seed {
            command.arg(format!("-seed={seed}"));
        }
        if let Some(words) = dictionary(name) {
            command.arg(format!("-dict={}", words.display()));
        }
        let since = Instant::now();
        let output = command.output().with_context(|| binary.display().to_string())?;
        let seconds = since.elapsed().as_secs_f64();
        let told = String::from_utf8_lossy(&output.stderr);
        fs::write(&folders.log, &output.stderr)
            .with_context(|| folders.log.display().to_string())?;
        if !output.status.success() {
            bail!("{}", failure(&told, &folders.log));
        }
        let n_executed = statistic(&told, "number_of_executed_units");
        let n_learned = fs::read_dir(&folders.learned)?.count();
        if self.keep {
            folders.merge(&binary, scratch)?;
        }
        let rate = n_executed as f64 / seconds;
        Ok(format!(
            "{name:<12} {n_executed:>9} executions {seconds:>7.1} s {rate:>9.0}/s {n_learned:>6} new inputs"
        ))
    }
}

/// Input folders of a target, and the log of its run.
struct Folders {
    /// Inputs under version control.
    corpus: PathBuf,
    /// Inputs added by the run; initially empty.
    learned: PathBuf,
    regressions: PathBuf,
    log: PathBuf,
}

impl Folders {
    fn of(name: &str) -> Result<Self> {
        let (fuzz, own) = (root().join("fuzz"), root().join("fuzz/target/learned"));
        let folders = Self {
            corpus: fuzz.join("corpus").join(name),
            learned: own.join(name),
            regressions: fuzz.join("regressions").join(name),
            log: own.join(format!("{name}.log")),
        };
        empty(&folders.learned)?;
        for folder in [&folders.corpus, &folders.regressions] {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        Ok(folders)
    }

    /// Replaces the corpus with a minimal set of inputs that reach the same code as the corpus and
    /// the new inputs together.
    fn merge(&self, binary: &Path, scratch: &Path) -> Result<()> {
        let merged = self.learned.with_extension("merged");
        empty(&merged)?;
        let mut command = Command::new(binary);
        command
            .args(["-set_cover_merge=1", "-use_counters=0"])
            .args([&merged, &self.corpus, &self.learned])
            .env("FEDBO_FUZZ_SCRATCH", scratch)
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        run(&mut command)?;
        empty(&self.corpus)?;
        for entry in fs::read_dir(&merged)? {
            let entry = entry?;
            fs::copy(entry.path(), self.corpus.join(entry.file_name()))?;
        }
        Ok(())
    }
}

/// A scratch folder, in memory if possible, that is removed on drop. Fuzzers do not clean up when
/// they are killed.
struct Scratch(PathBuf);

impl Scratch {
    fn make() -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let parent = match memory.is_dir() {
            true => memory.to_owned(),
            false => std::env::temp_dir(),
        };
        let folder = parent.join(format!("fedbo-fuzz-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Remaining files are small and disappear on reboot.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Builds all targets and returns the folder of the binaries.
///
/// No sanitizer is used: our crates forbid unsafe code, and the fuzzers search for panics,
/// excessive time or memory, and violated assertions. Integer overflow panics, since `cargo fuzz`
/// enables debug assertions.
fn build() -> Result<PathBuf> {
    system::provide_cpp_compiler()?;
    let host = host()?;
    run(Command::new(installed("cargo-fuzz", CARGO_FUZZ)?)
        .args(["fuzz", "build", "--sanitizer", "none", "--target", &host])
        .current_dir(root())
        // The targets are in a separate workspace.
        .env_remove("CARGO_TARGET_DIR"))?;
    Ok(root().join("fuzz/target").join(host).join("release"))
}

/// Returns the host triple, which is part of the path of the binaries.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV does not report a host")?.to_owned())
}

/// Returns the libFuzzer dictionary of a target; `None` if there is none.
fn dictionary(name: &str) -> Option<PathBuf> {
    let words = root().join("fuzz/dictionaries").join(name);
    words.is_file().then_some(words)
}

/// Returns a statistic that libFuzzer printed at the end of a run; 0 if it is missing.
fn statistic(told: &str, name: &str) -> u64 {
    let key = format!("stat::{name}:");
    let count = |line: &str| line.strip_prefix(&key)?.trim().parse().ok();
    told.lines().find_map(count).unwrap_or(0)
}

/// Describes a failed run: the error, the path of the input, and the next step.
fn failure(told: &str, log: &Path) -> String {
    const KEPT: &str = "Test unit written to ";
    let input = told.lines().find_map(|line| Some(line.split_once(KEPT)?.1));
    let words = told.lines().position(|line| line.contains(" panicked at "));
    let summary = told.lines().find(|line| line.starts_with("SUMMARY: "));
    let what = match words {
        Some(at) => told.lines().skip(at).take(2).collect::<Vec<_>>().join(" "),
        None => summary.unwrap_or("it exited without a message").to_owned(),
    };
    let input = match input {
        Some(input) => format!(
            "the input is saved as {input}: fix the bug, then `cargo test -p fedbo-fuzzing` replays it"
        ),
        None => "no input was saved".to_owned(),
    };
    format!("{what}; {input}; the full log is {}", log.display())
}

/// Creates an empty folder. Removes existing contents.
fn empty(folder: &Path) -> Result<()> {
    let emptied = match folder.is_dir() {
        true => fs::remove_dir_all(folder),
        false => Ok(()),
    };
    emptied.and_then(|()| fs::create_dir_all(folder)).with_context(|| folder.display().to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_binary_is_run() {
        let entries = fs::read_dir(root().join("fuzz/fuzz_targets")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let names: BTreeSet<String> = names.collect();
        let run: BTreeSet<String> = TARGETS.iter().map(|t| format!("{}.rs", t.name)).collect();
        assert_eq!(run, names);
    }

    #[test]
    fn a_failure_is_told_in_a_few_words() {
        let told = "INFO: seed\nthread '<unnamed>' (7) panicked at a.rs:1:2:\nindex out of bounds\nstack backtrace:\n\
                    SUMMARY: libFuzzer: deadly signal\nartifact_prefix='f/'; Test unit written to f/crash-0\n\
                    stat::number_of_executed_units: 17\n";
        let said = failure(told, Path::new("cli.log"));
        for part in ["a.rs:1:2: index out of bounds", "f/crash-0", "cli.log"] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(statistic(told, "number_of_executed_units"), 17);
        let timeout = "SUMMARY: libFuzzer: timeout\n";
        assert!(failure(timeout, Path::new("l")).starts_with("SUMMARY: libFuzzer: timeout"));
    }
}
