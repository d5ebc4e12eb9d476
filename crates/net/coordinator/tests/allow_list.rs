//! All metrics, log lines and spans of the service are on the allow-list in docs/operations.md,
//! with a reason (INV-4).
#![expect(clippy::unwrap_used, reason = "helpers of tests, where a panic is a failure")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fedbo_coordinator::store::StudyState;

use crate::world::{World, send, summed};

const PAGE: &str = include_str!("../../../../docs/operations.md");

/// Returns the rows of the table below a heading, with backticks removed from the cells.
fn table(heading: &str) -> Vec<Vec<String>> {
    let after = PAGE.split_once(&format!("\n### {heading}\n")).unwrap().1;
    let section = after.split("\n#").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells = |row: &str| {
        let inside = row.strip_prefix('|').unwrap().strip_suffix('|').unwrap();
        let cells = inside.split('|');
        cells.map(|cell| cell.trim().replace('`', "")).collect()
    };
    let rows: Vec<Vec<String>> = rows.map(cells).collect();
    for row in &rows {
        assert!(row.last().unwrap().len() > 5, "a row without a reason: {row:?}");
    }
    rows
}

fn names(cell: &str) -> BTreeSet<String> {
    let names = cell.split(", ").filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// Returns the name and labels of each metric in the output of a service that has run rounds.
fn metrics(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| (line.split_once(' ').unwrap().0.to_owned(), BTreeSet::new()))
        .collect();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let family = found.keys().filter(|family| name.starts_with(*family));
        let family = family.max_by_key(|family| family.len()).unwrap().clone();
        let Some((_, labels)) = line.split_once('{') else {
            continue;
        };
        let labels = labels.rsplit_once('}').unwrap().0;
        // Values are quoted, and contain no quotation marks.
        let keys = labels.split('"').step_by(2);
        let keys = keys.map(|key| key.trim_matches([',', '=']).to_owned());
        let keys = keys.filter(|key| !key.is_empty() && key != "le");
        found.get_mut(&family).unwrap().extend(keys);
    }
    found
}

#[test]
fn every_metric_is_on_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let file = summed("epsilon = 20.0\nreleases = 1", 0.1, 0.05);
    let world = World::new(folder.path(), &[&file]);
    let store = world.home.store();
    let study = store.study("summed").unwrap();
    store.set_state(study.key, StudyState::Running).unwrap();
    let text = || send(world.address, "GET", "/metrics", "", &[]).text();
    let shown = (0..200).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(25));
        let text = text();
        let has = |sample: &str| text.contains(&format!("\nfedbo_{sample}{{"));
        let samples = ["round", "commit_seconds_count", "request_seconds_count"];
        samples.into_iter().all(has).then_some(text)
    });
    let shown = metrics(&shown.expect("a round with a release"));
    world.end();
    let listed = table("Metrics").into_iter();
    let listed: BTreeMap<String, BTreeSet<String>> =
        listed.map(|row| (row[0].clone(), names(&row[1]))).collect();
    assert_eq!(shown, listed);
}

/// Returns the level, message and fields of each line that a service can log, from the sources of
/// this crate and the server crate that it uses.
fn logged() -> BTreeSet<(String, String, BTreeSet<String>)> {
    let mut found = BTreeSet::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![here.join("src"), here.join("../transport/src/server")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path == here.join("src/spans.rs") {
                // Spans have their own list.
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let source = std::fs::read_to_string(&path).unwrap();
                let makes_spans = source.contains("span!(");
                assert!(!makes_spans, "{}: spans are made in spans.rs alone", path.display());
                for call in source.split("tracing::").skip(1) {
                    found.extend(line(call));
                }
            }
        }
    }
    found
}

/// Parses `warn!(study = %name, round, "text")` at the start of the source after `tracing::`.
fn line(call: &str) -> Option<(String, String, BTreeSet<String>)> {
    let (level, rest) = call.split_once("!(")?;
    let level = level.to_owned();
    let is_level = level.chars().all(|c| c.is_ascii_lowercase());
    assert!(is_level, "tracing is used in a way that is not known here: {level}");
    let (fields, rest) = rest.split_once('"').unwrap();
    let (text, _) = rest.split_once('"').unwrap();
    let fields = fields.split(',').map(str::trim).filter(|f| !f.is_empty());
    let name = |field: &str| field.split('=').next().unwrap().trim().to_owned();
    Some((level, text.to_owned(), fields.map(name).collect()))
}

#[test]
fn every_log_line_is_on_the_list() {
    let logged = logged();
    assert!(logged.len() > 15);
    let listed: BTreeSet<_> = table("Log lines")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone(), names(&row[2])))
        .collect();
    assert_eq!(logged, listed);
}

/// Returns the name and fields of each span: `info_span!(target: SPANS, "request", http.route =
/// route)`.
fn spans() -> BTreeSet<(String, BTreeSet<String>)> {
    let source = include_str!("../src/spans.rs");
    let calls = source.split("info_span!(").skip(1);
    let span = |call: &str| {
        let (_, rest) = call.split_once('"').unwrap();
        let (name, rest) = rest.split_once('"').unwrap();
        let fields = rest.split("\n}").next().unwrap().split(',').map(str::trim);
        let fields = fields.map(|field| field.split([' ', ')']).next().unwrap().to_owned());
        (name.to_owned(), fields.filter(|field| !field.is_empty()).collect())
    };
    calls.map(span).collect()
}

#[test]
fn every_span_is_on_the_list() {
    let rows = table("Spans").into_iter();
    let listed: BTreeSet<_> = rows.map(|row| (row[0].clone(), names(&row[1]))).collect();
    assert_eq!(spans(), listed);
}
