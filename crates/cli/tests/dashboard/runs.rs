//! The sections of a run's page: ledger, graph, schedules and game, compared with the output of
//! other commands.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use data_encoding::{BASE64, HEXLOWER};
use serde_json::Value;

use super::Served;
use crate::common::{PARABOLA, Sandbox, federation, finished, json};

const HOSTILE: &str = "<img src=x onerror=alert(1)>";
const RUN: &str = "/api/runs/0-";

/// Writes the file of a private federation of six agents, one of which has markup as its name.
fn private(rounds: u32, releases: u32) -> Sandbox {
    let sandbox = Sandbox::new();
    let mut text = format!(
        "[federation]\nname = \"f\"\ndirection = \"minimize\"\nalgorithm = \"dp-fts-de\"\nrounds = {rounds}\ninitial = 2\nseed = 3\n\
         [features]\ncount = 20\n[exploration]\nregions = 2\n[privacy]\nepsilon = 6.0\nmax_norm = 3.0\nreleases = {releases}\n"
    );
    for agent in ["canary 1", "canary 2", "canary 3", "canary 4", "canary 5", HOSTILE] {
        write!(text, "[[agents]]\nname = \"{agent}\"\nproblem = \"levy\"\nnoise_std = 0.1\n")
            .expect("a string");
    }
    sandbox.write("f.toml", &text);
    sandbox
}

/// Collects the names of all keys of a document.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            found.insert(key.clone());
            keys(value, found);
        }),
        Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

fn close(a: &Value, b: f64) {
    let a = a.as_f64().expect("a number");
    assert!((a - b).abs() <= 1e-3 * b.abs(), "{a} {b}");
}

