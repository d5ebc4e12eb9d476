use rusqlite::Connection;

use super::*;

/// The tables of Optuna 5.0 (layout 12) that are read, without their indices.
const LAYOUT: &str = "
    CREATE TABLE studies (study_id INTEGER NOT NULL PRIMARY KEY, study_name VARCHAR(512) NOT NULL);
    CREATE TABLE study_directions (study_direction_id INTEGER NOT NULL PRIMARY KEY, direction VARCHAR(8) NOT NULL,
        study_id INTEGER NOT NULL, objective INTEGER NOT NULL);
    CREATE TABLE study_system_attributes (study_system_attribute_id INTEGER NOT NULL PRIMARY KEY, study_id INTEGER,
        key VARCHAR(512), value_json TEXT);
    CREATE TABLE trials (trial_id INTEGER NOT NULL PRIMARY KEY, number INTEGER, study_id INTEGER, state VARCHAR(8) NOT NULL,
        datetime_start DATETIME, datetime_complete DATETIME);
    CREATE TABLE trial_system_attributes (trial_system_attribute_id INTEGER NOT NULL PRIMARY KEY, trial_id INTEGER,
        key VARCHAR(512), value_json TEXT);
    CREATE TABLE trial_params (param_id INTEGER NOT NULL PRIMARY KEY, trial_id INTEGER, param_name VARCHAR(512),
        param_value FLOAT, distribution_json TEXT);
    CREATE TABLE trial_values (trial_value_id INTEGER NOT NULL PRIMARY KEY, trial_id INTEGER NOT NULL,
        objective INTEGER NOT NULL, value FLOAT, value_type VARCHAR(7) NOT NULL);";

const X: &str = r#"{"name": "FloatDistribution", "attributes": {"step": null, "low": -1.0, "high": 2.0, "log": false}}"#;
const WIDER: &str = r#"{"name": "FloatDistribution", "attributes": {"step": null, "low": -2.0, "high": 1.0, "log": false}}"#;
const N: &str =
    r#"{"name": "IntDistribution", "attributes": {"log": false, "step": 2, "low": 2, "high": 10}}"#;
const K: &str =
    r#"{"name": "CategoricalDistribution", "attributes": {"choices": ["a", null, 3, true, 0.5]}}"#;

fn storage(rows: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(LAYOUT).unwrap();
    connection.execute_batch(rows).unwrap();
    (folder, path)
}

fn imported(
    path: &Path,
    study: Option<&str>,
    name: &str,
) -> Result<(Definition, ImportedTrials), ImportError> {
    read_optuna(&OptunaStorage::File(path.to_owned()), study, name)
}

fn parameter(trial: i64, name: &str, value: f64, distribution: &str) -> String {
    format!(
        "INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json) VALUES ({trial}, '{name}', {value}, '{distribution}');"
    )
}

fn one_study() -> String {
    let mut rows = "INSERT INTO studies VALUES (1, 'one'); INSERT INTO study_directions VALUES (1, 'MAXIMIZE', 1, 0);".to_owned();
    for (id, state) in [
        (1, "COMPLETE"),
        (2, "FAIL"),
        (3, "COMPLETE"),
        (4, "PRUNED"),
        (5, "RUNNING"),
        (6, "COMPLETE"),
        (7, "COMPLETE"),
    ] {
        rows += &format!("INSERT INTO trials VALUES ({id}, {}, 1, '{state}', NULL, NULL);", id - 1);
        rows += &parameter(id, "x", 0.25, if id == 3 { WIDER } else { X });
        rows += &parameter(id, "n", 4.0, N);
        if id != 6 {
            rows += &parameter(id, "k", f64::from(i32::try_from(id).unwrap() - 1).min(4.0), K);
        }
        let (value, kind) = if id == 7 { ("NULL", "INF_POS") } else { ("0.5", "FINITE") };
        rows += &format!(
            "INSERT INTO trial_values (trial_id, objective, value, value_type) VALUES ({id}, 0, {value}, '{kind}');"
        );
    }
    rows
}

#[test]
fn complete_trials_are_read_with_the_space_of_their_distributions() {
    let (_folder, path) = storage(&one_study());
    let (definition, read) = imported(&path, None, "old").unwrap();
    assert_eq!(definition.direction, Direction::Maximize);
    let space = definition.space().unwrap();
    let names: Vec<&str> = space.parameters().iter().map(|each| each.name()).collect();
    assert_eq!(names, ["k", "n", "x"]);
    assert_eq!(space.parameters()[2].to_spec(), ParameterSpec::float(-2.0, 2.0));
    assert_eq!(space.parameters()[1].to_spec(), ParameterSpec::int(2, 10).with_step(2.0));
    let shown: Vec<String> = read
        .trials
        .iter()
        .map(|(point, numbers)| {
            format!(
                "{} {numbers:?}",
                point.iter().map(|(_, v)| v.to_string()).collect::<Vec<_>>().join(" ")
            )
        })
        .collect();
    assert_eq!(shown, ["a 4 0.25 [0.5]", "3 4 0.25 [0.5]"]);
    let left_out: Vec<String> = read.left_out.iter().map(ToString::to_string).collect();
    assert_eq!(
        left_out,
        [
            "1 failed",
            "1 pruned",
            "1 not ended",
            "1 with a value that is not finite",
            "1 without some of the parameters or constraints"
        ]
    );
}

