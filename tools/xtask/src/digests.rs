//! `digests`: a record of computed results, which must not change when code is moved.
//!
//! Each step runs the program in its own folder below `target/digests` and writes files to the
//! subfolder `out`. Parts that depend on a clock or on real noise are removed. The rest is hashed,
//! one line per item, and kept below `target/digests/texts`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{available_parallelism, scope};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::process::{cargo, cargo_in, last_line, root, run, target};
use crate::verify::data_folder;
use crate::workspace::RESEARCH;

/// Path of the record, relative to the workspace.
const RECORD: &str = "tools/xtask/digests.txt";
/// Path of the test vectors of the protocol, relative to the workspace.
const WIRE_VECTORS: &str = "docs/protocol-vectors.json";

/// Suffix of the only item of a failed step.
const FAILED: &str = "/failed";

const HEAD: &str = "\
# Digests of fedbo's results: one item per line, SHA-256 of a file without times and real noise.
# Written by `cargo xtask digests`; `cargo xtask digests --check` compares and lists the differences.
#
# On another kind of machine, factorizations, and so queries after the initial points, agree only up to rounding (docs/decisions/0002):
# results.csv, summary.json, notes.txt, regret.csv and exported trials of model-based strategies may differ there. Settings, arms
# with their rows, frozen studies, charges and wire vectors must not.
";

/// Examples and their scripts, which run in a copy of the folder `examples`.
const EXAMPLES: [(&str, &str); 11] = [
    (
        "branin",
        "fedbo run branin.toml --arms fts,ts,placebo --out out",
    ),
    (
        "digits",
        "fedbo run digits.toml --arms shared-prior,log-ei,warm-start,placebo --out out",
    ),
    (
        "wine",
        "fedbo-research fedbo run \"$RESEARCH/examples/wine.toml\" --arms fts,ts,placebo --runs 2 --out out",
    ),
    (
        "robots",
        "fedbo run robots.toml --arms distributed-ts,ts,placebo --out out
         fedbo topology show robots.toml --json --out out > out/topology.json",
    ),
    // The noise is real. Only results without releases, and the releases and charges in the ledger,
    // are recorded.
    (
        "private",
        "fedbo run private.toml --arms dp-fts-de,ts,placebo --out run
         cp run/settings.json out
         grep -E '^experiment,|,ts,' run/results.csv > out/results.csv
         cut -d, -f1-5 run/results.csv > out/trials.csv
         fedbo privacy verify run > /dev/null
         fedbo privacy statement run --json > out/statement.json",
    ),
    (
        "private-simulated",
        "sed 's/^# simulate = false .*/simulate = true/' private.toml > simulated.toml
         fedbo run simulated.toml --arms dp-fts-de,ts,placebo --out out",
    ),
    (
        "train",
        "fedbo tune train.toml
         fedbo export train.toml > out/trials.csv
         fedbo best train.toml --json > out/best.json",
    ),
    (
        "early-stopping",
        "fedbo tune early-stopping/study.toml
         fedbo export early-stopping/study.toml > out/trials.csv
         fedbo export early-stopping/study.toml --json > out/trials.json",
    ),
    (
        "pricing",
        "fedbo play pricing.toml --out out
         fedbo game record pricing.toml --json > out/record.json",
    ),
    // Three processes that exchange their measurements.
    (
        "peers",
        "for peer in north east south; do fedbo peer peers/$peer.toml & done
         wait
         for peer in north east south; do fedbo export sqlite:peers/home-$peer/trials.db > out/$peer.csv; done",
    ),
    // The frozen text of a new study. The coordinator's key is random.
    (
        "network",
        "fedbo coordinator study create network/federation.toml > /dev/null
         fedbo coordinator study show tutorial --json | sed -E 's/[0-9a-f]{64}/KEY/' > out/study.json",
    ),
];

/// Prefix of each script. Kills processes that the script leaves behind.
const PRELUDE: &str = "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT";

