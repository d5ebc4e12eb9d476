//! No output or file reveals vectors, norms, clipping or the sample (INV-4).

use std::collections::BTreeSet;

use fedbo_gp::{FeatureDescription, FeatureMap, LengthscaleLaw, WeightPosterior};
use fedbo_privacy::mechanism::{Release, Secure};
use fedbo_strategies::Points;
use fedbo_streams::{Purpose, Seed};

use crate::common::{Ran, Sandbox};
use crate::private_run::federations::{LEDGER, constant, releases};

#[test]
fn nothing_shown_depends_on_the_sample_or_on_what_was_clipped() {
    // Every objective is constant and every agent uses only its own model, so that the output is
    // equal in all runs unless it reveals coins, norms or clipping.
    let run = |max_norm: &str| {
        let sandbox = Sandbox::new();
        let tables = format!(
            "[dp-fts-de]\nlocal_prob = 1.0\nstandardize = false\n[privacy]\nepsilon = 2.0\nsampling_rate = 0.5\n\
             max_norm = {max_norm}\n"
        );
        sandbox.write("f.toml", &constant(&tables, 16));
        let ran = sandbox.fedbo(&["run", "f.toml", "--threads", "1"]);
        ran.expect(0, &[]);
        let sizes = ["results.csv", "ledger.db", "summary.json"].map(|name| {
            // The number of digits of the seconds varies.
            let size =
                std::fs::metadata(sandbox.path("results/test").join(name)).expect("a file").len();
            if name == "ledger.db" { size } else { 0 }
        });
        let queries = sandbox.results("results/test").join("\n");
        (timeless(&shown(&sandbox, &ran)).replace(max_norm, "S"), queries, sizes)
    };
    let first = run("1.25");
    assert!(first.0.contains("spent: epsilon") && first.0.len() > 2000, "{}", first.0);
    for max_norm in ["1.25", "1.25", "1.25", "1280.0"] {
        let (shown, queries, sizes) = run(max_norm);
        // The noise scales with S.
        let shown = shown.replace("1280", "S");
        assert_eq!(shown, first.0.replace("1.25", "S"));
        assert_eq!((queries, sizes), (first.1.clone(), first.2));
    }
}

/// Returns all output and files of a run, except the trials in results.csv and their pictures.
fn shown(sandbox: &Sandbox, ran: &Ran) -> String {
    let file = |name: &str| {
        std::fs::read_to_string(sandbox.path("results/test").join(name)).expect("a file of the run")
    };
    let files = ["summary.json", "settings.json", "ledger.head"];
    files.map(file).concat() + &ran.stdout + &ran.stderr
}

/// Removes the parts that differ between any two runs: seconds, and the hash of the ledger.
fn timeless(text: &str) -> String {
    let mut kept = String::new();
    for line in text.lines() {
        // Removes numbers in JSON, and the closing table's header, row and border, because its
        // width depends on the seconds in it.
        let timed = ["_seconds", "s/query", "0/112", "──"];
        if timed.iter().any(|part| line.contains(part)) {
            continue;
        }
        kept += &without_hashes(line);
        kept.push('\n');
    }
    kept
}

fn without_hashes(line: &str) -> String {
    let words = line.split_inclusive(|c: char| !c.is_ascii_hexdigit());
    words.filter(|word| word.len() < 64).collect()
}

const CANARIES: &str = "[exploration]\nregions = 1\n[dp-fts-de]\nlocal_prob = 1.0\nstandardize = false\nmessage_noise = 0.01\n";

/// Recomputes the vectors that agents send to the coordinator in the rounds with a release, from
/// the trials in `results.csv`. Returns them by round, then by agent.
fn vectors(sandbox: &Sandbox, n_agents: usize, n_rounds: i64) -> Vec<Vec<Vec<f64>>> {
    let description = FeatureDescription::random(16, 2, LengthscaleLaw::Fixed(0.3));
    let mut stream = Seed::new(3).stream(Purpose::SHARED_FEATURES, 0, 0);
    let map = FeatureMap::draw(&description, &mut stream).expect("features");
    let rows = sandbox.results("results/test");
    let of = |agent: usize, until: i64| {
        let (mut inputs, mut outputs) = (Points::new(2), Vec::new());
        for row in &rows[1..] {
            let fields: Vec<&str> = row.split(',').collect();
            let iteration: i64 = fields[4].parse().expect("a number");
            if fields[2] == format!("a{agent}") && iteration <= until {
                let number = |index: usize| fields[index].parse::<f64>().expect("a number");
                inputs.push(&[number(6), number(7)]);
                outputs.push(number(8));
            }
        }
        let posterior = WeightPosterior::new(&map, 0.01, &inputs, &outputs).expect("a posterior");
        posterior.mean().to_vec()
    };
    let rounds = 0..n_rounds;
    rounds.map(|round| (0..n_agents).map(|agent| of(agent, round)).collect()).collect()
}

/// The vectors computed by [`vectors`] are the released ones: with almost no noise, the release is
/// their sum.
#[test]
fn the_canaries_are_the_vectors_that_agents_send() {
    let sandbox = Sandbox::new();
    let privacy =
        "[privacy]\nepsilon = 1e7\nnoise_multiplier = 0.001\nreleases = 2\nmax_norm = 4.0\n";
    sandbox.write("f.toml", &constant(&(CANARIES.to_owned() + privacy), 2));
    let ran = sandbox.fedbo(&["run", "f.toml"]);
    ran.expect(0, &["warning: epsilon = ", "protects hardly anybody"]);
    let expected = vectors(&sandbox, 2, 2);
    for ((_, bytes), vectors) in releases(&sandbox.path(LEDGER)).iter().zip(&expected) {
        let release = Release::<Secure>::from_bytes(bytes).expect("a release");
        let values = release.values(0);
        let (features, witnesses) = values.split_at(vectors[0].len());
        assert_eq!(witnesses.len(), 64);
        assert!(witnesses.iter().all(|value| value.abs() < 6.0 * 0.001 * 4.0));
        for (index, value) in features.iter().enumerate() {
            let sum = vectors[0][index] + vectors[1][index];
            assert!(sum.abs() > 1e-6 && (value - sum).abs() < 6.0 * 0.001 * 4.0, "{value} {sum}");
        }
        assert!(vectors.iter().all(|vector| norm(vector) < 4.0), "nothing was clipped");
    }
}