#[test]
fn several_objectives_and_constraints_keep_their_names_and_signs() {
    let mut rows = "INSERT INTO studies VALUES (1, 'one'); INSERT INTO studies VALUES (2, 'two');
        INSERT INTO study_directions VALUES (1, 'MINIMIZE', 1, 0);
        INSERT INTO study_directions VALUES (2, 'MAXIMIZE', 2, 1); INSERT INTO study_directions VALUES (3, 'MINIMIZE', 2, 0);
        INSERT INTO study_system_attributes VALUES (1, 2, 'study:metric_names', '[\"loss\", \"speed\"]');
        INSERT INTO trials VALUES (9, 0, 2, 'COMPLETE', NULL, NULL);
        INSERT INTO trial_values VALUES (1, 9, 1, 7.0, 'FINITE'); INSERT INTO trial_values VALUES (2, 9, 0, 0.5, 'FINITE');
        INSERT INTO trial_system_attributes VALUES (1, 9, 'constraints', '[-0.25]');
        INSERT INTO trial_system_attributes VALUES (2, 9, 'constraints:heat', '1.5');
        INSERT INTO trial_system_attributes VALUES (3, 9, 'constraints_of_others', '2.5');"
        .to_owned();
    rows += &parameter(9, "x", 0.25, X);
    let (_folder, path) = storage(&rows);
    let (definition, read) = imported(&path, Some("two"), "old").unwrap();
    assert_eq!(definition.number_names(), ["loss", "speed", "constraint_0", "heat"]);
    assert_eq!(read.trials[0].1, [0.5, 7.0, -0.25, 1.5]);
    let refused = |study| imported(&path, study, "old").unwrap_err().to_string();
    assert!(refused(None).contains("name one as optuna:STORAGE#NAME: \"one\", \"two\""));
    assert!(refused(Some("three")).contains("no study \"three\""));
    assert!(refused(Some("one")).contains("no complete trial"));
}

