//! Files, records and disks that have changed.

use crate::common::{LOSS, allow, study, wait_until};
use crate::play::two_programs::{PAYOFFS, RIVAL, duel, play, record, results_of, rounds, sandbox};

#[test]
fn what_a_game_is_may_not_change_and_the_key_is_named() {
    let begun = sandbox(&[]);
    begun.fedbo(&["play", "duel.toml", "--rounds", "3", "--quiet"]).expect(0, &[]);
    let before = record(&begun);
    let rival = "[players.rival]\ncommand = [\"sh\", \"rival.sh\"]";
    for (from, to, key, given, stored) in [
        ("seed = 3", "seed = 4", "game.seed", "4", "3"),
        ("initial = 2", "initial = 3", "game.initial", "3", "2"),
        ("\"duel\"", "\"dual\"", "game.name", "\"dual\"", "\"duel\""),
        ("grid = 11", "grid = 12", "players.shop.grid", "12", "11"),
        ("grid = 11\n", "", "players.shop.grid", "", "11"),
        ("level = 1", "level = 0", "players.shop.level", "0", "1"),
        ("level = 1", "level = 2", "players.shop.level", "2", "1"),
        (
            "level = 1",
            "level = 1\nexpectation = \"lite\"",
            "players.shop.expectation",
            "\"lite\"",
            "\"exact\"",
        ),
        (
            "level = 1",
            "level = 1\nucb_multiplier = 3.0",
            "players.shop.ucb_multiplier",
            "3.0",
            "2.0",
        ),
        (
            "level = 1",
            "level = 1\nbelieves.rival.level0 = \"random\"",
            "players.shop.believes.rival.level0",
            "\"random\"",
            "\"gp-mw with payoffs from -2 to 2\"",
        ),
        (
            "range = [-2.0, 2.0]",
            "range = [-2.0, 3.0]",
            "players.shop.level0",
            "\"gp-mw with payoffs from -2 to 3\"",
            "\"gp-mw with payoffs from -2 to 2\"",
        ),
        ("high = 1.0", "high = 2.0", "players.shop.space.price.high", "2.0", "1.0"),
        (
            rival,
            "[players.rival]\nby_hand = true",
            "players.rival.level",
            "\"none, but by_hand\"",
            "\"none, but command\"",
        ),
        (rival, "[players.rival]\nlevel = 0", "players.rival.level", "0", "\"none, but command\""),
    ] {
        let text = duel(&[(from, to)]);
        begun.write("duel.toml", &text);
        // Find the line of the key, if the file has the key.
        let name = key.rsplit('.').next().unwrap_or(key);
        let begins = |line: &str| line.starts_with(&format!("{name} = ")) && to.contains(line);
        let line = text.lines().position(begins);
        let place = line.map_or_else(String::new, |index| format!(":{}", index + 1));
        let says = match given {
            "" => format!("{key} is not set in duel.toml, the stored game has {stored};"),
            _ => format!("{key} is {given} in duel.toml{place}"),
        };
        let has = format!(", the stored game has {stored};");
        for arguments in [&["play", "duel.toml"][..], &["play", "duel.toml", "--out", "new"]] {
            let ran = begun.fedbo(arguments);
            ran.expect(
                2,
                &[
                    "duel.db: it contains the game with different settings: ",
                    &says,
                    &has,
                    "choose another storage, or restore the file",
                ],
            );
            assert!(ran.stdout.is_empty(), "{}", ran.stdout);
        }
        assert!(!begun.path("new").exists(), "{to}");
        assert!(!begun.path("results/dual").exists(), "{to}");
    }
    begun.write("duel.toml", &duel(&[]).replace("rival", "other"));
    begun.fedbo(&["play", "duel.toml"]).expect(
        2,
        &[
            "players is [\"shop\",\"other\"] in duel.toml",
            ", the stored game has [\"shop\",\"rival\"];",
        ],
    );
    begun.write("duel.toml", &duel(&[]));
    assert_eq!(record(&begun), before);
}

#[test]
fn how_it_is_played_may_change() {
    let begun = sandbox(&[]);
    begun.fedbo(&["play", "duel.toml", "--rounds", "3", "--quiet"]).expect(0, &[]);
    begun.write("other.sh", &format!("cat > /dev/null; {RIVAL}"));
    let changed = duel(&[
        ("rounds = 6", "rounds = 7\nfailures_max = 2"),
        ("timeout_s = 20", "timeout_s = 30.5\non_failure = \"go-on\""),
        ("\"payoffs.sh\"", "\"-e\", \"payoffs.sh\""),
        ("\"rival.sh\"]", "\"other.sh\"]\ntimeout_s = 9\non_failure = \"repeat\""),
    ]);
    begun.write("duel.toml", &changed);
    play(&begun).expect(0, &[]);
    let whole = sandbox(&[("rounds = 6", "rounds = 7")]);
    play(&whole).expect(0, &[]);
    assert_eq!(record(&begun), record(&whole));
}