#[test]
fn a_ledger_is_shown_as_the_other_commands_say_it_and_shows_nothing_else() {
    let sandbox = private(4, 3);
    sandbox.fedbo(&["run", "f.toml"]).expect(0, &[]);
    let simulated = std::fs::read_to_string(sandbox.path("f.toml")).expect("a file");
    let simulated = simulated.replace("name = \"f\"", "name = \"s\"");
    sandbox.write("s.toml", &simulated.replace("epsilon", "simulate = true\nepsilon"));
    sandbox.fedbo(&["run", "s.toml"]).expect(0, &[]);
    let about = Served::start(&sandbox, &["results/s"]).json(RUN);
    assert_eq!((&about["unprotected"], &about["parts"]["ledger"]), (&true.into(), &false.into()));
    let served = Served::start(&sandbox, &["results/f"]);
    let about = served.json(RUN);
    assert_eq!(about["unprotected"], false);
    assert_eq!(
        about["parts"],
        serde_json::json!({"ledger": true, "topology": false, "schedule": true, "game": false})
    );
    let text = served.get(&format!("{RUN}/ledger"));
    let ledger: Value = serde_json::from_str(&text).expect("JSON");
    let statement = sandbox.fedbo(&["privacy", "statement", "results/f", "--json"]);
    assert_eq!(ledger["statement"], json(&statement));
    assert_eq!(ledger["problem"], Value::Null);
    let check = served.json(&format!("{RUN}/ledger/check"));
    assert_eq!(check, json(&sandbox.fedbo(&["privacy", "verify", "results/f", "--json"])));
    assert_eq!(check["compared_with"], ledger["statement"]["head"]);
    // The last point of the course is the ε of the statement. Each earlier one is the cost of a
    // plan with the same number of rounds.
    let course = ledger["course"].as_array().expect("a course");
    assert_eq!(course.len(), 4);
    assert_eq!(course[0]["epsilon"], 0.0);
    assert_eq!(course[3]["epsilon"], ledger["statement"]["epsilon"]);
    let multiplier = ledger["statement"]["charges"][0]["noise_multiplier"].to_string();
    for (n, rounds) in [(1, "1"), (2, "2")] {
        let arguments = [
            "privacy",
            "epsilon",
            "--sampling-rate",
            "1",
            "--noise-multiplier",
            &multiplier,
            "--rounds",
            rounds,
            "--delta",
            "1e-5",
            "--json",
        ];
        let planned = json(&sandbox.fedbo(&arguments));
        close(&course[n]["epsilon"], planned["epsilon"].as_f64().expect("a number"));
    }
    // There are six agents in two regions, so sums have three vectors. S = 3, so C = 3/√2.
    let (scale, clip) = (&ledger["scale"], 3.0 / 2.0_f64.sqrt());
    let z: f64 = multiplier.parse().expect("a number");
    close(&scale["vector_norm"], clip);
    close(&scale["noise_std"], z * clip);
    close(&scale["largest_sum"], 3.0 * clip);
    close(&scale["largest_sum_of_all"], 6.0 * clip);
    close(&scale["noise_to_signal"], z * 20.0_f64.sqrt() / 3.0);
    // The last entry of the chain is the head.
    let entries = ledger["entries"].as_array().expect("entries");
    let head = format!("3:{}", entries[2]["hash"].as_str().expect("a hash"));
    assert_eq!(ledger["statement"]["head"], head);
    // A client that has the current head gets no data. With a different head, it gets everything.
    assert_eq!(served.json(&format!("{RUN}/ledger?head={head}"))["unchanged"], true);
    assert_eq!(served.json(&format!("{RUN}/ledger?head=2:00"))["statement"]["releases"], 3);
    // The response contains no bytes of a release, no agents and no values.
    let database = rusqlite::Connection::open(sandbox.path("results/f/ledger.db")).expect("SQLite");
    let mut rows = database.prepare("SELECT release FROM entries").expect("a table");
    let releases = rows.query_map([], |row| row.get::<_, Vec<u8>>(0)).expect("rows");
    for release in releases.map(|release| release.expect("bytes")) {
        let part = &release[release.len() / 2..][..12];
        assert!(!text.contains(&HEXLOWER.encode(part)) && !text.contains(&BASE64.encode(part)));
    }
    assert!(!text.contains("canary") && !text.contains("<img"), "{text}");
    for row in sandbox.results("results/f") {
        let value = row.split(',').nth(8).filter(|value| value.len() > 8);
        assert!(value.is_none_or(|value| !text.contains(value)), "{row}");
    }
    let mut found = BTreeSet::new();
    keys(&ledger, &mut found);
    keys(&ledger["statement"], &mut found);
    let known = "accountant adjacency agents bound budget_epsilon bytes charge charges config_sha256 course delta entries epsilon features \
        further_releases hash head in_plain_words is_overdrawn largest_sum largest_sum_of_all ledger max_norm mode n_coordinates neighbours noise \
        noise_multiplier noise_norm noise_std noise_to_signal not_promised planned_releases problem promise promised regions releases \
        remaining_epsilon round sampling sampling_rate scale schema_version seq statement study variance vector_norm";
    let known: BTreeSet<String> =
        known.split(' ').filter(|key| !key.is_empty()).map(str::to_owned).collect();
    assert_eq!(found, known);
    served.stop();
}

