//! Studies that learn from old studies, from the command line: the trials that are read, the
//! studies that are dropped and the reasons, and the effects of changes.

use crate::common;
use common::{Ran, Sandbox, json, wait_until};

/// Returns a study over x and y in `storage`. The study's command prints an awk expression.
fn study(name: &str, storage: &str, trials: u64, rest: &str, awk: &str) -> String {
    format!(
        r#"[study]
name = "{name}"
direction = "minimize"
trials = {trials}
seed = 4
storage = "sqlite:{storage}"
[space.x]
type = "float"
low = -1.0
high = 2.0
[space.y]
type = "float"
low = 0.0
high = 1.0
{rest}
[objective]
command = ["sh", "-c", "awk -v x={{x}} -v y={{y}} 'BEGIN {{ printf \"%.17g\\n\", {awk} }}'"]
"#
    )
}

const LIKE: &str = "(x - 0.55)^2 + (y - 0.3)^2";
const NEAR: &str = "(x - 0.45)^2 + 1.2 * (y - 0.35)^2 + 0.02";
/// Objective whose best values are at the worst points of the other studies.
const UNLIKE: &str = "3 - (x - 0.5)^2 - (y - 0.3)^2";
const NEW: &str = "(x - 0.5)^2 + (y - 0.33)^2 + 0.01";
const THREE: &str =
    "[meta]\nstudies = [\"sqlite:old.db#like\", \"sqlite:old.db#near\", \"sqlite:old.db#unlike\"]";

const TWO: &str = "[meta]\nstudies = [\"sqlite:old.db#like\", \"sqlite:old.db#near\"]";

/// Creates a sandbox with three old studies in `old.db`.
fn with_old_studies() -> Sandbox {
    let sandbox = Sandbox::new();
    for (name, awk) in [("like", LIKE), ("near", NEAR), ("unlike", UNLIKE)] {
        let file = format!("{name}.toml");
        sandbox.write(&file, &study(name, "old.db", 15, "", awk));
        sandbox.fedbo(&["tune", &file, "--quiet"]).expect(0, &[]);
    }
    sandbox
}

fn tune(sandbox: &Sandbox, rest: &[&str]) -> Ran {
    sandbox.fedbo(&[&["tune", "new.toml"], rest].concat())
}

/// Returns the points and values of the finished trials.
fn told(sandbox: &Sandbox) -> Vec<[String; 3]> {
    let rows = sandbox.told("new.toml").into_iter();
    rows.map(|row| ["x", "y", "value"].map(|name| row[name].clone())).collect()
}

#[test]
fn a_misleading_old_study_is_dropped_and_named_with_the_reason() {
    let sandbox = with_old_studies();
    sandbox.write("new.toml", &study("new", "new.db", 10, THREE, NEW));
    let ran = tune(&sandbox, &[]);
    ran.expect(
        0,
        &[
            "new: a new study in sqlite:new.db: 10 trials by rm-gp-ucb\n",
            "learns from 3 old studies:\n  like (sqlite:old.db#like): 15 trials, best ",
            "\n  unlike (sqlite:old.db#unlike): 15 trials, best ",
        ],
    );
    let ran_best = sandbox.fedbo(&["best", "new.toml"]);
    for text in [&ran.stdout, &ran_best.stdout] {
        assert!(text.contains("\nold studies: "), "{text}");
        let dropped =
            "\ndropped: unlike (less than 1 %): its values differ from this study's by up to ";
        let (_, reason) = text.split_once(dropped).unwrap_or_else(|| panic!("{text}"));
        let reason = reason.lines().next().unwrap_or_default();
        assert!(reason.contains(" on average, those of "), "{reason}");
    }
    // Without old studies, the first trial is a point of a Sobol sequence; with them, it is near
    // their best point.
    let first: f64 = told(&sandbox)[0][2].parse().expect("a value");
    assert!(first < 0.1, "{first}");

    let old = &json(&sandbox.fedbo(&["best", "new.toml", "--json"]))["old_studies"];
    let of = |index: usize, key: &str| old["studies"][index][key].clone();
    let number = |index: usize, key: &str| of(index, key).as_f64().expect("a number");
    assert_eq!((of(2, "name"), of(2, "dropped")), ("unlike".into(), true.into()));
    assert_eq!(of(2, "source"), "sqlite:old.db#unlike");
    assert!(number(2, "weight") < 0.05 && number(0, "weight") + number(1, "weight") > 0.95);
    assert!(number(2, "distance") > 2.0 * number(0, "distance").max(number(1, "distance")));
    assert!(old["share"].as_f64().is_some_and(|share| share < 0.1));
    let closing = json(&tune(&sandbox, &["--json", "--quiet"]));
    assert_eq!(&closing["old_studies"], old);

    let ran = sandbox.fedbo(&["plot", "new.toml", "--out", "pictures"]);
    assert!(ran.expect(0, &[]).stdout.ends_with("pictures/transfer.svg\npictures/transfer.png\n"));
    let picture =
        std::fs::read_to_string(sandbox.path("pictures/transfer.svg")).expect("a picture");
    assert!(picture.contains("unlike: dropped"));
    // The output of a study without old studies does not contain this part.
    let best = json(&sandbox.fedbo(&["best", "like.toml", "--json"]));
    assert!(best["old_studies"].is_null());
    let ran = sandbox.fedbo(&["plot", "like.toml", "--out", "pictures"]);
    assert!(!ran.stdout.contains("transfer"), "{}", ran.stdout);
}