#[test]
fn what_is_no_record_is_left_alone() {
    let other = sandbox(&[]);
    other
        .fedbo(&["game", "record", "duel.toml"])
        .expect(2, &["duel.db: no game is stored there yet; start it with fedbo play"]);
    assert!(!other.path("duel.db").exists());
    for bytes in ["", "no database", &"x".repeat(9000)] {
        std::fs::write(other.path("duel.db"), bytes).expect("a writable folder");
        for command in [&["play", "duel.toml"][..], &["game", "record", "duel.toml"]] {
            let ran = other.fedbo(command);
            if bytes.is_empty() {
                continue; // an empty file may become a record
            }
            ran.expect(2, &["duel.db: "]);
            let kept = std::fs::read_to_string(other.path("duel.db")).expect("it was there");
            assert_eq!(kept, *bytes);
        }
        std::fs::remove_file(other.path("duel.db")).expect("it was there");
    }
    // Create a study's storage.
    other.write("s.toml", &study(3, "sobol", LOSS));
    other.fedbo(&["tune", "s.toml"]).expect(0, &[]);
    let before = other.fedbo(&["export", "s.toml"]).stdout;
    std::fs::rename(other.path("study.db"), other.path("duel.db")).expect("our own file");
    for command in [&["play", "duel.toml"][..], &["game", "record", "duel.toml"]] {
        other.fedbo(command).expect(2, &["duel.db: ", "another program"]);
    }
    std::fs::rename(other.path("duel.db"), other.path("study.db")).expect("our own file");
    assert_eq!(other.fedbo(&["export", "s.toml"]).stdout, before);
    // A game's record is not a study's storage.
    play(&other).expect(0, &[]);
    let text = study(3, "sobol", LOSS).replace("study.db", "duel.db");
    other.write("s.toml", &text);
    other.fedbo(&["tune", "s.toml"]).expect(2, &["duel.db"]);
    assert_eq!(rounds(&other).len(), 6);
    // Try a folder, and a nonexistent path.
    std::fs::create_dir(other.path("folder.db")).expect("a writable folder");
    other.write("duel.toml", &duel(&[("sqlite:duel.db", "sqlite:folder.db")]));
    let ran = play(&other);
    assert!(matches!(ran.code, Some(2 | 4)), "{}", ran.stderr);
    other.write("duel.toml", &duel(&[("sqlite:duel.db", "sqlite:nowhere/duel.db")]));
    play(&other).expect(2, &["nowhere/duel.db: there is no folder nowhere; create it first"]);
}

#[test]
fn results_of_something_else_are_not_overwritten() {
    let other = sandbox(&[]);
    play(&other).expect(0, &[]);
    let file = duel(&[("\"duel\"", "\"dual\""), ("duel.db", "dual.db")]);
    other.write("dual.toml", &file);
    let ran = other.fedbo(&["play", "dual.toml", "--out", "results/duel"]);
    ran.expect(2, &["results/duel contains other results; choose another folder with --out"]);
    assert!(!other.path("dual.db").exists());
    assert_eq!(results_of(&other, "shop").len(), 6);
    // A federation can have the same name as the game.
    let path = other.path("results/duel/results.csv");
    let results = std::fs::read_to_string(&path).expect("results");
    std::fs::write(&path, results.replace(",rival,", ",site,")).expect("writable");
    play(&other).expect(2, &["results/duel contains other results"]);
    std::fs::write(&path, &results[..results.len() - 9]).expect("writable");
    play(&other).expect(2, &["results/duel/results.csv", "move that file away", "--out"]);
    // Lost results are rewritten from the record.
    std::fs::write(&path, "").expect("writable");
    play(&other).expect(0, &[]);
    assert_eq!(results_of(&other, "shop").len(), 6);
    std::fs::remove_dir_all(other.path("results")).expect("it was there");
    play(&other).expect(0, &[]);
    assert_eq!(results_of(&other, "shop").len(), 6);
}

