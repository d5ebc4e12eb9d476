//! Studies in a PostgreSQL database from the command line: the same as in a file, also when the server goes down in between,
//! and no password in what is printed.
#![cfg(unix)]

mod common;

use common::{LOSS, Ran, Sandbox, finished, study, wait_until};
use fedbo_testkit::postgres::Server;

/// A study's file that keeps its trials at this address.
fn study_at(url: &str, trials: u64, strategy: &str, script: &str) -> String {
    study(trials, strategy, script).replace("sqlite:study.db", url)
}

fn silent(ran: &Ran) -> &Ran {
    let all = format!("{}{}", ran.stdout, ran.stderr);
    assert!(!all.contains("cret"), "{all}");
    ran
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn a_database_holds_the_same_study_as_a_file_and_no_password_is_printed() {
    let server = Server::start();
    server.run(
        "postgres",
        "CREATE ROLE guarded LOGIN PASSWORD 'se@cret'; GRANT CREATE ON DATABASE postgres TO guarded",
    );
    let sandbox = Sandbox::new();
    let url = server.url_of("guarded:se%40cret", "postgres");
    let masked = server.url_of("guarded:***", "postgres");
    sandbox.write("db.toml", &study_at(&url, 12, "log-ei", LOSS));
    sandbox.write("file.toml", &study(12, "log-ei", LOSS));
    for file in ["db.toml", "file.toml"] {
        sandbox.fedbo(&["tune", file, "--quiet"]).expect(0, &[]);
    }
    let columns = |name: &str| {
        let rows = sandbox.export(name);
        let kept = ["trial", "x", "n", "kind", "value"];
        let row = |row: common::Exported| kept.map(|name| row.get(name).cloned());
        rows.into_iter().map(row).collect::<Vec<_>>()
    };
    assert_eq!(columns("db.toml"), columns("file.toml"));
    assert_eq!(columns(&url), columns("db.toml"));

    // By hand, by its file and by its storage, with the password from elsewhere.
    let ran = sandbox.fedbo(&["tune", "db.toml"]);
    assert!(silent(&ran).stderr.contains(&masked), "{}", ran.stderr);
    for arguments in [
        &["ask", &url][..],
        &["trials", &url],
        &["release", &url, "12"],
        &["tell", &url, "12", "0.5"],
        &["tell", &url, "3", "0.5"],
        &["best", &url],
        &["best", "db.toml"],
        &["trials", &url, "--study", "none"],
        &["storage", "verify", &url],
    ] {
        silent(&sandbox.fedbo(arguments));
    }
    let without = server.url_of("guarded", "postgres");
    let outside = |password: Option<&str>| -> Ran {
        let mut command = sandbox.command(&["trials", &without]);
        command.env_remove("PGPASSFILE").env("HOME", sandbox.folder.path());
        match password {
            Some(password) => command.env("PGPASSWORD", password),
            None => command.env_remove("PGPASSWORD"),
        };
        command.output().expect("the binary starts").into()
    };
    assert_eq!(outside(Some("se@cret")).code, Some(0));
    outside(None).expect(2, &["cannot connect"]);
    outside(Some("no")).expect(2, &["PGPASSWORD"]);
    sandbox.fedbo(&["trials", &masked]).expect(2, &["stands for a password that was not shown"]);

    // Mistakes in an address, on the command line and in a file.
    for wrong in [url.replace("postgresql:", "postgresqI:"), format!("{url}?sslcert=x")] {
        silent(&sandbox.fedbo(&["trials", &wrong])).expect(2, &["postgresql://"]);
        sandbox.write("wrong.toml", &study_at(&wrong, 12, "log-ei", LOSS));
        silent(&sandbox.fedbo(&["tune", "wrong.toml"])).expect(2, &["postgresql://"]);
    }
}

#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn a_run_goes_on_when_the_server_is_killed_and_restarted() {
    let mut server = Server::start();
    let sandbox = Sandbox::new();
    let slow = format!("sleep 0.02; {LOSS}");
    sandbox.write("s.toml", &study_at(&server.url("postgres"), 60, "random", &slow));
    let run = sandbox.start(&["tune", "s.toml", "--jobs", "3"]);
    for least in [3, 20] {
        wait_until(|| sandbox.told("s.toml").len() >= least);
        server.kill_all();
        server.restart();
    }
    finished(run).expect(0, &[]);
    let told = sandbox.told("s.toml");
    assert_eq!(told.len(), 60);
    assert!(told.iter().all(|row| row["attempts"] == "1"), "{told:?}");
}

