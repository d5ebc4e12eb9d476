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
        command
            .env_remove("PGPASSFILE")
            .env("HOME", sandbox.folder.path());
        match password {
            Some(password) => command.env("PGPASSWORD", password),
            None => command.env_remove("PGPASSWORD"),
        };
        command.output().expect("the binary starts").into()
    };
    assert_eq!(outside(Some("se@cret")).code, Some(0));
    outside(None).expect(2, &["cannot connect"]);
    outside(Some("no")).expect(2, &["PGPASSWORD"]);
    sandbox
        .fedbo(&["trials", &masked])
        .expect(2, &["stands for a password that was not shown"]);

    // Mistakes in an address, on the command line and in a file.
    for wrong in [
        url.replace("postgresql:", "postgresqI:"),
        format!("{url}?sslcert=x"),
    ] {
        silent(&sandbox.fedbo(&["trials", &wrong])).expect(2, &["postgresql://"]);
        sandbox.write("wrong.toml", &study_at(&wrong, 12, "log-ei", LOSS));
        silent(&sandbox.fedbo(&["tune", "wrong.toml"])).expect(2, &["postgresql://"]);
    }
}

#[test]
fn a_run_goes_on_when_the_server_is_killed_and_restarted() {
    let mut server = Server::start();
    let sandbox = Sandbox::new();
    let slow = format!("sleep 0.02; {LOSS}");
    sandbox.write(
        "s.toml",
        &study_at(&server.url("postgres"), 60, "random", &slow),
    );
    let run = sandbox.start(&["tune", "s.toml", "--jobs", "3"]);
    for least in [3, 20] {
        wait_until(|| sandbox.told("s.toml").len() >= least);
        server.stop_hard();
        server.restart();
    }
    finished(run).expect(0, &[]);
    let told = sandbox.told("s.toml");
    assert_eq!(told.len(), 60);
    assert!(told.iter().all(|row| row["attempts"] == "1"), "{told:?}");
}
