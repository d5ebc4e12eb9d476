//! Replays the seeds, the corpus, and the inputs of fixed bugs through every target.
#![expect(clippy::unwrap_used, reason = "the tests' own folders and files")]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fedbo_fuzzing::{TARGETS, Target};

/// Time limit for one input, without optimization and on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Returns the name and content of every file in a folder. The folder need not exist.
fn inputs(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut inputs: Vec<_> =
        paths.map(|path| (path.display().to_string(), fs::read(path).unwrap())).collect();
    inputs.sort();
    inputs
}

thread_local! {
    /// Number of panics in this thread, including caught ones.
    static OWN: Cell<usize> = const { Cell::new(0) };
}
/// The only test that replays nothing.
const INVENTORY: &str = "every_target_has_a_test_a_binary_and_its_own_inputs";
/// Number of panics in threads that do not run a test.
static OTHERS: AtomicUsize = AtomicUsize::new(0);

/// Starts counting panics, since a service catches the panics of its tasks.
fn count_panics() {
    static COUNTED: Once = Once::new();
    COUNTED.call_once(|| {
        let shown = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            OWN.set(OWN.get() + 1);
            let thread = std::thread::current();
            let is_test = thread.name().is_some_and(|name| {
                REPLAYED.contains(&name) || [INVENTORY, "main"].contains(&name)
            });
            OTHERS.fetch_add(usize::from(!is_test), Ordering::SeqCst);
            shown(panic);
        }));
    });
}

fn replay(name: &str) {
    let target: Target = *TARGETS.iter().find(|target| target.name == name).unwrap();
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty());
    let seeds = seeds.into_iter().enumerate();
    let mut all: Vec<_> = seeds.map(|(n, bytes)| (format!("first input {n}"), bytes)).collect();
    all.extend(inputs(&fuzz().join("regressions").join(name)));
    all.extend(inputs(&fuzz().join("corpus").join(name)));
    count_panics();
    let others = OTHERS.load(Ordering::SeqCst);
    let mut bad = Vec::new();
    for (from, bytes) in &all {
        let since = Instant::now();
        let before = OWN.get();
        let result = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes)));
        if result.is_err() || OWN.get() > before {
            bad.push(from.clone());
        }
        assert!(since.elapsed() < PATIENCE, "{from} took {:?}", since.elapsed());
    }
    assert!(bad.is_empty(), "{name} panics with {}", bad.join(", "));
    assert_eq!(OTHERS.load(Ordering::SeqCst), others, "a thread of a service panicked");
}

macro_rules! replayed {
    ($($name:ident),*) => {
        /// Targets with a test below.
        const REPLAYED: &[&str] = &[$(stringify!($name)),*];
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*
    };
}

replayed!(
    broadcast,
    checkpoint,
    cli,
    config,
    database,
    http,
    ledger,
    ledger_file,
    report,
    service,
    sum,
    table,
    upload
);

/// Every target has a test here and a binary, and every folder of inputs belongs to a target.
#[test]
fn every_target_has_a_test_a_binary_and_its_own_inputs() {
    let named: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    let replayed: BTreeSet<String> = REPLAYED.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(replayed, named);
    let names = |folder: &str, suffix: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(fuzz().join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.map(|name| name.strip_suffix(suffix).unwrap().to_owned()).collect()
    };
    assert_eq!(names("fuzz_targets", ".rs"), named);
    assert_eq!(names("corpus", ""), named);
    // The folder does not exist until the first bug is found.
    if fuzz().join("regressions").is_dir() {
        assert!(names("regressions", "").is_subset(&named));
    }
}