#[test]
fn a_ledger_that_was_changed_rolled_back_or_replaced_says_so() {
    let sandbox = private(4, 3);
    sandbox.fedbo(&["run", "f.toml"]).expect(0, &[]);
    let path = sandbox.path("results/f/ledger.db");
    let served = Served::start(&sandbox, &["results/f"]);
    let problem = || {
        let ledger = served.json(&format!("{RUN}/ledger"));
        ledger["problem"].as_str().expect("a problem").to_owned()
    };
    // Let the recorded head belong to a different history.
    let head = std::fs::read_to_string(sandbox.path("results/f/ledger.head")).expect("a head");
    let other = head.replace("3:", "2:");
    std::fs::write(sandbox.path("results/f/ledger.head"), &other).expect("a file");
    assert!(problem().contains("does not contain the known head"), "{}", problem());
    std::fs::write(sandbox.path("results/f/ledger.head"), head.replace("3:", "9:"))
        .expect("a file");
    assert!(problem().contains("rolled back to an older state"), "{}", problem());
    std::fs::write(sandbox.path("results/f/ledger.head"), "no head").expect("a file");
    assert!(problem().contains("put the file back"), "{}", problem());
    std::fs::write(sandbox.path("results/f/ledger.head"), &head).expect("a file");
    assert_eq!(served.json(&format!("{RUN}/ledger"))["problem"], Value::Null);
    // Change a byte of a release.
    let database = rusqlite::Connection::open(&path).expect("SQLite");
    let triggers = "SELECT group_concat('DROP TRIGGER ' || name, ';') FROM sqlite_schema WHERE type = 'trigger'";
    let drop: String = database.query_row(triggers, [], |row| row.get(0)).expect("triggers");
    database.execute_batch(&drop).expect("no triggers");
    database.execute("UPDATE entries SET release = zeroblob(99) WHERE seq = 2", []).expect("a row");
    database.close().expect("all of it is in its file");
    assert!(problem().contains("damaged"), "{}", problem());
    let ledger = served.json(&format!("{RUN}/ledger"));
    assert_eq!(ledger.get("statement"), None, "what is damaged says nothing");
    let check = served.json(&format!("{RUN}/ledger/check"));
    assert_eq!(check["is_sound"], false);
    let problems = check["problems"].as_array().expect("problems");
    assert!(problems.iter().any(|each| each["entry"] == 2), "{check}");
    // Replace the file with one that is not a ledger at all.
    std::fs::write(&path, HOSTILE.repeat(400)).expect("a file");
    assert!(problem().contains("ledger.db"), "{}", problem());
    assert!(
        served.request("GET", &format!("{RUN}/ledger/check"), &[&served.cookie()]).status >= 400
    );
    std::fs::remove_file(&path).expect("a file");
    let absent = served.request("GET", &format!("{RUN}/ledger"), &[&served.cookie()]);
    assert_eq!((absent.status, absent.body.contains("has no ledger")), (404, true));
    served.stop();
}

#[test]
fn a_ledger_can_be_read_while_it_is_written() {
    let sandbox = private(25, 25);
    let running = sandbox.start(&["run", "f.toml", "--threads", "1"]);
    let mut served = None;
    let mut seen = BTreeSet::new();
    let run = std::thread::spawn(move || finished(running));
    while !run.is_finished() {
        if !sandbox.path("results/f/ledger.db").exists()
            || !sandbox.path("results/f/results.csv").exists()
        {
            std::thread::sleep(std::time::Duration::from_millis(20));
            continue;
        }
        let served = served.get_or_insert_with(|| Served::start(&sandbox, &["results/f"]));
        let ledger = served.json(&format!("{RUN}/ledger"));
        assert_eq!(ledger["problem"], Value::Null, "{ledger}");
        seen.insert(ledger["statement"]["releases"].as_u64().expect("a number"));
        let check = served.json(&format!("{RUN}/ledger/check"));
        assert_eq!(check["is_sound"], true, "{check}");
    }
    run.join().expect("it ends").expect(0, &[]);
    let served = served.unwrap_or_else(|| Served::start(&sandbox, &["results/f"]));
    assert_eq!(served.json(&format!("{RUN}/ledger"))["statement"]["releases"], 25);
    assert!(!seen.is_empty(), "nothing was seen while it ran");
    served.stop();
}

#[test]
fn a_graph_is_shown_as_the_command_shows_it_with_edges_by_rounds() {
    let sandbox = Sandbox::new();
    let names = ["hub", "north", HOSTILE, "west"];
    let mut text = "[federation]\nname = \"g\"\ndirection = \"minimize\"\nalgorithm = \"distributed-ts\"\nrounds = 4\ninitial = 2\n\
        [topology]\ngraph = \"star\"\n[[topology.changes]]\nround = 2\nadd = [[\"north\", \"west\"]]\nremove = [[\"hub\", \"west\"]]\n"
        .to_owned();
    for name in names {
        write!(text, "[[agents]]\nname = \"{name}\"\nproblem = \"ackley\"\ndim = 2\n")
            .expect("a string");
    }
    sandbox.write("g.toml", &text);
    sandbox.fedbo(&["run", "g.toml"]).expect(0, &[]);
    let shown = sandbox.fedbo(&["topology", "show", "g.toml", "--out", "shown", "--json"]);
    let mut shown = json(&shown);
    shown["files"] = serde_json::json!([]);
    let served = Served::start(&sandbox, &["results/g"]);
    assert_eq!(served.json(RUN)["parts"]["topology"], true);
    let graph = served.json(&format!("{RUN}/topology"));
    assert_eq!(graph["graph"], shown);
    assert_eq!(
        graph["edges"],
        serde_json::json!([
            {"between": ["hub", "north"], "from": null, "until": null},
            {"between": ["hub", HOSTILE], "from": null, "until": null},
            {"between": ["hub", "west"], "from": null, "until": 2},
            {"between": ["north", "west"], "from": 2, "until": null},
        ])
    );
    let picture = served.get(&format!("{RUN}/topology/graph.svg"));
    let drawn = std::fs::read_to_string(sandbox.path("shown/topology.svg")).expect("a picture");
    assert_eq!(picture, drawn);
    assert!(!picture.contains("<img"), "a name acts as markup");
    for name in ["graph.exe", "..%2Fgraph.svg", "topology.svg"] {
        let path = format!("{RUN}/topology/{name}");
        assert_eq!(served.request("GET", &path, &[&served.cookie()]).status, 404, "{name}");
    }
    for part in ["ledger", "ledger/check", "schedule", "game"] {
        let path = format!("{RUN}/{part}");
        assert_eq!(served.request("GET", &path, &[&served.cookie()]).status, 404, "{part}");
    }
    served.stop();
}

