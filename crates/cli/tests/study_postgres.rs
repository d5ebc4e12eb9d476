//! Studies in a PostgreSQL database from the command line. They equal studies in a file, even if
//! the server fails meanwhile, and no passwords are in the output.
#![cfg(unix)]

use crate::common;
use common::{LOSS, Ran, Sandbox, finished, study, wait_until};
use fedbo_testkit::postgres::Server;

/// Returns a study's file whose trials are stored at this address.
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

    // Open the study by its file and by its storage, with the password from elsewhere.
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
    sandbox.fedbo(&["trials", &masked]).expect(2, &["replaces a hidden password"]);

    // Make mistakes in an address, on the command line and in a file.
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

/// For a database of the first layout, the message states the remedy. After the upgrade, the
/// database keeps its trials, and a new study in it stops trials early.
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
    assert!(said.ends_with("was upgraded from layout version 1 to 2\n"), "{said}");
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