/// No coordinate, norm or clipped coordinate of any vector is in any output (INV-4).
#[test]
fn canary_grep() {
    const N_AGENTS: usize = 6;
    let sandbox = Sandbox::new();
    let privacy = "[privacy]\nepsilon = 2.0\nsampling_rate = 0.5\nreleases = 2\nmax_norm = 0.5\n";
    sandbox.write("f.toml", &constant(&(CANARIES.to_owned() + privacy), N_AGENTS));
    let ran = sandbox.fedbo(&["run", "f.toml"]);
    ran.expect(0, &[]);
    let vectors: Vec<Vec<f64>> = vectors(&sandbox, N_AGENTS, 2).into_iter().flatten().collect();
    let (_, bytes) = &releases(&sandbox.path(LEDGER))[0];
    let spacing = Release::<Secure>::from_bytes(bytes).expect("a release").spacing();
    let canaries = Canaries::of(&vectors, 0.5, spacing);
    let look = |bytes: &[u8]| canaries.found(bytes);
    for entry in std::fs::read_dir(sandbox.path("results/test")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("a file");
        assert_eq!(look(&bytes), None, "in {}", path.display());
    }
    assert_eq!(look(ran.stdout.as_bytes()), None);
    assert_eq!(look(ran.stderr.as_bytes()), None);

    // Check that the search works: it finds any part of a vector hidden in such output.
    let vector = &vectors[3];
    let clipped = vector[2] * 0.5 / norm(vector);
    let lattice = [clipped, vector[3] * 0.5 / norm(vector)]
        .map(|number| ((number / spacing).trunc() as i64).to_le_bytes());
    for text in [
        format!("debug: {vector:?}"),
        format!("clipped to {clipped:.12}"),
        format!("norm {:e}", norm(vector)),
    ] {
        assert!(look(text.as_bytes()).is_some(), "{text}");
    }
    let floats = [vector[0].to_le_bytes(), vector[15].to_be_bytes(), clipped.to_le_bytes()];
    for bytes in floats.iter().map(|float| &float[..]).chain([&lattice.concat()[..]]) {
        let hidden = [b"SQLite format 3", bytes, b"tail"].concat();
        assert!(look(&hidden).is_some());
    }
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}

const N_DIGITS: usize = 10;

/// Returns ten digits of a number, which every decimal form with at least ten digits contains.
fn digits(number: f64) -> String {
    let text = format!("{:.17e}", number.abs());
    text.chars().filter(char::is_ascii_digit).take(N_DIGITS).collect()
}

/// Byte sequences that reveal vectors: digits of coordinates and norms, floats, and adjacent
/// multiples of the lattice spacing, each unclipped and clipped.
///
/// A multiple has at most 24 significant bits, so noise alone would match one of the hundreds of
/// multiples every few hundred runs. Two adjacent multiples have twice as many bits.
struct Canaries {
    digits: BTreeSet<String>,
    bytes: BTreeSet<[u8; 8]>,
    pairs: BTreeSet<[[u8; 8]; 2]>,
}

impl Canaries {
    fn of(vectors: &[Vec<f64>], bound: f64, spacing: f64) -> Self {
        let (mut all, mut bytes, mut pairs) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for vector in vectors {
            let norm = norm(vector);
            let clipped: Vec<f64> = vector.iter().map(|x| x * (bound / norm).min(1.0)).collect();
            let numbers = vector.iter().chain(&clipped).chain([&norm]);
            for number in numbers.filter(|number| number.abs() > 1e-9) {
                all.insert(digits(*number));
                bytes.extend([number.to_le_bytes(), number.to_be_bytes()]);
            }
            // A multiple is rounded towards zero, or one less, so that the clipped vector is within
            // its bound after rounding.
            let multiples = |number: f64| {
                let lattice = (number / spacing).trunc() as i64;
                [lattice, lattice - lattice.signum()].map(i64::to_le_bytes)
            };
            for neighbours in vector.windows(2).chain(clipped.windows(2)) {
                let [first, second] = [neighbours[0], neighbours[1]].map(multiples);
                pairs.extend(first.into_iter().flat_map(|a| second.map(|b| [a, b])));
            }
        }
        Self { digits: all, bytes, pairs }
    }

    /// Returns the first of these sequences that occurs in an output.
    fn found(&self, output: &[u8]) -> Option<String> {
        let text: String = String::from_utf8_lossy(output)
            .chars()
            .filter(|c| *c != '.')
            .map(|c| if c.is_ascii() { c } else { '?' })
            .collect();
        let in_text =
            |at: usize| text.get(at..at + N_DIGITS).filter(|part| self.digits.contains(*part));
        let shown = (0..text.len()).find_map(in_text).map(str::to_owned);
        shown.or_else(|| {
            let at = |bytes: &[u8]| <[u8; 8]>::try_from(bytes).expect("eight bytes");
            let floats = output.windows(8).find(|w| self.bytes.contains(&at(w)));
            let pairs =
                || output.windows(16).find(|w| self.pairs.contains(&[at(&w[..8]), at(&w[8..])]));
            floats.or_else(pairs).map(|window| format!("{window:?}"))
        })
    }
}
