//! Studies and runs that appear, disappear or are recreated while the dashboard runs, and
//! misleading files.

use std::path::Path;

use super::common::{LOSS, Sandbox, study, wait_until};
use super::{Served, seq};

const HEAD: &str =
    "experiment,arm,agent,run,iteration,source,x1,value,best,regret,ask_seconds,status\n";
const EVENTS: &str = "/api/runs/0-/events";

/// Writes results of one agent; the first row has the value `first`.
fn write_rows(folder: &Path, first: f64, n_rows: usize) {
    let row = |iteration: usize| {
        let value = if iteration == 0 { first } else { 0.5 };
        format!("lines,fts,north,0,{iteration},own,0.5,{value},{value},,0.1,ok\n")
    };
    let rows: String = (0..n_rows).map(row).collect();
    std::fs::write(folder.join("results.csv"), format!("{HEAD}{rows}")).expect("a file");
}

/// Creates a folder with results of two rows.
fn run() -> (Sandbox, std::path::PathBuf) {
    let sandbox = Sandbox::new();
    let results = sandbox.path("results/lines");
    std::fs::create_dir_all(&results).expect("a folder");
    write_rows(&results, 0.25, 2);
    (sandbox, results)
}

#[test]
fn a_run_that_begins_anew_is_not_mixed_with_the_one_before() {
    let (sandbox, results) = run();
    let served = Served::start(&sandbox, &["results/lines"]);
    let mut events = served.named_events_at(EVENTS, None);
    let (name, first, _) = events.next().expect("the rows");
    assert_eq!((name.as_str(), seq(&first)), ("rows", 2));
    // Replace the file with a different one that has more rows.
    std::fs::remove_file(results.join("results.csv")).expect("a file");
    write_rows(&results, 0.75, 3);
    let (name, _, _) = events.find(|(name, ..)| name != "problem").expect("an event");
    assert_eq!(name, "replaced");
    let (name, second, news) = events.next().expect("the rows that stand there now");
    assert_eq!((name.as_str(), seq(&second), news["n_all"].as_u64()), ("rows", 3, Some(3)));
    assert_eq!(news["rows"][0][3], 0.75);
    // Reconnect with the position in the first file.
    let name =
        |after: &str| served.named_events_at(EVENTS, Some(after)).next().expect("an event").0;
    assert_eq!((name(&first).as_str(), name(&second).as_str()), ("replaced", "rows"));
    // Rewrite the file with fewer rows, or none.
    write_rows(&results, 0.75, 2);
    assert_eq!(name(&second), "replaced");
    write_rows(&results, 0.75, 0);
    assert_eq!(name(&second), "replaced");
    served.stop();
}

#[test]
fn a_correction_makes_a_page_read_all_trials_again() {
    let sandbox = Sandbox::new();
    sandbox.write("study.toml", &study(4, "random", LOSS));
    sandbox.fedbo(&["tune", "study.toml", "--quiet"]).expect(0, &[]);
    let served = Served::start(&sandbox, &["study.toml"]);
    let mut events = served.named_events_at("/api/studies/0-1/events", None);
    let (name, first, _) = events.next().expect("the trials");
    assert_eq!((name.as_str(), seq(&first)), ("trials", 4));
    sandbox.fedbo(&["correct", "study.toml", "1", "7.5"]).expect(0, &[]);
    let (name, _, _) = events.find(|(name, ..)| name != "problem").expect("an event");
    assert_eq!(name, "replaced");
    let (name, _, news) = events.next().expect("the trials with the correction");
    assert_eq!((name.as_str(), &news["told"][1]["value"]), ("trials", &7.5.into()));
    // A page that reconnects with a position before the correction starts over, too.
    let mut again = served.named_events_at("/api/studies/0-1/events", Some(&first));
    assert_eq!(again.next().expect("an event").0, "replaced");
    served.stop();
}

#[test]
fn a_storage_that_begins_anew_is_read_and_not_mixed_with_the_one_before() {
    let sandbox = Sandbox::new();
    sandbox.write("study.toml", &study(4, "random", LOSS));
    sandbox.fedbo(&["tune", "study.toml", "--quiet"]).expect(0, &[]);
    let served = Served::start(&sandbox, &["study.toml"]);
    let events = "/api/studies/0-1/events";
    let (name, first, _) = served.named_events_at(events, None).next().expect("an event");
    assert_eq!((name.as_str(), seq(&first)), ("trials", 4));
    for ending in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(sandbox.path(&format!("study.db{ending}")));
    }
    assert_eq!(served.json("/api/studies")["studies"], serde_json::json!([]));
    // While the file is missing or partially written, the study is unchanged.
    std::fs::remove_file(sandbox.path("study.toml")).expect("a file");
    assert_eq!(served.json("/api/studies")["unreadable"], serde_json::json!([]));
    sandbox.write("study.toml", "[study]\nname = ");
    assert_eq!(served.json("/api/studies")["unreadable"], serde_json::json!([]));
    // The target number of trials changes too, because the file is read again.
    sandbox.write("study.toml", &study(6, "random", LOSS));
    sandbox.fedbo(&["tune", "study.toml", "--quiet"]).expect(0, &[]);
    let list = served.json("/api/studies");
    assert_eq!(
        (&list["studies"][0]["n_told"], &list["studies"][0]["n_trials"]),
        (&6.into(), &6.into())
    );
    let mut events = served.named_events_at(events, Some(&first));
    assert_eq!(events.next().expect("an event").0, "replaced");
    let (name, second, news) = events.next().expect("an event");
    assert_eq!((name.as_str(), seq(&second)), ("trials", 6));
    assert_eq!(news["told"].as_array().map(Vec::len), Some(6));
    served.stop();
}

