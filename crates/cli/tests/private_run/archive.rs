//! The releases of a private federation, used by a study that starts later.

use crate::common::{Sandbox, json};
use crate::private_run::federations::{LEDGER, federation, releases};

/// Returns a study of the federation's space. The study's command is Branin's function as in the
/// federation, in units of the box.
fn study(extra: &str) -> String {
    format!(
        "[study]\nname = \"late\"\ndirection = \"minimize\"\ntrials = 4\nseed = 5\nstorage = \"sqlite:late.db\"\n{extra}\n\
         [space.x1]\ntype = \"float\"\nlow = -5.0\nhigh = 10.0\n[space.x2]\ntype = \"float\"\nlow = 0.0\nhigh = 15.0\n\
         [objective]\ncommand = [\"sh\", \"branin.sh\", \"{{x1}}\", \"{{x2}}\"]\n"
    )
}

const BRANIN: &str = r#"awk -v x="$1" -v y="$2" 'BEGIN { p = 3.141592653589793
printf "%.17g\n", (y - 5.1 / (4 * p * p) * x * x + 5 / p * x - 6) ^ 2 + 10 * (1 - 1 / (8 * p)) * cos(x) + 10 }'"#;

#[test]
fn a_later_study_begins_where_the_federation_ended_and_nothing_is_charged() {
    let sandbox = Sandbox::new();
    // The budget is so large that the releases are informative with 8 agents.
    let tables = "[privacy]\nepsilon = 60.0\nreleases = 3\n";
    sandbox.write("f.toml", &federation(8, 6, tables));
    sandbox.write("branin.sh", BRANIN);
    sandbox.fedbo(&["run", "f.toml"]).expect(0, &[]);
    let before = releases(&sandbox.path(LEDGER));
    let archive =
        |arguments: &[&str]| sandbox.fedbo(&[&["privacy", "archive"], arguments].concat());
    let given = ["f.toml", "results/test", "--out", "lab.json"];
    let made = archive(&given);
    made.expect(0, &[]);
    for part in ["3 releases", "signal", "hostile agents", "epsilon = "] {
        assert!(made.stdout.contains(part), "{part} in {}", made.stdout);
    }
    archive(&given).expect(2, &["lab.json exists", "--overwrite"]);
    let again = json(&archive(&[&given[..], &["--overwrite", "--json"]].concat()));
    assert_eq!((&again["releases"], &again["federation"]), (&3.into(), &"test".into()));
    let of = |key: &str| again["alignment"][key].as_f64().expect("a number");
    let rho = of("rho");
    assert!(rho > of("noise_alone") && rho <= 1.0, "{again:#}");
    assert!((of("breakdown") - rho / (1.0 + rho)).abs() < 1e-12);
    assert_eq!(releases(&sandbox.path(LEDGER)), before);
    let text = std::fs::read_to_string(sandbox.path("lab.json")).expect("the archive");
    let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(read["federation"], "test");
    let share = read["function"]["signal_share"].as_f64().expect("a share");
    assert!(share > 0.3, "{share}");
    for kept in ["a0", "a7", "noise_std"] {
        assert!(!text.contains(&format!("\"{kept}\"")), "{kept} is nobody's business");
    }

    sandbox.write("late.toml", &study("[archive]\nfile = \"lab.json\"\n"));
    sandbox.fedbo(&["tune", "late.toml"]).expect(0, &[]);
    let trials = sandbox.export("late.toml");
    let from_archive = |trial: &&crate::common::Exported| trial["source"].starts_with("region:");
    assert!(trials.iter().any(|trial| from_archive(&trial)), "{trials:?}");
    // The content of the archive is stored with the study. The study continues without the file,
    // but not with a different file.
    std::fs::remove_file(sandbox.path("lab.json")).expect("the archive goes");
    let more = study("[archive]\nfile = \"lab.json\"\n").replace("trials = 4", "trials = 6");
    sandbox.write("late.toml", &more);
    sandbox.fedbo(&["tune", "late.toml"]).expect(0, &[]);
    assert_eq!(sandbox.export("late.toml").len(), 6);
    sandbox.write("late.toml", &more.replace("lab.json", "other.json"));
    sandbox.fedbo(&["tune", "late.toml"]).expect(2, &["archive.file", "lab.json", "other.json"]);
    let best = json(&sandbox.fedbo(&["best", "sqlite:late.db", "--json"]));
    let value = best["best"]["value"].as_f64().expect("a value");
    assert!(value < 20.0, "the federation's region is far below the mean, 54: {best}");
}

#[test]
fn what_is_no_archive_of_this_space_is_refused() {
    let sandbox = Sandbox::new();
    let tables = "[privacy]\nepsilon = 60.0\nreleases = 1\n";
    let text = federation(8, 2, tables);
    sandbox.write("f.toml", &text);
    sandbox.write("branin.sh", BRANIN);
    sandbox.fedbo(&["run", "f.toml"]).expect(0, &[]);
    let archive = |file: &str, ledger: &str, out: &str| {
        sandbox.fedbo(&["privacy", "archive", file, ledger, "--out", out])
    };
    sandbox.write("g.toml", &text.replace("count = 20", "count = 21"));
    archive("g.toml", "results/test", "g.json").expect(2, &["g.toml", "a different configuration"]);
    sandbox.write("plain.toml", &text.replace(tables, "[privacy]\nmode = \"off\"\n"));
    archive("plain.toml", "results/test", "g.json")
        .expect(2, &["no releases that are charged to a ledger"]);
    archive("f.toml", "nowhere", "g.json").expect(2, &["nowhere"]);
    assert!(!sandbox.path("g.json").exists());
    archive("f.toml", "results/test", "lab.json").expect(0, &[]);

    let refused = |table: &str, parts: &[&str], change: (&str, &str)| {
        sandbox.write("late.toml", &study(table).replace(change.0, change.1));
        sandbox.fedbo(&["tune", "late.toml"]).expect(2, parts);
        assert!(!sandbox.path("late.db").exists(), "nothing is stored");
    };
    let table = "[archive]\nfile = \"lab.json\"\n";
    let none = ("nothing", "nothing");
    refused("[archive]\n", &["archive.file", "add file"], none);
    refused("[archive]\nfile = \"no.json\"\n", &["no.json", "cannot read"], none);
    refused("[archive]\nfile = \"f.toml\"\n", &["not an archive of releases"], none);
    refused("[archive]\nfiles = \"lab.json\"\n", &["files", "file"], none);
    refused(table, &["minimize", "maximize"], ("\"minimize\"", "\"maximize\""));
    refused(
        table,
        &["a different space", "\"x2\"", "from 0.0 to 15.0", "from 0.0 to 14.0"],
        ("high = 15.0", "high = 14.0"),
    );
    let renamed = study(table).replace("x2", "y");
    sandbox.write("late.toml", &renamed);
    sandbox
        .fedbo(&["tune", "late.toml"])
        .expect(2, &["parameter 2 is \"x2\" there and \"y\" here"]);
    let text = std::fs::read_to_string(sandbox.path("lab.json")).expect("the archive");
    sandbox.write("lab.json", &text.replace("\"version\": 1", "\"version\": 2"));
    refused(table, &["version 2", "newer"], none);
    let huge = text.replace("\"n_features\": 20", "\"n_features\": 1000000000000");
    assert_ne!(huge, text);
    sandbox.write("lab.json", &huge);
    refused(table, &["[archive] file", "lengths of the archive's weights"], none);
    sandbox.write("lab.json", &text[..text.len() / 2]);
    refused(table, &["lab.json", "not an archive of releases"], none);
}