/// A database of the first layout says what to do; upgraded, it keeps its trials, and stops those of another study early.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn an_old_database_is_upgraded_and_takes_reports() {
    let server = Server::start();
    server.run(
        "postgres",
        "CREATE ROLE guarded LOGIN PASSWORD 'se@cret'; GRANT CREATE ON DATABASE postgres TO guarded",
    );
    let sandbox = Sandbox::new();
    let url = server.url_of("guarded:se%40cret", "postgres");
    sandbox.write("s.toml", &study_at(&url, 6, "sobol", LOSS));
    sandbox.fedbo(&["tune", "s.toml", "--quiet"]).expect(0, &[]);
    let before = sandbox.export("s.toml");
    server.run(
        "postgres",
        "ALTER TABLE fedbo.trials DROP COLUMN stopped_epoch, DROP COLUMN stopped_because;
         DROP TABLE fedbo.reports; UPDATE fedbo.layout SET version = 1",
    );
    let ran = sandbox.fedbo(&["trials", "s.toml"]);
    silent(&ran)
        .expect(2, &["layout has version 1", "`fedbo storage upgrade` brings it up to date"]);
    let ran = sandbox.fedbo(&["storage", "upgrade", &url]);
    let said = &silent(ran.expect(0, &[])).stdout;
    assert!(said.ends_with("was brought from version 1 to version 2 of the layout\n"), "{said}");
    let ran = sandbox.fedbo(&["storage", "upgrade", &url]);
    let said = &silent(ran.expect(0, &[])).stdout;
    assert!(said.ends_with("is up to date: its layout has version 2\n"), "{said}");
    assert_eq!(sandbox.export("s.toml"), before);

    let script = r#"for e in 1 2 3 4; do
  awk -v x="$1" -v e=$e 'BEGIN { printf "{\"epoch\": %d, \"value\": %.17g}\n", e, (x - 0.5)^2 + exp(-2 * e) }'
done"#;
    let rule = "[early_stopping]\nrule = \"median\"\nepochs = 4\nwarmup_epochs = 1\ntrials_min = 2\n[objective]";
    let stopping = study(12, "sobol", script).replace("[objective]", rule);
    let stopping = stopping.replace("\"test\"", "\"stopping\"");
    sandbox.write("db.toml", &stopping.replace("sqlite:study.db", &url));
    sandbox.write("file.toml", &stopping);
    let course = |name: &str| {
        let ran = sandbox.fedbo(&["tune", name]);
        assert!(
            silent(ran.expect(0, &[])).stdout.contains("of them stopped early"),
            "{}",
            ran.stdout
        );
        let kept = ["state", "value", "trained_epochs", "x"];
        let row = |row: common::Exported| kept.map(|name| row[name].clone());
        sandbox.export(name).into_iter().map(row).collect::<Vec<_>>()
    };
    let in_database = course("db.toml");
    assert!(in_database.iter().any(|row| row[0] == "stopped"));
    assert_eq!(in_database, course("file.toml"));
}

/// The tables of Optuna 5.0 that are read, with its types, in a schema of a user's own; two trials, one of them complete.
const OPTUNA: &str = r#"
    CREATE ROLE guarded LOGIN PASSWORD 'se@cret'; CREATE SCHEMA guarded; GRANT USAGE ON SCHEMA guarded TO guarded;
    SET search_path = guarded;
    CREATE TYPE studydirection AS ENUM ('NOT_SET', 'MINIMIZE', 'MAXIMIZE');
    CREATE TYPE trialstate AS ENUM ('RUNNING', 'COMPLETE', 'PRUNED', 'FAIL', 'WAITING');
    CREATE TYPE trialvaluetype AS ENUM ('FINITE', 'INF_POS', 'INF_NEG');
    CREATE TABLE studies (study_id INTEGER, study_name VARCHAR);
    CREATE TABLE study_directions (study_id INTEGER, objective INTEGER, direction studydirection);
    CREATE TABLE study_system_attributes (study_id INTEGER, key VARCHAR, value_json TEXT);
    CREATE TABLE trials (trial_id INTEGER, number INTEGER, study_id INTEGER, state trialstate);
    CREATE TABLE trial_system_attributes (trial_id INTEGER, key VARCHAR, value_json TEXT);
    CREATE TABLE trial_params (trial_id INTEGER, param_name VARCHAR, param_value FLOAT, distribution_json TEXT);
    CREATE TABLE trial_values (trial_id INTEGER, objective INTEGER, value FLOAT, value_type trialvaluetype);
    INSERT INTO studies VALUES (3, 'ovens'); INSERT INTO study_directions VALUES (3, 0, 'MAXIMIZE');
    INSERT INTO trials VALUES (7, 0, 3, 'COMPLETE'), (8, 1, 3, 'RUNNING');
    INSERT INTO trial_params VALUES (7, 'x', 0.25, '{"name": "FloatDistribution", "attributes": {"low": 0.0, "high": 1.0}}');
    INSERT INTO trial_values VALUES (7, 0, 1.5, 'FINITE');
    INSERT INTO trial_system_attributes VALUES (7, 'constraints:heat', '-0.5');
    INSERT INTO studies VALUES (4, 'many'); INSERT INTO study_directions VALUES (4, 0, 'MINIMIZE');
    INSERT INTO trials SELECT n, n, 4, 'COMPLETE' FROM generate_series(100, 5099) n;
    INSERT INTO trial_params SELECT n, 'x', n / 6000.0,
        '{"name": "FloatDistribution", "attributes": {"low": 0.0, "high": 1.0}}' FROM generate_series(100, 5099) n;
    INSERT INTO trial_values SELECT n, 0, n, 'FINITE' FROM generate_series(100, 5099) n;
    GRANT SELECT ON ALL TABLES IN SCHEMA guarded TO guarded"#;