/// Experiments that take a long time even with one run. Only this number of first rows of their
/// results.csv is computed. Rows are written in job order, so they do not depend on the time at
/// which the program is stopped.
const CAPPED: [(&str, usize); 17] = [
    ("bos-curves", 1557),
    ("bos-features", 20),
    ("bos-logistic", 151),
    ("bos-policy", 195),
    ("bos-spam", 20),
    ("dp-landmine", 560),
    ("dts-connectivity", 50),
    ("dts-star", 900),
    ("dts-topologies", 200),
    ("fts-landmine", 954),
    ("fts-vs-meta", 636),
    ("games-adversarial", 465),
    ("games-predator-prey", 1085),
    ("suite", 1500),
    ("suite-choosing", 1500),
    ("suite-high", 1000),
    ("suite-noisy", 1500),
];

/// Options of `cargo xtask digests`.
#[derive(clap::Args)]
pub(crate) struct Digests {
    /// Compare with the record instead of writing it; exit status 1 if an item differs
    #[arg(long)]
    check: bool,
    /// Folder with the programs fedbo and fedbo-research [default: the release builds, which are updated]
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Commit of the program, for the head of the record [default: HEAD]
    #[arg(long, value_name = "COMMIT", conflicts_with = "check")]
    commit: Option<String>,
    /// With --check: only steps with this text in their name, for instance experiment/fts
    #[arg(long, value_name = "TEXT", requires = "check")]
    only: Option<String>,
}

/// A script that runs in its own folder.
struct Step {
    /// First part of the names of its items.
    name: String,
    script: String,
    /// Required data sets.
    data_sets: Vec<String>,
}

#[derive(Deserialize)]
struct Experiment {
    name: String,
    data_sets: Vec<String>,
}

/// The parsed part of `fedbo-research data check --json`.
#[derive(Deserialize)]
struct DataCheck {
    data_sets: Vec<DataSet>,
}

#[derive(Deserialize)]
struct DataSet {
    name: String,
    state: String,
}

type Items = BTreeMap<String, String>;

impl Digests {
    pub(crate) fn run(&self) -> Result<()> {
        let programs = match &self.programs {
            Some(path) => path.canonicalize().with_context(|| path.display().to_string())?,
            None => {
                run(&mut cargo([
                    "build",
                    "--release",
                    "--package",
                    "fedbo-cli",
                    "--features",
                    "games",
                ]))?;
                run(&mut cargo_in(
                    RESEARCH,
                    ["build", "--release", "--package", "fedbo-research"],
                ))?;
                target().join("release")
            }
        };
        let program = programs.join("fedbo-research");
        // Use this checkout's folder, since other checkouts may share the target folder.
        let folder = root().join("target/digests");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(folder.join("bin"))?;
        for name in ["fedbo", "fedbo-research"] {
            std::os::unix::fs::symlink(programs.join(name), folder.join("bin").join(name))?;
        }

        let began = Instant::now();
        let data = data_folder().map(std::path::absolute).transpose()?;
        let complete = match &data {
            Some(data) => complete_sets(&program, data)?,
            None => Vec::new(),
        };
        let is_run = |step: &Step| {
            let is_meant = self.only.as_ref().is_none_or(|only| step.name.contains(only));
            is_meant && step.data_sets.iter().all(|set| complete.contains(set))
        };
        let (steps, left_out): (Vec<Step>, Vec<Step>) =
            steps(&program)?.into_iter().partition(is_run);
        let left_out: Vec<String> = left_out.into_iter().map(|step| step.name).collect();
        let mut items = run_all(steps, &folder, data.as_deref());
        let vectors = fs::read_to_string(root().join(WIRE_VECTORS))?;
        items.insert(WIRE_VECTORS.to_owned(), sha256(&vectors));
        let seconds = began.elapsed().as_secs_f64();
        eprintln!(
            "xtask: {} items in {seconds:.0} s; their texts are in {}",
            items.len(),
            folder.join("texts").display()
        );
        match self.check {
            true => check(&items, &left_out),
            false => self.write(&items, &left_out, data.is_some()),
        }
    }