/// Two of three old studies are similar to the new one and form one joint prior. The prior's weight
/// is shown wherever the weights of single studies are shown.
#[test]
fn a_shared_prior_of_old_studies_shows_its_trust_in_all_places() {
    let sandbox = with_old_studies();
    let shared = |rest: &str| format!("[strategy]\nname = \"shared-prior\"\n{rest}{TWO}");
    sandbox.write("new.toml", &study("new", "new.db", 9, &shared(""), NEW));
    let ran = tune(&sandbox, &["--trials", "4"]);
    ran.expect(0, &["new: a new study in sqlite:new.db: 4 trials by shared-prior\n"]);
    let ran = tune(&sandbox, &[]);
    let of_best = sandbox.fedbo(&["best", "new.toml"]);
    let line = |text: &str| {
        let found = text.lines().find(|line| line.starts_with("old studies: "));
        found.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let trust = line(&of_best.stdout);
    assert_eq!(trust, line(&ran.stdout));
    let old = &json(&sandbox.fedbo(&["best", "new.toml", "--json"]))["old_studies"];
    let share = old["share"].as_f64().expect("a number");
    let percent = match 100.0 * share {
        small if small > 0.0 && small < 0.5 => "less than 1 %".to_owned(),
        percent => format!("{percent:.0} %"),
    };
    assert_eq!(
        trust,
        format!("old studies: their shared prior has {percent} of the weight in the next query")
    );
    for index in 0..2 {
        let each = &old["studies"][index];
        assert_eq!(each["trials"], 15);
        assert!(each["weight"].is_null() && each["dropped"].is_null(), "{each}");
    }
    assert_eq!(&json(&tune(&sandbox, &["--json", "--quiet"]))["old_studies"], old);
    // The source of each trial that the old studies influenced includes the joint share.
    let rows = sandbox.told("new.toml");
    let first: f64 = rows[0]["value"].parse().expect("a value");
    assert!(first < 0.1 && rows[0]["source"] == "shared:50%", "{rows:?}");
    assert!(rows[8]["source"].starts_with("shared:") && rows[8]["source"].ends_with('%'));
    let table = sandbox.fedbo(&["trials", "new.toml"]);
    assert!(table.stdout.contains("shared:50%"), "{}", table.stdout);
    // The picture shows the joint share, but no share of a single study.
    sandbox.fedbo(&["plot", "new.toml", "--out", "pictures"]).expect(0, &[]);
    let picture = sandbox.path("pictures/transfer.svg");
    let picture = std::fs::read_to_string(picture).expect("a picture");
    assert!(picture.contains("share of all") && !picture.contains("part of each old study"));
    assert!(picture.contains("after 9 told: old studies have "));
    // Without the interruption, the trials are the same. Different options define a different
    // study.
    let whole = with_old_studies();
    whole.write("new.toml", &study("new", "new.db", 9, &shared(""), NEW));
    tune(&whole, &["--quiet"]).expect(0, &[]);
    assert_eq!(told(&sandbox), told(&whole));
    sandbox.write("new.toml", &study("new", "new.db", 9, &shared("trust = 0.9\n"), NEW));
    tune(&sandbox, &[])
        .expect(2, &["strategy.trust is 0.9 in new.toml:", "the stored study has 0.5"]);
    let scaled = format!("{}\nscale = \"common\"", shared(""));
    sandbox.write("new.toml", &study("new", "new.db", 9, &scaled, NEW));
    tune(&sandbox, &[])
        .expect(2, &["learns level and size from the old studies; remove meta.scale"]);
}

#[test]
fn what_was_read_at_the_beginning_counts_after_a_kill_and_whatever_became_of_old_studies() {
    let whole = with_old_studies();
    whole.write("new.toml", &study("new", "new.db", 9, THREE, NEW));
    tune(&whole, &[]).expect(0, &[]);

    let sandbox = with_old_studies();
    let slow = NEW.to_owned() + " }' && sleep 0.05 #'";
    sandbox.write("new.toml", &study("new", "new.db", 9, THREE, &slow));
    let mut child = sandbox.start(&["tune", "new.toml", "--quiet"]);
    wait_until(|| told(&sandbox).len() >= 3);
    child.kill().expect("alive");
    child.wait().expect("it ends");
    // One old study continues, and the file of a second one is missing.
    sandbox.fedbo(&["tune", "near.toml", "--trials", "17", "--quiet"]).expect(0, &[]);
    let news = "old study near has changed: it has 17 trials now, and had 15; this study continues with the data read at its start";
    let ran = tune(&sandbox, &["--trials", "6"]);
    ran.expect(
        0,
        &["new: continues in sqlite:new.db", "near (sqlite:old.db#near): 15 trials", news],
    );
    assert!(!ran.stderr.contains("old study like"), "{}", ran.stderr);
    for name in ["old.db", "old.db-wal", "old.db-shm"] {
        let _ = std::fs::remove_file(sandbox.path(name)); // the last two need not exist
    }
    let news = "old study unlike: [meta] studies: \"sqlite:old.db#unlike\" cannot be read: ";
    tune(&sandbox, &[]).expect(0, &["unlike (sqlite:old.db#unlike): 15 trials", news]);
    assert_eq!(told(&sandbox), told(&whole));

    // The settings about old studies in the file are part of the study.
    let other = THREE.replace(", \"sqlite:old.db#near\"", "");
    sandbox.write("new.toml", &study("new", "new.db", 9, &other, NEW));
    let ran = tune(&sandbox, &[]);
    ran.expect(
        2,
        &[
            "study \"new\" is stored with different settings: meta.studies is [\"sqlite:old.db#like\"",
            ", the stored study has [\"sqlite:old.db#like\"",
            "another name",
        ],
    );
    sandbox.write("new.toml", &study("new", "new.db", 9, &format!("{THREE}\nrate = 0.5"), NEW));
    tune(&sandbox, &[])
        .expect(2, &["meta.rate is 0.5 in new.toml:", ", the stored study has 1.0;"]);
    // To read a study, its old studies need not exist, and a changed file causes a warning.
    sandbox.fedbo(&["best", "new.toml"]).expect(0, &["warning: new.toml was changed"]);
}

#[test]
fn another_space_is_refused_and_what_is_shared_may_be_used() {
    let sandbox = with_old_studies();
    let with = |meta: &str| {
        let text = study("new", "new.db", 6, meta, "(x - 0.5)^2 + (z - 2)^2");
        let text =
            text.replace("{y}", "{z}").replace("-v y=", "-v z=").replace("space.y", "space.z");
        text.replace("high = 2.0", "high = 1.0").replace("high = 1.0\n[meta]", "high = 3.0\n[meta]")
    };
    sandbox.write("new.toml", &with(TWO));
    tune(&sandbox, &[]).expect(
        2,
        &[
            "new.toml: [meta] studies: \"sqlite:old.db#like\" has a different space: ",
            "x: a number from -1.0 to 2.0 there, a number from -1.0 to 1.0 here",
            "z: not there (if it had a fixed value there, set it in [meta.values])",
            "y: not here; to learn from their common part, add mismatch = \"shared\" to [meta]",
        ],
    );
    assert!(!sandbox.names().contains(&"new.db".to_owned()), "nothing was begun");
    sandbox.write("new.toml", &with(&format!("{TWO}\nmismatch = \"shared\"")));
    let left_out = " outside the range of x here; taken as constant in z; the effect of y is treated as noise\n";
    let ran = tune(&sandbox, &[]);
    ran.expect(0, &["learns from 2 old studies:", left_out]);
    assert!(ran.stdout.contains("\nnot used of "), "{}", ran.stdout);
    let known = format!("{TWO}\nmismatch = \"shared\"\nvalues = {{ z = 2.0 }}");
    sandbox.write("new.toml", &with(&known).replace("new.db", "other.db"));
    tune(&sandbox, &[]).expect(0, &["z was 2.0; the effect of y is treated as noise"]);
    // With an additional parameter, the first point is good for the old studies in all their
    // parameters.
    let more = "[space.z]\ntype = \"int\"\nlow = 1\nhigh = 9\n";
    let text = study("new", "third.db", 3, &format!("{more}{TWO}\nmismatch = \"shared\""), NEW);
    sandbox.write("new.toml", &text);
    tune(&sandbox, &[]).expect(0, &["best ", "; taken as constant in z\n"]);
    let first: f64 = told(&sandbox)[0][2].parse().expect("a value");
    assert!(first < 0.1, "{first}");
}

#[test]
fn a_table_of_trials_says_the_same_as_the_storage_that_it_is_from() {
    let sandbox = with_old_studies();
    let of = |place: &str| format!("[meta]\nstudies = [\"{place}\"]");
    sandbox.fedbo(&["export", "like.toml", "--out", "like.csv"]).expect(0, &[]);
    sandbox.write("new.toml", &study("new", "new.db", 5, &of("like.csv"), NEW));
    tune(&sandbox, &[]).expect(0, &["  like (like.csv): 15 trials, best "]);
    let by_table = told(&sandbox);
    sandbox.write("new.toml", &study("new", "other.db", 5, &of("sqlite:old.db#like"), NEW));
    tune(&sandbox, &[]).expect(0, &[]);
    assert_eq!(told(&sandbox), by_table);
    sandbox.write("like.csv", "x,y\n0.5,0.5\n");
    sandbox.write("new.toml", &study("new", "third.db", 5, &of("like.csv"), NEW));
    tune(&sandbox, &[]).expect(2, &["\"like.csv\", line 1: it has no column value"]);
}

#[test]
fn mistakes_about_old_studies_end_with_the_way_out() {
    let sandbox = with_old_studies();
    let cases = [
        ("studies = [\"sqlite:old.db\"]", "\"sqlite:old.db\" cannot be read: which study?"),
        (
            "studies = [\"sqlite:old.db#lik\"]",
            "there is no study \"lik\" in this storage; it has \"like\", \"near\", \"unlike\"",
        ),
        ("studies = [\"sqlite:none.db\"]", "\"sqlite:none.db\" cannot be read"),
        (
            "studies = [\"sqlite:old.db#like\"]\nvalues = { y = 0.5 }",
            "[meta.values] y: every old study has its own values of this parameter",
        ),
        ("studies = [\"sqlite:new.db\"]", "\"sqlite:new.db\" cannot be read"),
    ];
    for (meta, words) in cases {
        let text = study("new", "new.db", 5, &format!("[meta]\n{meta}"), NEW);
        sandbox.write("new.toml", &text);
        tune(&sandbox, &[]).expect(2, &["new.toml: ", words]);
        assert!(!sandbox.names().contains(&"new.db".to_owned()), "nothing was begun");
    }
    let text = study("self", "old.db", 5, "[meta]\nstudies = [\"sqlite:./old.db#self\"]", NEW);
    sandbox.write("new.toml", &text);
    tune(&sandbox, &[]).expect(2, &["is this study itself"]);
    let text = study("new", "new.db", 5, THREE, NEW).replace("minimize", "maximize");
    sandbox.write("new.toml", &text);
    tune(&sandbox, &[]).expect(2, &["is set to minimize, this study is set to maximize"]);
    // Failed trials are not used for learning.
    sandbox.write("failed.toml", &study("failed", "failed.db", 2, "", "x; exit 3"));
    sandbox.fedbo(&["tune", "failed.toml", "--quiet"]).expect(5, &[]);
    let text = study("new", "new.db", 5, "[meta]\nstudies = [\"sqlite:failed.db\"]", NEW);
    sandbox.write("new.toml", &text);
    tune(&sandbox, &[]).expect(2, &["\"sqlite:failed.db\" has no trial to learn from: 2 failed"]);
}

/// A process that dies while creating the storage leaves an empty file.
#[test]
fn an_empty_file_is_where_a_study_may_begin() {
    let sandbox = with_old_studies();
    sandbox.write("new.toml", &study("new", "new.db", 2, THREE, NEW));
    sandbox.write("new.db", "");
    tune(&sandbox, &["--quiet"]).expect(0, &[]);
    assert_eq!(told(&sandbox).len(), 2);
    sandbox.write(
        "twice.toml",
        &study(
            "twice",
            "t.db",
            2,
            "[meta]\nstudies = [\"sqlite:old.db#like\", \"sqlite:./old.db#like\"]",
            NEW,
        ),
    );
    sandbox.fedbo(&["tune", "twice.toml"]).expect(2, &["./old.db#like", "named twice"]);
}

/// With every strategy, the best points of old studies come first, and an interruption changes
/// nothing.
#[test]
fn the_best_points_of_old_studies_can_be_tried_first() {
    let sandbox = with_old_studies();
    let warm = |n: u64, strategy: &str| {
        format!("[strategy]\nname = \"{strategy}\"\n{TWO}\nwarm_start = {n}")
    };
    let best = |name: &str| {
        let mut rows = sandbox.export(name);
        rows.sort_by(|a, b| {
            let value = |row: &common::Exported| row["value"].parse::<f64>().expect("a value");
            value(a).total_cmp(&value(b))
        });
        rows
    };
    let (like, near) = (best("like.toml"), best("near.toml"));
    for strategy in ["log-ei", "random", "rm-gp-ucb"] {
        sandbox.write("new.toml", &study("new", "new.db", 8, &warm(3, strategy), NEW));
        let ran = tune(&sandbox, &["--trials", "2"]);
        ran.expect(0, &["tries the best 3 points of 2 old studies first:"]);
        // A user's point that equals one of these points is not tried twice.
        let point = [format!("x={}", like[1]["x"]), format!("y={}", like[1]["y"])];
        sandbox.fedbo(&["enqueue", "new.toml", &point[0], &point[1]]).expect(0, &[]);
        tune(&sandbox, &["--quiet"]).expect(0, &[]);
        let rows = sandbox.told("new.toml");
        assert_eq!(rows.len(), 8);
        let is_at = |row: &common::Exported, other: &common::Exported| {
            ["x", "y"].iter().all(|name| {
                let number = |row: &common::Exported| row[*name].parse::<f64>().expect("a number");
                (number(row) - number(other)).abs() < 1e-8
            })
        };
        assert!(is_at(&rows[0], &like[0]) && is_at(&rows[1], &near[0]), "{strategy}");
        assert!(is_at(&rows[2], &like[1]) && rows[2]["source"] == "enqueued", "{strategy}");
        let of_old = rows.iter().filter(|row| row["source"] == "meta-tasks").count();
        assert!(of_old >= 2 && (of_old == 2 || strategy == "rm-gp-ucb"), "{of_old}");
        assert!(!rows[3..].iter().any(|row| is_at(row, &like[1])), "{strategy}");
        sandbox.fedbo(&["best", "new.toml"]).expect(0, &[]);
        sandbox.fedbo(&["plot", "new.toml", "--out", "pictures"]).expect(0, &[]);
        std::fs::remove_file(sandbox.path("new.db")).expect("it is there");
    }
    sandbox.write("new.toml", &study("new", "new.db", 8, &warm(0, "log-ei"), NEW));
    tune(&sandbox, &[]).expect(2, &["add warm_start = 3 to [meta]"]);
}