/// The settings in a results folder may be untrusted, so files that they name are not read.
#[test]
fn no_file_of_edges_is_read_that_settings_name() {
    let sandbox = Sandbox::new();
    sandbox.write("secret.csv", "from,to\nhub,north\n");
    let results = sandbox.path("results/g");
    std::fs::create_dir_all(&results).expect("a folder");
    let head =
        "experiment,arm,agent,run,iteration,source,x1,value,best,regret,ask_seconds,status\n";
    std::fs::write(results.join("results.csv"), head).expect("a file");
    let settings = |topology: &str, agents: &str| {
        let text = format!(
            "{{\"file\": {{\"federation\": {{\"algorithm\": \"distributed-ts\"}}, \"agents\": {agents}, \"topology\": {topology}}}, \
             \"is_repeated\": false}}"
        );
        std::fs::write(results.join("settings.json"), text).expect("a file");
    };
    let two = "[{\"name\": \"hub\"}, {\"name\": \"north\"}]";
    settings("{\"graph\": \"edges\", \"file\": \"../../secret.csv\"}", two);
    let served = Served::start(&sandbox, &["results/g"]);
    let answer = || served.request("GET", &format!("{RUN}/topology"), &[&served.cookie()]);
    assert_eq!(answer().status, 404);
    assert!(answer().body.contains("fedbo topology show FEDERATION"), "{}", answer().body);
    // Impossible settings get an error message.
    for (topology, agents) in [
        ("{\"graph\": \"small-world\", \"degree\": 9, \"rewiring\": 7}", two),
        ("{\"graph\": \"edges\", \"edges\": [[\"hub\"]]}", two),
        ("7", two),
        ("{}", "[]"),
        ("{}", "9"),
    ] {
        settings(topology, agents);
        let answer = answer();
        assert!([404, 500].contains(&answer.status), "{topology}: {}", answer.body);
        assert!(!answer.body.contains("defect"), "{topology}: {}", answer.body);
    }
    served.stop();
}

#[test]
fn schedules_are_those_of_the_settings() {
    let sandbox = Sandbox::new();
    let scripts = [("north", PARABOLA), ("south", PARABOLA)];
    let tables = "[fts]\nlocal_prob = [0.25, 0.5]\nagent_sampling = [1.0, 3.0]\n";
    let file = federation(3, "", &scripts).replace("[space.x]", &format!("{tables}[space.x]"));
    sandbox.write("f.toml", &file);
    sandbox.fedbo(&["run", "f.toml"]).expect(0, &[]);
    let served = Served::start(&sandbox, &["results/test"]);
    let schedule = served.json(&format!("{RUN}/schedule?steps=4"));
    assert_eq!(schedule["local_prob"], serde_json::json!([0.25, 0.5, 0.5, 0.5]));
    assert_eq!(schedule["agent_sampling"], serde_json::json!({"given": [1.0, 3.0]}));
    assert_eq!(schedule["agents"], serde_json::json!(["north", "south"]));
    let long = served.json(&format!("{RUN}/schedule?steps=99999999999"));
    assert_eq!(long["local_prob"].as_array().map(Vec::len), Some(10_000));
    // The closing table and its arms are those of the summary.
    let about = served.json(RUN);
    let (arms, summary) = (&about["arms"], &about["summary"]["arms"]);
    assert_eq!(arms[0]["estimate"], summary[0]["final"]);
    assert!(about["closing"].as_str().expect("a table").contains("Mean ± standard error"));
    served.stop();
}