#[test]
fn what_a_foreign_file_may_hold_is_refused_with_its_reason() {
    let base = "INSERT INTO studies VALUES (1, 'one'); INSERT INTO study_directions VALUES (1, 'MINIMIZE', 1, 0);
        INSERT INTO trials VALUES (1, 0, 1, 'COMPLETE', NULL, NULL);
        INSERT INTO trial_values VALUES (1, 1, 0, 0.5, 'FINITE');";
    let nested = r#"{"name": "CategoricalDistribution", "attributes": {"choices": [[1], 2]}}"#;
    let endless = "DROP TABLE trial_values; CREATE VIEW trial_values AS WITH RECURSIVE c(n) AS
        (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n AS trial_id, 0 AS objective, n AS value, 'FINITE' AS value_type FROM c;";
    let int = r#"{"name": "IntDistribution", "attributes": {"low": 1, "high": 3}}"#;
    for (rows, expected) in [
        (parameter(1, "x", 0.5, "junk"), "the distribution of parameter \"x\""),
        (parameter(1, "x", 0.5, nested), "choice [1] is neither"),
        (parameter(1, "x", 7.0, K), "parameter \"x\" = 7"),
        (parameter(1, "x", 1.5, int), "no value of its distribution"),
        (
            "UPDATE study_directions SET direction = 'UP';".to_owned(),
            "neither MINIMIZE nor MAXIMIZE",
        ),
        ("DROP TABLE trial_values;".to_owned(), "no storage of Optuna"),
        (endless.to_owned(), "trial_values is no table"),
        (endless.replace("VIEW trial_values", "VIEW Trial_Values"), "Trial_Values is no table"),
    ] {
        let (_folder, path) = storage(&format!("{base}{rows}"));
        let message = imported(&path, None, "old").unwrap_err().to_string();
        assert!(message.contains(expected) && message.contains("old.db"), "{message}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.db");
    std::fs::write(&path, "no database").unwrap();
    assert!(imported(&path, None, "old").unwrap_err().to_string().contains("no storage of Optuna"));
    assert!(imported(&folder.path().join("none.db"), None, "old").is_err());
}

#[test]
fn storages_are_named_as_for_optuna() {
    let parsed = |text: &str| text.parse::<OptunaStorage>();
    for text in ["old.db", "sqlite:///old.db"] {
        assert_eq!(parsed(text), Ok(OptunaStorage::File("old.db".into())));
    }
    assert_eq!(parsed("sqlite:////tmp/old.db"), Ok(OptunaStorage::File("/tmp/old.db".into())));
    for text in [
        "postgresql://me:key@localhost/db",
        "postgresql+psycopg2://me:key@localhost/db",
        "postgres://me:key@localhost/db",
    ] {
        let storage = parsed(text).unwrap();
        assert!(matches!(storage, OptunaStorage::Postgres(_)));
        assert_eq!(storage.to_string(), "postgresql://me:***@localhost/db");
    }
    let mysql = parsed("mysql+pymysql://me:key@localhost/db").unwrap_err();
    assert!(mysql.contains("optuna.copy_study") && !mysql.contains("key"), "{mysql}");
    let study =
        |text| OptunaStorage::with_study(text).map(|(storage, study)| (storage.to_string(), study));
    assert_eq!(study("old.db#a"), Ok(("old.db".to_owned(), Some("a"))));
    let named = study("postgresql://me@localhost/db#a#b@c").unwrap();
    assert_eq!(named, ("postgresql://me@localhost/db".to_owned(), Some("a#b@c")));
    for text in ["postgresql://me:ke#y@localhost/db", "postgresql:me:key@localhost/db"] {
        let message = study(text).unwrap_err();
        assert!(!message.contains("ke") || message.contains("***"), "{message}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old#1.db").display().to_string();
    std::fs::write(&path, "").unwrap();
    let text = format!("{path}#a#b");
    assert_eq!(study(&text), Ok((path, Some("a#b"))));
    let elsewhere = parsed("postgresql://me:key@db.example.org/db").unwrap_err();
    assert!(elsewhere.contains("verify-full") && !elsewhere.contains("key"), "{elsewhere}");
}

/// Lines as Optuna 5.0 writes them, without workers and times.
fn journal(lines: &[String], end: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.log");
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, lines + end).unwrap();
    (folder, path)
}

fn set(trial: usize, name: &str, value: f64, distribution: &str) -> String {
    let text = serde_json::to_string(distribution).unwrap();
    format!(
        r#"{{"op_code": 5, "trial_id": {trial}, "param_name": "{name}", "param_value_internal": {value}, "distribution": {text}}}"#
    )
}

fn ended(trial: usize, state: u64, values: &str) -> String {
    format!(r#"{{"op_code": 6, "trial_id": {trial}, "state": {state}, "values": {values}}}"#)
}

const CREATE: &str = r#"{"op_code": 0, "study_name": "one", "directions": [2]}"#;
const TRIAL: &str = r#"{"op_code": 4, "study_id": 0, "datetime_start": null}"#;

#[test]
fn a_journal_is_replayed_as_optuna_does() {
    let x = serde_json::to_string(X).unwrap();
    let whole = format!(
        r#"{{"op_code": 4, "study_id": 0, "state": 1, "value": 2.5, "values": null, "params": {{"x": 0.5}}, "distributions": {{"x": {x}}}, "system_attrs": {{}}}}"#
    );
    let lines = [
        CREATE.to_owned(),
        CREATE.replace("[2]", "[1]"), // of another process, which lost
        TRIAL.to_owned(),
        set(0, "x", 0.25, X),
        r#"{"op_code": 8, "trial_id": 0, "user_attr": {"note": "NaN \" Infinity"}}"#.to_owned(),
        ended(0, 1, "[1.5]"),
        ended(0, 3, "null"), // it had ended
        set(0, "x", 1.0, X),
        TRIAL.to_owned(),
        set(1, "x", 0.75, WIDER),
        ended(1, 1, "[-Infinity]"),
        TRIAL.to_owned(),
        ended(2, 2, "null"),
        TRIAL.to_owned(),
        whole,
        // Optuna refuses another kind of a known parameter.
        TRIAL.to_owned(),
        set(5, "x", 0.0, N),
        ended(5, 1, "[9.0]"),
        // Another study's parameters may be what no study of ours can have.
        CREATE.replace("one", "other"),
        TRIAL.replace("\"study_id\": 0", "\"study_id\": 1"),
        set(
            6,
            "layers",
            0.0,
            r#"{"name": "CategoricalDistribution", "attributes": {"choices": [[64]]}}"#,
        ),
    ];
    let (_folder, path) = journal(&lines, r#"{"op_code": 6, "trial_id": 3, "sta"#);
    let (definition, read) = imported(&path, Some("one"), "old").unwrap();
    assert_eq!(definition.direction, Direction::Maximize);
    let space = definition.space().unwrap();
    assert_eq!(space.parameters()[0].to_spec(), ParameterSpec::float(-2.0, 2.0));
    let numbers: Vec<f64> = read.trials.iter().map(|(_, numbers)| numbers[0]).collect();
    assert_eq!(numbers, [1.5, 2.5]);
    assert_eq!(read.trials[0].0.get("x"), Some(&Value::Float(0.25)));
    let left_out: Vec<String> = read.left_out.iter().map(ToString::to_string).collect();
    assert_eq!(
        left_out,
        [
            "1 pruned",
            "1 not ended",
            "1 with a value that is not finite",
            "1 without some of the parameters or constraints"
        ]
    );
}

#[test]
fn a_journal_has_several_studies_with_names_and_constraints() {
    let lines = [
        CREATE.to_owned(),
        r#"{"op_code": 0, "study_name": "two", "directions": [2, 1]}"#.to_owned(),
        r#"{"op_code": 3, "study_id": 1, "system_attr": {"study:metric_names": ["speed", "loss"]}}"#.to_owned(),
        TRIAL.to_owned(),
        TRIAL.replace("\"study_id\": 0", "\"study_id\": 1"),
        set(1, "x", 0.25, X),
        r#"{"op_code": 9, "trial_id": 1, "system_attr": {"constraints": [7.0, 8.0]}}"#.to_owned(),
        r#"{"op_code": 9, "trial_id": 1, "system_attr": {"constraints": [-0.25]}}"#.to_owned(),
        r#"{"op_code": 9, "trial_id": 1, "system_attr": {"constraints:heat": 1.5}}"#.to_owned(),
        r#"{"op_code": 9, "trial_id": 1, "system_attr": {"constraints:max temp": 2.5}}"#.to_owned(),
        r#"{"op_code": 9, "trial_id": 1, "system_attr": {"constraints:x": 3.5}}"#.to_owned(),
        r#"{"op_code": 9, "trial_id": 1, "system_attr": {"constraints:0": -0.5}}"#.to_owned(),
        ended(1, 1, "[7.0, 0.5]"),
    ];
    let (_folder, path) = journal(&lines, "");
    let (definition, read) = imported(&path, Some("two"), "old").unwrap();
    let names = ["speed", "loss", "constraint_0", "heat", "max_temp", "constraint_x"];
    assert_eq!(definition.number_names(), names);
    assert_eq!(read.trials[0].1, [7.0, 0.5, -0.5, 1.5, 2.5, 3.5]);
    let message = imported(&path, None, "old").unwrap_err().to_string();
    assert!(message.contains("name one as optuna:STORAGE#NAME: \"one\", \"two\""), "{message}");
    let deleted = [&lines[..], &[r#"{"op_code": 1, "study_id": 1}"#.to_owned()]].concat();
    let (_folder, path) = journal(&deleted, "");
    let message = imported(&path, Some("two"), "old").unwrap_err().to_string();
    assert!(message.contains("its studies are \"one\""), "{message}");
}

#[test]
fn what_a_foreign_journal_may_hold_is_refused_with_its_line() {
    let nested = r#"{"name": "CategoricalDistribution", "attributes": {"choices": [[1], 2]}}"#;
    for (line, expected) in [
        ("{junk".to_owned(), "no operation of an Optuna journal"),
        ("[1]".to_owned(), "no operation of an Optuna journal"),
        (r#"{"op_code": 77}"#.to_owned(), "operation 77 is not known"),
        (r#"{"op_code": 6, "state": 1}"#.to_owned(), "it has no trial_id"),
        (ended(0, 9, "[1.0]"), "its state 9"),
        (CREATE.replace("[2]", "[3]").replace("one", "new"), "its direction 3"),
        (set(0, "x", 0.5, nested), "parameter \"x\": its choice [1]"),
        (
            r#"{"op_code": 4, "study_id": 0, "params": {"x": 1}}"#.to_owned(),
            "\"x\" has no distribution",
        ),
    ] {
        // A line more, as a last one may be in the making.
        let lines = [CREATE.to_owned(), TRIAL.to_owned(), line, ended(0, 1, "[1.0]")];
        let (_folder, path) = journal(&lines, "");
        let message = imported(&path, None, "old").unwrap_err().to_string();
        assert!(
            message.contains("journal.log, line 3: ") && message.contains(expected),
            "{message}"
        );
    }
    for (lines, expected) in [(&[][..], "it has no study"), (&[CREATE.to_owned()], "no complete")] {
        let (_folder, path) = journal(lines, "");
        let message = imported(&path, None, "old").unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    // Keys of nothing, far beyond the end, are as nothing.
    let lines = [CREATE.to_owned(), set(usize::MAX, "x", 0.5, X), ended(7, 1, "[1.0]")];
    let (_folder, path) = journal(&lines, "");
    let message = imported(&path, None, "old").unwrap_err().to_string();
    assert!(message.contains("no complete trial"), "{message}");
}