/// A study in Optuna's tables is read by a user who may do nothing else, also where the server could lose what it acknowledged. Views, and rules of
/// others for rows, are not run.
#[test]
#[ignore = "postgresql: run by cargo xtask test --all"]
fn a_study_of_optuna_is_imported_from_its_database() {
    let server = Server::with_settings(&[("fsync", "off")]);
    server.run("postgres", OPTUNA);
    let sandbox = Sandbox::new();
    let url = server.url_of("guarded:se%40cret", "postgres");
    let source = format!("optuna:{}#ovens", url.replace("postgresql:", "postgresql+psycopg2:"));
    let import = |source: &str| {
        sandbox.fedbo(&["import", source, "--storage", "sqlite:old.db", "--name", "ovens"])
    };
    let ran = import(&source);
    let said = &silent(ran.expect(0, &[])).stdout;
    assert!(said.contains("1 trial imported") && said.contains("1 not ended"), "{said}");
    let rows = sandbox.export("sqlite:old.db");
    assert_eq!([&rows[0]["x"], &rows[0]["value"], &rows[0]["heat"]], ["0.25", "1.5", "-0.5"]);

    // More than a connection keeps that asks for the types of columns amid an answer.
    let many = [&source.replace("ovens", "many"), "--storage", "sqlite:many.db", "--name", "many"];
    let ran = sandbox.fedbo(&[&["import"], &many[..]].concat());
    assert!(ran.expect(0, &[]).stdout.contains("5000 trials imported"), "{}", ran.stdout);

    server.run("postgres", "UPDATE guarded.trials SET state = 'FAIL'");
    import(&source).expect(2, &["no complete trial"]);
    silent(&import(&source.replace("ovens", "kilns"))).expect(2, &["no study \"kilns\""]);
    silent(&import(&source.replace("se%40cret", "no"))).expect(2, &["cannot read postgresql://"]);
    for (change, expected) in [
        (
            "CREATE POLICY all_rows ON guarded.trials USING (pg_sleep(600) IS NOT NULL);
             ALTER TABLE guarded.trials ENABLE ROW LEVEL SECURITY",
            "row-level security",
        ),
        (
            "ALTER TABLE guarded.trials DISABLE ROW LEVEL SECURITY; ALTER TABLE guarded.trial_values RENAME TO old;
             CREATE VIEW guarded.trial_values AS SELECT o.* FROM guarded.old o, pg_sleep(600)",
            "trial_values is no table",
        ),
        ("DROP VIEW guarded.trial_values", "no storage of Optuna 3.0 or later"),
        ("REVOKE SELECT ON guarded.studies FROM guarded", "permission denied"),
        (
            "ALTER TABLE guarded.trials ALTER study_id TYPE guarded.trialstate USING 'FAIL'",
            "trials.study_id has a type that is none of the server's own",
        ),
        (
            "DROP TABLE guarded.trials; CREATE FUNCTION guarded.slow(oid, oid) RETURNS boolean LANGUAGE sql
                AS 'SELECT pg_catalog.pg_sleep(600) IS NULL';
             CREATE OPERATOR guarded.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = guarded.slow);
             GRANT USAGE ON SCHEMA guarded TO PUBLIC;
             ALTER DATABASE postgres SET search_path = guarded, pg_catalog",
            "permission denied",
        ),
        ("DROP SCHEMA guarded CASCADE", "no table trial_params that this user finds"),
    ] {
        server.run("postgres", change);
        silent(&import(&source)).expect(2, &[expected]);
    }
}