#[cfg(feature = "games")]
#[test]
fn a_game_has_the_standings_of_its_end() {
    let sandbox = Sandbox::new();
    let shop = |name: &str| {
        format!(
            "[players.{name}]\nlevel = 1\ngrid = 5\n[players.{name}.space.price]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n"
        )
    };
    let text = format!(
        "[game]\nname = \"duel\"\nrounds = 7\ninitial = 3\n[payoffs]\ncommand = [\"sh\", \"payoffs.sh\", \"{{shop.price}}\", \
         \"{{rival.price}}\"]\nrange = [-2.0, 2.0]\n{}{}",
        shop("shop"),
        shop("rival")
    );
    sandbox.write("duel.toml", &text);
    let payoffs = r#"awk -v a="$1" -v b="$2" 'BEGIN { printf "%.17g %.17g\n", 1 - (a - b) ^ 2, b * (a - b / 2) }'"#;
    sandbox.write("payoffs.sh", payoffs);
    let played = json(&sandbox.fedbo(&["play", "duel.toml", "--json"]));
    let served = Served::start(&sandbox, &["results/duel"]);
    assert_eq!(served.json(RUN)["parts"]["game"], true);
    let game = served.json(&format!("{RUN}/game"));
    assert_eq!(game["standings"], played["players"]);
    assert_eq!(game["n_initial"], 3);
    let shop = &game["players"][0];
    assert_eq!(shop["payoffs"].as_array().map(Vec::len), Some(7));
    assert_eq!(shop["means"][2], Value::Null);
    assert_eq!(shop["means"][6], played["players"][0]["mean"]);
    assert_eq!(shop["actions"][0]["parameter"], "price");
    assert_eq!(shop["actions"][0]["values"].as_array().map(Vec::len), Some(7));
    served.stop();
    // The single-file page has these sections too.
    sandbox.fedbo(&["dashboard", "results/duel", "--html", "duel.html"]).expect(0, &[]);
    let page = std::fs::read_to_string(sandbox.path("duel.html")).expect("a page");
    assert!(page.contains("<h2>Standings</h2>") && page.contains(">rival</th>"), "{page}");
}

/// Pages use descriptive labels of arms and of the value, even before the summary exists.
#[test]
fn pages_have_plain_words_for_arms() {
    let sandbox = Sandbox::new();
    let scripts = [("north", PARABOLA), ("south", PARABOLA)];
    let file =
        federation(2, "", &scripts).replace("rounds = 2", "value_name = \"grams\"\nrounds = 2");
    sandbox.write("f.toml", &file);
    sandbox.fedbo(&["run", "f.toml", "--arms", "fts,ts"]).expect(0, &[]);
    for has_summary in [true, false] {
        if !has_summary {
            std::fs::remove_file(sandbox.path("results/test/summary.json")).expect("a summary");
        }
        let served = Served::start(&sandbox, &["results/test"]);
        let about = served.json(RUN);
        assert_eq!(about["arm_labels"]["fts"], "together", "{about}");
        let means = served.json(&format!("{RUN}/means"));
        let best = &means["metrics"][0];
        assert_eq!(
            (&best["metric"], &best["label"]),
            (&"best".into(), &"grams (best so far)".into())
        );
        assert_eq!(
            (&best["arms"][1]["arm"], &best["arms"][1]["label"]),
            (&"ts".into(), &"each alone (ts)".into())
        );
        served.stop();
    }
    let page = sandbox.fedbo(&["dashboard", "results/test", "--html", "page.html"]);
    page.expect(0, &[]);
    let page = std::fs::read_to_string(sandbox.path("page.html")).expect("a page");
    assert!(page.contains("<td>each alone (ts)</td>"), "{page}");
}
