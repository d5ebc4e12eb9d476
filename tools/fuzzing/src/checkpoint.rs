//! `checkpoint`: text files that a stopped process leaves for the next one. The target `database`
//! covers databases.

use std::fmt::Debug;
use std::path::Path;

use fedbo_report::{
    Clusters, Metric, RESULTS_FILE, ResultsWriter, Row, SUMMARY_FILE, Summary, SummaryRequest,
    curves, read_results, summarize,
};
use fedbo_space::Direction;
use fedbo_storage::{Process, Trial, Worker};
use fedbo_study::Definition;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::input_reader::Pieces;
use crate::scratch;

/// The first byte selects the decoder: results, a summary, a study definition, a trial, a worker,
/// or a process.
pub fn checkpoint(bytes: &[u8]) {
    let mut pieces = Pieces(bytes);
    match pieces.byte() % 6 {
        0 => results(pieces.0),
        1 => summary(pieces.0),
        2 => definition(pieces.0),
        3 => reads_back::<Trial>(pieces.0),
        4 => reads_back::<Worker>(pieces.0),
        _ => reads_back::<Process>(pieces.0),
    }
}

fn results(bytes: &[u8]) {
    let path = scratch::file(RESULTS_FILE, bytes);
    let rows = match read_results(&path) {
        Ok(rows) => rows,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    written_again(&rows, &scratch::folder().join("again"));
    let summary = summarize(&rows, &request(&rows));
    let n_trials: usize = summary.arms.iter().map(|arm| arm.trials).sum();
    assert_eq!(n_trials, rows.len());
    for metric in
        [Metric::Best, Metric::Regret, Metric::Mean, Metric::MeanRegret, Metric::LogRegret]
    {
        let drawn = curves(&rows, metric, Clusters::Units);
        assert!(drawn.len() <= rows.len());
    }
}

/// Checks that writing rows reproduces what was read, unless a file cannot have columns with these
/// names.
fn written_again(rows: &[Row], folder: &Path) {
    let Some(first) = rows.first() else { return };
    let names: Vec<String> = first.parameters.iter().map(|(name, _)| name.clone()).collect();
    let Ok(mut writer) = ResultsWriter::create(folder, &names, true) else {
        return;
    };
    for row in rows {
        writer.append(row).expect("a row that was read");
    }
    writer.commit().expect("there is room for a small file");
    let again = read_results(writer.path()).expect("rows that were written");
    assert_eq!(again, rows);
}

fn request(rows: &[Row]) -> SummaryRequest {
    let arms: Vec<&String> = rows.iter().map(|row| &row.arm).take(3).collect();
    let pairs = arms.iter().zip(arms.iter().skip(1));
    SummaryRequest {
        checkpoints: rows.iter().map(|row| row.iteration).take(3).collect(),
        pairs: pairs.map(|(arm, control)| ((*arm).clone(), (*control).clone())).collect(),
        clusters: Clusters::Designs(2),
        ..SummaryRequest::new("fuzz", 0, Direction::Maximize, Metric::Best)
    }
}

fn summary(bytes: &[u8]) {
    let folder = scratch::folder();
    scratch::file(SUMMARY_FILE, bytes);
    match Summary::read(&folder) {
        Ok(summary) => {
            summary.write(&folder).expect("there is room for a small file");
            assert_eq!(Summary::read(&folder).ok().as_ref(), Some(&summary));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn definition(bytes: &[u8]) {
    reads_back::<Definition>(bytes);
    if let Ok(definition) = serde_json::from_slice::<Definition>(bytes) {
        assert!(definition.difference(&definition).is_none());
        match definition.space() {
            Ok(space) => {
                let unit = space.snap(&vec![0.25; space.dim()]);
                let point = space.decode(&unit);
                assert_eq!(space.encode(&point), Ok(unit));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// Checks that a value parsed from JSON survives a round trip through JSON.
fn reads_back<T: DeserializeOwned + Serialize + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(read) = serde_json::from_slice::<T>(bytes) {
        let written = serde_json::to_vec(&read).expect("plain data has a form in JSON");
        let again: Option<T> = serde_json::from_slice(&written).ok();
        assert_eq!(again.as_ref(), Some(&read));
    }
}

const RESULTS: &str = "\
experiment,arm,agent,run,iteration,source,x,\"kernel, kind\",value,best,regret,ask_seconds,status
e,ts,\"north \"\"1\"\"\",0,-1,initial,0.5,rbf,1,1,,0.1,ok
e,fts,a,0,1,message of agent 4,0.25,\"or
not\",-2.5e-9,1,0,0.25,ok
e,ts,a,1,2,own,1,rbf,,,,0,\"failed: exit status 2, no output\"
";

const TRIAL: &str = "{\"number\":3,\"point\":{\"rate\":0.01,\"kind\":\"a\",\"n\":-4},\"source\":\"own\",\"state\":{\"told\":\
    {\"value\":-1.5}},\"attempts\":1,\"asked_at_ms\":0,\"started_at_ms\":1,\"told_at_ms\":null,\"told_seq\":1,\"ask_seconds\":0.5}";

const DEFINITION: &str = "{\"name\":\"train\",\"space\":[{\"name\":\"rate\",\"type\":\"float\",\"low\":0.0001,\"high\":1.0,\"log\":\
    true,\"choices\":null},{\"name\":\"kind\",\"type\":\"categorical\",\"low\":null,\"high\":null,\"log\":null,\"choices\":[\"a\",\
    \"b\",\"c\"]}],\"direction\":\"minimize\",\"seed\":1,\"strategy\":{\"name\":\"ts\",\"ucb_multiplier\":{\"norm_bound\":1.0,\
    \"failure_prob\":0.1}},\"n_initial\":8,\"noisy\":false}";

/// Returns valid contents of each kind.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let of = |kind: u8, text: &str| [&[kind], text.as_bytes()].concat();
    let path = scratch::file(RESULTS_FILE, RESULTS.as_bytes());
    let rows = read_results(&path).expect("the rows above");
    let summary = summarize(&rows, &request(&rows));
    let summary = serde_json::to_string(&summary).expect("plain data");
    let holder = "{\"id\":\"7-1\",\"process\":{\"machine\":\"m\",\"pid\":7,\"started\":9}}";
    let running = format!("{{\"running\":{{\"worker\":{holder},\"until_ms\":null}}}}");
    vec![
        of(0, RESULTS),
        of(1, &summary),
        of(2, DEFINITION),
        of(3, TRIAL),
        of(3, &TRIAL.replace("{\"told\":{\"value\":-1.5}}", "\"waiting\"")),
        of(3, &TRIAL.replace("{\"told\":{\"value\":-1.5}}", &running)),
        of(
            3,
            &TRIAL
                .replace("{\"value\":-1.5}", "{\"failed\":{\"kind\":\"exit\",\"message\":\"2\"}}"),
        ),
        of(4, holder),
        of(5, "{\"machine\":\"m\",\"pid\":7,\"started\":9}"),
    ]
}