#[test]
fn a_read_only_game_can_be_looked_at_and_nothing_else() {
    let kept = sandbox(&[]);
    kept.fedbo(&["play", "duel.toml", "--rounds", "3", "--quiet"]).expect(0, &[]);
    let before = record(&kept);
    for name in kept.names() {
        let mode = if name == "results" { 0o555 } else { 0o444 };
        allow(&kept.path(&name), mode);
    }
    allow(&kept.path("results/duel"), 0o555);
    allow(kept.folder.path(), 0o555);
    for arguments in [&["play", "duel.toml"][..], &["play", "duel.toml", "--out", "new"]] {
        let ran = kept.without_privileges(arguments);
        ran.expect(4, &["error: "]);
    }
    let ran = kept.without_privileges(&["game", "record", "duel.toml", "--json"]);
    assert_eq!(ran.expect(0, &[]).stdout, before);
    allow(kept.folder.path(), 0o755);
    allow(&kept.path("results"), 0o755);
    allow(&kept.path("results/duel"), 0o755);
    assert_eq!(record(&kept), before);
}

#[test]
fn a_disk_that_is_full_keeps_what_was_played() {
    let whole = sandbox(&[("rounds = 6", "rounds = 12")]);
    play(&whole).expect(0, &[]);
    let cut = sandbox(&[("rounds = 6", "rounds = 12")]);
    // The disk fills up while round 8 waits for its payoffs.
    let full = "if [ $FEDBO_ROUND = 8 ] && [ ! -e full ]; then touch full; prlimit --pid $PPID --fsize=1000:; fi";
    cut.write("payoffs.sh", &format!("{full}\n{PAYOFFS}"));
    let ran = cut.limited("", &["play", "duel.toml"]);
    ran.expect(4, &["error: "]);
    assert_eq!(rounds(&cut).len(), 7);
    play(&cut).expect(0, &[]);
    assert_eq!(record(&cut), record(&whole));
    // The disk is full from the start.
    let never = sandbox(&[]);
    never.limited("ulimit -f 0;", &["play", "duel.toml"]).expect(4, &["error: "]);
    play(&never).expect(0, &[]);
}

#[test]
fn a_record_that_is_deleted_meanwhile_is_missed() {
    let cut = sandbox(&[]);
    cut.write(
        "payoffs.sh",
        &format!(
            "if [ $FEDBO_ROUND = 3 ] && [ ! -e gone ]; then rm duel.db; touch gone; fi\n{PAYOFFS}"
        ),
    );
    play(&cut)
        .expect(4, &["duel.db: the file was moved, removed or replaced while the game used it"]);
    assert!(!cut.path("duel.db").exists());
    // The same happens to a record that receives moves.
    let hand = sandbox(&[("command = [\"sh\", \"rival.sh\"]", "by_hand = true")]);
    let child = hand.start(&["play", "duel.toml", "--quiet"]);
    wait_until(|| hand.path("duel.db").exists());
    std::thread::sleep(std::time::Duration::from_millis(300));
    std::fs::remove_file(hand.path("duel.db")).expect("it was there");
    crate::common::finished(child).expect(4, &["was moved, removed or replaced"]);
}

/// A kill after the creation of a record's layout and before its first row leaves a record without
/// a game.
#[test]
fn a_record_without_a_game_is_one_that_is_not_begun() {
    let cut = sandbox(&[]);
    cut.fedbo(&["play", "duel.toml", "--rounds", "1"]).expect(0, &[]);
    let connection = rusqlite::Connection::open(cut.path("duel.db")).expect("SQLite");
    connection
        .execute_batch("DROP TRIGGER games_stay; DROP TRIGGER rounds_are_not_deleted; DROP TRIGGER moves_are_not_deleted;
            DELETE FROM game; DELETE FROM rounds; DELETE FROM moves")
        .expect("our own file");
    drop(connection);
    cut.fedbo(&["game", "record", "duel.toml"])
        .expect(2, &["no game is stored there yet; start it with fedbo play"]);
    play(&cut).expect(0, &[]);
    assert_eq!(rounds(&cut).len(), 6);
}

/// Written data cannot be changed afterwards by any program.
#[test]
fn a_record_refuses_to_be_rewritten() {
    let kept = sandbox(&[]);
    play(&kept).expect(0, &[]);
    let before = record(&kept);
    let connection = rusqlite::Connection::open(kept.path("duel.db")).expect("SQLite");
    for statement in [
        "UPDATE game SET definition = '{}'",
        "DELETE FROM game",
        "UPDATE rounds SET played = '{}'",
        "DELETE FROM rounds WHERE round = 5",
        "INSERT INTO rounds (round, played) VALUES (7, '{}')",
        "UPDATE moves SET point = '{}'",
        "DELETE FROM moves",
    ] {
        assert!(connection.execute_batch(statement).is_err(), "{statement}");
    }
    drop(connection);
    assert_eq!(record(&kept), before);
}