#[test]
fn studies_of_a_folder_appear_and_keep_their_addresses() {
    let sandbox = Sandbox::new();
    let begin = |file: &str| {
        let text = study(3, "random", LOSS).replace("study.db", &format!("{file}.db"));
        sandbox.write(&format!("{file}.toml"), &text);
        sandbox.fedbo(&["tune", &format!("{file}.toml"), "--quiet"]).expect(0, &[]);
    };
    begin("m");
    let served = Served::start(&sandbox, &["."]);
    let ids = || -> Vec<String> {
        let list = served.json("/api/studies");
        let studies = list["studies"].as_array().expect("studies").iter();
        studies.map(|each| each["id"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(ids(), ["0-m.toml-1"]);
    begin("a");
    std::fs::copy(sandbox.path("m.db"), sandbox.path("copy of.db")).expect("a file");
    assert_eq!(ids(), ["0-a.toml-1", "0-m.toml-1", "0-copy of.db-1"]);
    assert_eq!(served.json("/api/studies/0-copy%20of.db-1")["name"], "test");
    assert_eq!(served.json("/api/studies/0-m.toml-1")["n_trials"], 3);
    // A partially written file is ignored until it is complete.
    sandbox.write("half.toml", "[study]\nname = ");
    assert_eq!(ids().len(), 3);
    served.stop();
}

#[test]
fn a_summary_that_cannot_be_read_is_no_end_of_a_run() {
    let (sandbox, results) = run();
    let served = Served::start(&sandbox, &["results/lines"]);
    let shown = || {
        let about = served.json("/api/runs/0-");
        let listed = &served.json("/api/runs")["runs"][0];
        assert_eq!((&listed["state"], &listed["problem"]), (&about["state"], &about["problem"]));
        let problem = about["problem"].as_str().unwrap_or_default().to_owned();
        (about["state"].as_str().expect("a state").to_owned(), problem)
    };
    // A picture left by an earlier run does not turn this into a game.
    std::fs::write(results.join("curves.svg"), "<svg/>").expect("a file");
    assert_eq!(shown(), ("not finished".to_owned(), String::new()));
    std::fs::write(results.join("summary.json"), "{\"schema_version\": ").expect("a file");
    let (state, problem) = shown();
    assert!(state == "unreadable" && problem.contains("summary.json"), "{state}: {problem}");
    std::fs::write(results.join("payoffs.svg"), "<svg/>").expect("a file");
    assert_eq!(shown().0, "unreadable", "a game has no summary");
    std::fs::remove_file(results.join("summary.json")).expect("a file");
    assert_eq!(shown().0, "finished", "a game has ended with its pictures");
    std::fs::write(results.join("settings.json"), "{}").expect("a file");
    assert_eq!(shown().0, "not finished", "a game has no settings of a federation");
    served.stop();
}

/// Opening a pipe blocks until the pipe has a writer, and a link can lead out of the folder.
#[test]
fn pipes_and_links_in_a_folder_of_results_are_not_opened() {
    let (sandbox, results) = run();
    let pipe = |name: &str| {
        let made = std::process::Command::new("mkfifo").arg(results.join(name)).status();
        assert!(made.expect("mkfifo").success());
    };
    pipe("summary.json");
    pipe("settings.json");
    let outside = sandbox.path("results/link");
    std::fs::create_dir(&outside).expect("a folder");
    std::os::unix::fs::symlink(results.join("results.csv"), outside.join("results.csv"))
        .expect("a link");
    let served = Served::start(&sandbox, &["."]);
    let list = served.json("/api/runs");
    assert_eq!(list["runs"].as_array().map(Vec::len), Some(1), "{list}");
    let about = served.json("/api/runs/0-results%2Flines");
    let problem = about["problem"].as_str().expect("a reason");
    assert!(about["state"] == "unreadable" && problem.contains("is not read"), "{about}");
    let means = served.json("/api/runs/0-results%2Flines/means");
    assert_eq!(means["metrics"][0]["arms"][0]["means"], serde_json::json!([0.25, 0.5]));
    for part in ["means", "events", "files/results.csv"] {
        let path = format!("/api/runs/0-results%2Flink/{part}");
        assert_eq!(served.request("GET", &path, &[&served.cookie()]).status, 404, "{part}");
    }
    served.stop();
}

#[test]
fn means_are_computed_once_for_what_stands_in_the_file() {
    let (sandbox, results) = run();
    let served = Served::start(&sandbox, &["results/lines"]);
    let means = || served.json("/api/runs/0-/means")["metrics"][0]["arms"][0]["means"].clone();
    let path = results.join("results.csv");
    let open = || std::fs::File::options().write(true).open(&path).expect("a file");
    let time = path.metadata().and_then(|meta| meta.modified()).expect("a time");
    assert_eq!(means(), serde_json::json!([0.25, 0.5]));
    // Without a sign of a change, the file is not read again.
    write_rows(&results, 0.75, 2);
    open().set_modified(time).expect("a time");
    assert_eq!(means(), serde_json::json!([0.25, 0.5]));
    write_rows(&results, 0.75, 3);
    wait_until(|| means() == serde_json::json!([0.75, 0.5, 0.5]));
    // For a very large file, the page shows an explanation instead of means.
    open().set_len(200 << 20).expect("a file of holes");
    let none = served.json("/api/runs/0-/means");
    let why = none["too_large"].as_str().expect("a reason");
    assert!(why.contains("200 MB") && why.contains("fedbo plot"), "{why}");
    served.stop();
}