    /// Writes the record. Skips steps with missing data sets: some data sets are not from the
    /// papers' authors, so a data folder need not contain them.
    fn write(&self, items: &Items, left_out: &[String], has_data: bool) -> Result<()> {
        if let Some(name) = left_out.first().filter(|_| !has_data) {
            bail!("{name} needs the published data; set FEDBO_DATA to the data folder to record");
        }
        for name in left_out {
            eprintln!("xtask: {name} is not recorded: the data folder lacks its data set");
        }
        if let Some(name) = items.keys().find(|name| name.ends_with(FAILED)) {
            bail!("nothing is recorded: {name}");
        }
        let commit = match &self.commit {
            Some(commit) => commit.clone(),
            None => last_line(
                Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(root()),
            )?,
        };
        let mut text = format!("{HEAD}# commit: {commit}\n# machine: {}\n", machine());
        let width = items.keys().map(String::len).max().unwrap_or(0);
        for (name, value) in items {
            writeln!(text, "{name:width$}  {value}")?;
        }
        fs::write(root().join(RECORD), text).context(RECORD)
    }
}

/// Runs steps in parallel on all cores. A failed step has a single item, which contains the error.
fn run_all(steps: Vec<Step>, folder: &Path, data: Option<&Path>) -> Items {
    let queue = Mutex::new(steps.into_iter());
    let items = Mutex::new(Items::new());
    let work = || {
        while let Some(step) = lock(&queue).next() {
            let began = Instant::now();
            let found = step.run(folder, data).unwrap_or_else(|error| {
                eprintln!("xtask: {}: {error:#}", step.name);
                Items::from([(format!("{}{FAILED}", step.name), error.to_string())])
            });
            lock(&items).extend(found);
            let seconds = began.elapsed().as_secs_f64();
            eprintln!("xtask: {} took {seconds:.1} s", step.name);
        }
    };
    scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
    items.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compares items with the record and prints the differences to standard output.
fn check(items: &Items, left_out: &[String]) -> Result<()> {
    let text = fs::read_to_string(root().join(RECORD)).context(RECORD)?;
    let machine = machine();
    if !text.contains(&format!("# machine: {machine}\n")) {
        eprintln!(
            "xtask: {RECORD} was recorded on another kind of machine than this one ({machine}); its header lists permitted differences"
        );
    }
    for name in left_out {
        eprintln!("xtask: {name} was not run and is not compared");
    }
    let differences = differences(&parse(&text)?, items, left_out);
    for difference in &differences {
        println!("{difference}");
    }
    if !differences.is_empty() {
        bail!("{} items differ from {RECORD}", differences.len());
    }
    eprintln!("xtask: all {} items match the record", items.len());
    Ok(())
}

/// Parses the items of a record.
fn parse(text: &str) -> Result<Items> {
    let item = |line: &str| {
        let (name, value) =
            line.split_once(' ').with_context(|| format!("{RECORD}: no item: {line}"))?;
        Ok((name.to_owned(), value.trim().to_owned()))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(item).collect()
}

/// Returns one line per item that differs from the record. Recorded items of skipped steps are
/// ignored.
fn differences(recorded: &Items, found: &Items, left_out: &[String]) -> Vec<String> {
    let is_left_out = |name: &str| left_out.iter().any(|step| is_of(name, step));
    let mut names: Vec<&String> = recorded.keys().chain(found.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let difference = |name: &String| match (recorded.get(name), found.get(name)) {
        (Some(old), Some(new)) if old != new => {
            Some(format!("changed: {name}: recorded {old}, found {new}"))
        }
        (Some(_), None) if !is_left_out(name) => Some(format!("missing: {name}")),
        (None, Some(new)) => Some(format!("new: {name}: {new}")),
        _ => None,
    };
    names.into_iter().filter_map(difference).collect()
}

/// Returns true if an item belongs to a step.
fn is_of(item: &str, step: &str) -> bool {
    item.strip_prefix(step).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns the complete data sets of a folder.
fn complete_sets(program: &Path, data: &Path) -> Result<Vec<String>> {
    // The exit code is 2 if no data set is complete.
    let checked = Command::new(program).args(["data", "check", "--json"]).arg(data).output()?;
    let found: DataCheck = serde_json::from_slice(&checked.stdout)
        .with_context(|| format!("fedbo-research data check {}", data.display()))?;
    let complete = found.data_sets.into_iter().filter(|set| set.state == "complete");
    Ok(complete.map(|set| set.name).collect())
}

/// Returns all steps: the examples and each declared experiment.
fn steps(program: &Path) -> Result<Vec<Step>> {
    let listed = Command::new(program).args(["list", "--json"]).output()?;
    let experiments: Vec<Experiment> = serde_json::from_slice(&listed.stdout)?;
    let examples = EXAMPLES.map(|(name, script)| Step {
        name: format!("example/{name}"),
        script: format!("cp -R \"$EXAMPLES\"/. .\n{script}"),
        data_sets: Vec::new(),
    });
    let experiments = experiments.into_iter().map(|Experiment { name, data_sets }| {
        let data = if data_sets.is_empty() { "" } else { " --data \"$FEDBO_DATA\"" };
        let line = format!("fedbo-research run {name} --runs 1 --json --quiet{data}");
        let script = match CAPPED.iter().find(|(capped, _)| *capped == name) {
            None => format!("{line} --out out 2> out/notes.txt"),
            // With one thread, the first rows are computed first. With several, jobs from the
            // middle would also start.
            Some((_, rows)) => format!(
                "RAYON_NUM_THREADS=${{RAYON_NUM_THREADS:-1}} {line} --out run &
                 until [ -e run/results.csv ] && [ \"$(wc -l < run/results.csv)\" -gt {rows} ]; do kill -0 $!; sleep 0.1; done
                 kill -KILL $!
                 wait $! || true
                 head -n $(({rows} + 1)) run/results.csv > out/results.csv"
            ),
        };
        Step { name: format!("experiment/{name}"), script, data_sets }
    });
    Ok(examples.into_iter().chain(experiments).collect())
}

impl Step {
    /// Runs the step and returns its items.
    fn run(&self, folder: &Path, data: Option<&Path>) -> Result<Items> {
        let own = folder.join(&self.name);
        let out = own.join("out");
        fs::create_dir_all(&out)?;
        let path = std::env::var("PATH")?;
        let errors = own.join("stderr");
        let script = format!("{PRELUDE}\n{}", self.script);
        let status = Command::new("sh")
            .args(["-e", "-c", &script])
            .current_dir(&own)
            .env("PATH", format!("{}:{path}", folder.join("bin").display()))
            .env("EXAMPLES", root().join("examples"))
            .env("RESEARCH", root().join(RESEARCH))
            .env("FEDBO_DATA", data.unwrap_or(folder))
            .env_remove("FEDBO_COORDINATOR")
            .stdin(Stdio::null())
            .stdout(fs::File::create(own.join("stdout"))?)
            .stderr(fs::File::create(&errors)?)
            .status()?;
        if !status.success() {
            let errors = fs::read_to_string(errors)?;
            bail!("{}", format!("{status}: {}", errors.trim()).replace('\n', " | "));
        }
        let mut items = Items::new();
        for entry in fs::read_dir(&out)? {
            let path = entry?.path();
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = match path.extension().and_then(|extension| extension.to_str()) {
                Some("csv") => without_times_csv(&fs::read(&path)?)?,
                Some("json" | "txt") => without_times(&fs::read_to_string(&path)?),
                _ => continue,
            };
            let item = format!("{}/{file}", self.name);
            let kept = folder.join("texts").join(&item);
            fs::create_dir_all(kept.parent().unwrap_or(folder))?;
            fs::write(kept, &text)?;
            if file == "results.csv"
                && let Some(arms) = arms(&text)?
            {
                items.insert(format!("{}/arms", self.name), arms);
            }
            items.insert(item, sha256(&text));
        }
        Ok(items)
    }
}

/// Returns true for columns and fields that contain times, or ledger heads, which depend on the
/// noise.
fn varies(name: &str) -> bool {
    name.contains("seconds") || name.ends_with("_at") || name == "head" || name == "ledger_head"
}

/// Removes the varying columns of a table.
fn without_times_csv(bytes: &[u8]) -> Result<String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(bytes);
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut kept = Vec::new();
    for record in reader.records() {
        let record = record?;
        if kept.is_empty() {
            kept = record.iter().map(|name| !varies(name)).collect();
        }
        writer.write_record(
            record.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(cell, _)| cell),
        )?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

/// Removes varying lines from a string: JSON fields, one per line, and notes about the duration of
/// proposals.
fn without_times(text: &str) -> String {
    let name = |line: &str| -> Option<String> {
        Some(line.trim().strip_prefix('"')?.split_once("\":")?.0.to_owned())
    };
    let is_note = |line: &str| line.starts_with("Mean milliseconds per proposal:");
    let lines =
        text.lines().filter(|line| !is_note(line) && !name(line).is_some_and(|name| varies(&name)));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns the number of rows, and the arms in order of first appearance; `None` for a table
/// without arms.
fn arms(text: &str) -> Result<Option<String>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let Some(column) = reader.headers()?.iter().position(|name| name == "arm") else {
        return Ok(None);
    };
    let (mut rows, mut arms) = (0, Vec::new());
    for record in reader.records() {
        let arm = record?.get(column).unwrap_or_default().replace(' ', "_");
        rows += 1;
        if !arms.contains(&arm) {
            arms.push(arm);
        }
    }
    Ok(Some(format!("{rows} rows of {}", arms.join(","))))
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Describes the properties of this machine on which results of linear algebra depend.
fn machine() -> String {
    #[cfg(target_arch = "x86_64")]
    let units = match () {
        () if is_x86_feature_detected!("avx512f") => ", AVX-512",
        () if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") => ", AVX2",
        () => "",
    };
    #[cfg(not(target_arch = "x86_64"))]
    let units = "";
    format!("{} {}{units}", std::env::consts::OS, std::env::consts::ARCH)
}

#[cfg(test)]
mod test {
    use super::*;

    fn items(of: &[(&str, &str)]) -> Items {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        of.iter().map(owned).collect()
    }

    #[test]
    fn what_is_changed_missing_or_new_is_named() {
        let recorded = items(&[("a/same", "1"), ("b/changed", "2"), ("c/gone", "3")]);
        let found = items(&[("a/same", "1"), ("b/changed", "4"), ("d/new", "5")]);
        let expected =
            ["changed: b/changed: recorded 2, found 4", "missing: c/gone", "new: d/new: 5"];
        assert_eq!(differences(&recorded, &found, &[]), expected);
        assert!(differences(&recorded, &recorded, &[]).is_empty());
    }

    #[test]
    fn only_steps_that_were_left_out_may_be_missing() {
        let recorded = items(&[("experiment/fts/arms", "1"), ("experiment/fts-wine/arms", "2")]);
        let left_out = ["experiment/fts".to_owned()];
        assert_eq!(
            differences(&recorded, &Items::new(), &left_out),
            ["missing: experiment/fts-wine/arms"]
        );
    }

    #[test]
    fn a_record_reads_back() {
        let text = "# head: of a record\na/results.csv  0f\na/arms         12 rows of ts,fts\n";
        let expected = items(&[("a/results.csv", "0f"), ("a/arms", "12 rows of ts,fts")]);
        assert_eq!(parse(text).unwrap(), expected);
        assert!(parse("a/results.csv\n").is_err());
    }

    #[test]
    fn times_are_left_out_and_values_are_not() {
        let table = |seconds, value| {
            format!("arm,value,ask_seconds,told_at\n\"a,b\",{value},{seconds},now\n")
        };
        let of = |seconds, value| without_times_csv(table(seconds, value).as_bytes()).unwrap();
        assert_eq!(of("0.1", "3.0"), "arm,value\n\"a,b\",3.0\n");
        assert_eq!(of("0.1", "3.0"), of("0.2", "3.0"));
        assert_ne!(of("0.1", "3.0"), of("0.1", "3.1"));
        let json = "{\n  \"wall_seconds\": 1.0,\n  \"head\": \"5:1f\",\n  \"at\": [],\n  \"mean\": 2.0\n}\n";
        assert_eq!(without_times(json), "{\n  \"at\": [],\n  \"mean\": 2.0\n}\n");
    }

    #[test]
    fn arms_are_listed_in_their_order() {
        let table = "experiment,arm,value\ne,ts,1\ne,fts M = 50,2\ne,ts,3\n";
        assert_eq!(arms(table).unwrap().unwrap(), "3 rows of ts,fts_M_=_50");
        assert_eq!(arms("player,value\na,1\n").unwrap(), None);
    }
}
