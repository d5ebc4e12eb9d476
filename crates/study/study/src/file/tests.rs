//! Tests of the keys of `study.toml` and of the error messages for mistakes in it.

use fedbo_strategies::early_stopping::{AshaOptions, HyperbandOptions, MedianOptions};
use fedbo_strategies::meta::RmGpUcbOptions;
use fedbo_strategies::{GpUcbOptions, SharedPriorOptions, StoppingRuleSpec, UcbMultiplier};

use super::*;
use crate::MetaScale;

const WHOLE: &str = "\
[study]
name = \"train\"
direction = \"minimize\"
trials = 40
storage = \"sqlite:train.db\"

[space.rate]
type = \"float\"
low = 1e-4
high = 1.0
log = true

[space.kind]
type = \"categorical\"
choices = [\"a\", \"b\", \"c\"]

[strategy]
name = \"gp-ucb\"
ucb_multiplier = 1.5

[objective]
command = [\"true\", \"{rate}\"]
timeout_s = 5
";

fn load(text: &str) -> Result<StudyFile, FileError> {
    let file = TomlFile::from_text(Path::new("/tmp/study.toml"), text);
    file.parse::<StudyToml>()?.validate(&file)
}

#[test]
fn a_whole_file_is_read_as_it_says() {
    let study = load(WHOLE).unwrap();
    let names: Vec<&str> = study.definition.space.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["rate", "kind"], "in the order of the file");
    let beta = UcbMultiplier::Constant(1.5);
    let strategy =
        StrategySpec::GpUcb(GpUcbOptions { ucb_multiplier: beta, ..GpUcbOptions::default() });
    assert_eq!(study.definition.strategy, strategy);
    assert_eq!(study.definition.n_initial, 5, "two parameters");
    assert_eq!((study.n_trials, study.jobs), (40, 1));
    assert_eq!(study.storage, Address::Sqlite("/tmp/train.db".into()));
    assert!(study.command.is_some());
    assert_eq!(study.definition.space().unwrap(), study.space);
}

#[test]
fn what_may_be_left_out_has_its_default() {
    let short = WHOLE.replace("storage = \"sqlite:train.db\"\n", "");
    let end = short.find("[strategy]").unwrap();
    let study = load(&short[..end]).unwrap();
    assert_eq!(study.storage, Address::Memory);
    assert_eq!(study.definition.strategy, StrategySpec::log_ei());
    assert!(study.command.is_none() && !study.definition.noisy);
}

#[test]
fn mistakes_are_named_with_their_place_and_a_way_out() {
    let cases: [(&str, &str, &[&str]); 14] = [
        ("name = \"train\"\n", "", &["study.name", "missing"]),
        ("direction = \"minimize\"\n", "", &["study.direction", "\"maximize\""]),
        ("\"minimize\"", "\"minimise\"", &["line 3", "did you mean \"minimize\"?"]),
        ("trials = 40", "trials = 0", &["line 4", "study.trials = 0", "1 to"]),
        ("trials = 40", "trials = 1000001", &["study.trials = 1000001", "1 to 1000000"]),
        ("trials = 40", "trails = 40", &["unknown key study.trails", "did you mean trials?"]),
        ("sqlite:train.db", "train.db", &["line 5", "study.storage", "sqlite:FILE"]),
        ("high = 1.0", "high = 0.0", &["space.rate", "below high"]),
        ("\"gp-ucb\"", "\"gp_ucb\"", &["strategy.name", "did you mean \"gp-ucb\"?"]),
        ("\"gp-ucb\"", "\"sobol\"", &["strategy.ucb_multiplier", "remove it"]),
        ("ucb_multiplier = 1.5", "ucb_multiplier = -1", &["strategy.ucb_multiplier = -1"]),
        ("{rate}", "{rat}", &["objective", "{rat} is not a parameter"]),
        ("timeout_s = 5", "timeout_s = 0", &["objective.timeout_s = 0", "above 0"]),
        ("command = [\"true\", \"{rate}\"]\n", "", &["objective.command is missing"]),
    ];
    for (from, to, words) in cases {
        assert!(WHOLE.contains(from), "{from}");
        let message = load(&WHOLE.replacen(from, to, 1)).unwrap_err().to_string();
        for word in words {
            assert!(message.contains(word), "{from:?} → {to:?}: {message}");
        }
        assert!(message.starts_with("/tmp/study.toml"), "{message}");
    }
}

const META: &str = "[meta]\nstudies = [\"sqlite:a.db\", \"old/b.csv\"]\n";

#[test]
fn old_studies_stand_in_for_strategy_and_initial_design() {
    let end = WHOLE.find("[strategy]").unwrap();
    let short = format!("{}{META}", &WHOLE[..end]);
    let study = load(&short).unwrap();
    assert_eq!(study.definition.strategy, StrategySpec::rm_gp_ucb());
    assert_eq!(study.definition.n_initial, 0);
    let meta = study.meta.unwrap();
    let sources: Vec<&str> = meta.sources.iter().map(|source| source.text()).collect();
    assert_eq!(sources, ["sqlite:a.db", "old/b.csv"]);
    assert_eq!(meta.settings, crate::MetaSettings::default());
    // A study's own scale needs a few trials. Rankings have no other scale.
    let own = load(&(short.clone() + "scale = \"own\"\n")).unwrap();
    assert_eq!(own.definition.n_initial, 5);
    let ranked = load(&(short.clone() + "[strategy]\nname = \"rgpe\"\n")).unwrap();
    assert_eq!(ranked.meta.unwrap().settings.scale, MetaScale::Own);
    // A shared prior has its own units, but still guides the first query.
    let options = "[strategy]\nname = \"shared-prior\"\nrank = 12\nprobe = false\n";
    let shared = load(&(short.clone() + options)).unwrap();
    assert_eq!(shared.definition.n_initial, 0);
    let expected = SharedPriorOptions { rank: 12, probe: false, ..SharedPriorOptions::default() };
    assert_eq!(shared.definition.strategy, StrategySpec::SharedPrior(expected));
    let wide = "[strategy]\nname = \"rm-gp-ucb\"\nucb_multiplier = 3.0\n";
    let wide = load(&(short.clone() + wide)).unwrap().definition.strategy;
    let ucb_multiplier = UcbMultiplier::Constant(3.0);
    assert_eq!(wide, StrategySpec::RmGpUcb(RmGpUcbOptions { ucb_multiplier }));
    // Old studies can be used for their best points only, with a strategy that learns nothing else
    // from them.
    let warm = "warm_start = 3\n[strategy]\nname = \"log-ei\"\n";
    let warm = load(&(short.clone() + warm)).unwrap();
    assert_eq!(warm.meta.unwrap().settings.warm_start, 3);
    assert_eq!(warm.definition.n_initial, 5);
    let given = short.replace("trials = 40", "trials = 40\ninitial = 3");
    assert_eq!(load(&given).unwrap().definition.n_initial, 3);
    let none = WHOLE.replace("trials = 40", "trials = 40\ninitial = 0");
    assert!(load(&none).is_err());
}

/// Three categorical parameters with 3, 4 and 23 choices count as three, not as thirty.
///
/// A study stored by a version that counted coordinates keeps its number of initial points unless
/// the file sets another number.
#[test]
fn a_choice_counts_once_in_the_initial_design() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reaction.toml");
    let file = |further: &str| {
        let choices = |n: usize| (0..n).map(|i| format!("\"c{i}\"")).collect::<Vec<_>>().join(", ");
        let parameter = |(name, n): (&str, usize)| {
            format!("[space.{name}]\ntype = \"categorical\"\nchoices = [{}]\n", choices(n))
        };
        let space: String = [("base", 3), ("ligand", 4), ("additive", 23)].map(parameter).concat();
        let text = format!(
            "[study]\nname = \"r\"\ndirection = \"maximize\"\ntrials = 30\nstorage = \"sqlite:r.db\"\n{further}{space}"
        );
        std::fs::write(&path, text).unwrap();
        StudyFile::load(&path).unwrap()
    };
    assert_eq!(file("").space.dim(), 30);
    assert_eq!(file("").definition.n_initial, 6);
    let before = Definition { n_initial: 20, ..file("").read_definition().unwrap() };
    let storage = fedbo_storage::open(&file("").storage, fedbo_storage::Mode::Create).unwrap();
    storage.create("r", &serde_json::to_string(&before).unwrap()).unwrap();
    assert_eq!(file("").open().unwrap().definition().n_initial, 20);
    assert_eq!(file("initial = 20\n").open().unwrap().definition().n_initial, 20);
    let error = file("initial = 6\n").open().unwrap_err().to_string();
    assert!(error.contains("study.initial is 6") && error.contains("has 20"), "{error}");
}

#[test]
fn mistakes_about_old_studies_are_named_with_their_place_and_a_way_out() {
    let end = WHOLE.find("[strategy]").unwrap();
    let whole = format!("{}[strategy]\nname = \"rm-gp-ts\"\n{META}", &WHOLE[..end]);
    load(&whole).unwrap();
    let replaced = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        whole.replacen(from, to, 1)
    };
    let added = |line: &str| format!("{whole}{line}\n");
    let shared = |line: &str| whole.replace("\"rm-gp-ts\"", &format!("\"shared-prior\"\n{line}"));
    let cases: [(String, &[&str]); 19] = [
        (
            shared("rank = 0"),
            &["line 19: strategy.rank = 0, expected a whole number from 1 to 100"],
        ),
        (shared("rank = 101"), &["strategy.rank = 101, expected a whole number from 1 to 100"]),
        (shared("trust = 1.0"), &["strategy.trust = 1.0, expected a number above 0 and below 1"]),
        (shared("send_best = true"), &["unknown key strategy.send_best", "best_points, probe"]),
        (
            replaced("\"rm-gp-ts\"", "\"rm-gp-ts\"\ntrust = 0.9"),
            &["strategy.trust is for \"shared-prior\"; remove it, or choose \"shared-prior\""],
        ),
        (
            shared("").replace("[meta]", "[meta]\nscale = \"raw\""),
            &["\"shared-prior\" learns level and size from the old studies; remove meta.scale"],
        ),
        (replaced("rm-gp-ts", "log-ei"), &["strategy \"log-ei\" does not learn", "\"taf\""]),
        (replaced(META, ""), &["\"rm-gp-ts\" learns from old studies", "[meta]"]),
        (replaced("[meta]\nstudies", "[meta]\nstudy"), &["meta.study", "did you mean studies?"]),
        (replaced("[\"sqlite:a.db\", \"old/b.csv\"]", "[]"), &["meta.studies = []", "1 to 100"]),
        (replaced("sqlite:a.db", "a.db"), &["meta.studies[0]", "did you mean \"sqlite:a.db\"?"]),
        (replaced("old/b.csv", "sqlite:a.db"), &["\"sqlite:a.db\" is named twice"]),
        (added("mismatch = \"share\""), &["meta.mismatch", "did you mean \"shared\"?"]),
        (added("decay = 1.0"), &["line 21", "meta.decay = 1.0", "between 0 and 1"]),
        (added("gap_exponent = -1"), &["meta.gap_exponent = -1"]),
        (added("rate = -1.0"), &["meta.rate = -1.0", "at least 0"]),
        (added("trials_max = 0"), &["meta.trials_max = 0", "1 to 5000"]),
        (added("values = { x = [1] }"), &["meta.values.x = [1]", "a number, or the name"]),
        (
            added("rate = 0.5").replace("rm-gp-ts", "taf"),
            &["meta.rate is for \"rm-gp-ucb\"", "instead of \"taf\""],
        ),
    ];
    for (text, words) in cases {
        let message = load(&text).unwrap_err().to_string();
        for word in words {
            assert!(message.contains(word), "{text}: {message}");
        }
    }
    let ranked = added("scale = \"common\"").replace("rm-gp-ts", "rgpe");
    let message = load(&ranked).unwrap_err().to_string();
    assert!(message.contains("which have no scale"), "{message}");
    let secret = replaced("sqlite:a.db", "postgresql://me:secret@host:x/db");
    assert!(!load(&secret).unwrap_err().to_string().contains("secret"));
}

#[test]
fn a_study_may_have_more_trials_than_are_all_modelled() {
    let text = WHOLE.replace("trials = 40", "trials = 9000");
    assert_eq!(load(&text).unwrap().n_trials, 9000);
}

const STOPPING: &str = "\
[study]
name = \"net\"
direction = \"minimize\"
trials = 40

[space.rate]
type = \"float\"
low = 1e-4
high = 1.0
log = true

[early_stopping]
rule = \"median\"
epochs = 50
";

#[test]
fn early_stopping_has_a_strategy_and_settings_of_its_own() {
    let study = load(STOPPING).unwrap();
    assert_eq!(study.definition.strategy, StrategySpec::gp_ucb());
    let spec = study.definition.early_stopping.unwrap();
    assert_eq!(spec, EarlyStoppingSpec::median(50));
    assert_eq!(study.stop_grace, Duration::from_secs(10));
    let settings = "grace_s = 0.5\nwarmup_epochs = 3\ntrials_min = 0\n";
    let study = load(&format!("{STOPPING}{settings}")).unwrap();
    assert_eq!(study.stop_grace, Duration::from_millis(500));
    let rule = StoppingRuleSpec::Median(MedianOptions { warmup_epochs: 3, trials_min: 0 });
    assert_eq!(study.definition.early_stopping.unwrap().rule, rule);
    let asha = STOPPING.replace("\"median\"", "\"asha\"") + "first_rung = 2\n";
    let rule = StoppingRuleSpec::Asha(AshaOptions { reduction: 3, first_rung: 2 });
    let study = load(&asha).unwrap();
    assert_eq!(study.definition.early_stopping.unwrap().rule, rule);
    let hyperband = STOPPING.replace("\"median\"", "\"hyperband\"") + "reduction = 4\n";
    let rule = StoppingRuleSpec::Hyperband(HyperbandOptions { reduction: 4 });
    let study = load(&format!("{hyperband}[strategy]\nname = \"random\"\n")).unwrap();
    assert_eq!(study.definition.early_stopping.unwrap().rule, rule);
    assert_eq!(study.definition.strategy, StrategySpec::random());
}

#[test]
fn mistakes_in_early_stopping_are_named_with_the_way_out() {
    let cases = [
        (
            STOPPING.replace("median", "mediam"),
            "line 13: early_stopping.rule = \"mediam\", expected \"bo-bos\", \"median\", \"asha\" or \"hyperband\" (did you mean \"median\"?)",
        ),
        (STOPPING.replace("rule = \"median\"\n", ""), "add rule = \"bo-bos\""),
        (
            STOPPING.replace("epochs = 50\n", ""),
            "add epochs = .., the number of epochs of a complete training",
        ),
        (
            STOPPING.replace("epochs = 50", "epochs = 1"),
            "line 14: early_stopping.epochs = 1, expected a whole number from 2 to 1000000",
        ),
        (
            format!("{STOPPING}first_rung = 3\n"),
            "line 15: early_stopping.first_rung is for \"asha\"; remove it, or choose \"asha\" instead of \"median\"",
        ),
        (
            format!("{STOPPING}reduction = 3\n"),
            "early_stopping.reduction is for \"asha\" and \"hyperband\"; remove it, or choose \"asha\" or \"hyperband\" instead",
        ),
        (format!("{STOPPING}epoch_cost = 3.0\n"), "early_stopping.epoch_cost is for \"bo-bos\""),
        (
            format!("{STOPPING}warmup_epochs = 50\n"),
            "line 15: early_stopping.warmup_epochs = 50, expected a whole number below epochs = 50",
        ),
        (
            STOPPING.replace("median", "asha") + "reduction = 1\n",
            "line 15: early_stopping.reduction = 1, expected a whole number from 2 to 1000000",
        ),
        (
            format!("{STOPPING}grace_s = -1\n"),
            "line 15: early_stopping.grace_s = -1, expected a number of seconds from 0 to 86400",
        ),
        (format!("{STOPPING}warmup = 3\n"), "warmup"),
        (
            format!("{STOPPING}[strategy]\nname = \"log-ei\"\n"),
            "line 16: strategy \"log-ei\" cannot be combined with [early_stopping]; choose \"gp-ucb\", \"random\" or \"sobol\"",
        ),
        (
            format!("{STOPPING}[meta]\nstudies = [\"sqlite:old.db\"]\n"),
            "[meta] cannot be combined with [early_stopping]; remove one of them",
        ),
        (
            format!("{STOPPING}[archive]\nfile = \"a.json\"\n"),
            "[archive] cannot be combined with [early_stopping]; remove one of them",
        ),
        (
            STOPPING.replace("median", "bo-bos") + "bounds = [1.0, 0.0]\n",
            "early_stopping.bounds = [1.0, 0.0], expected [LOW, HIGH]",
        ),
    ];
    for (text, expected) in cases {
        let error = load(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// A definition stored by an earlier version has no `early_stopping` key.
#[test]
fn a_definition_without_early_stopping_reads_and_writes_as_before() {
    let definition = load(WHOLE).unwrap().definition;
    let text = definition.to_text();
    assert!(!text.contains("early_stopping"), "{text}");
    assert_eq!(Definition::from_text("train", &text).unwrap(), definition);
    let stopping = load(STOPPING).unwrap().definition;
    let read = Definition::from_text("net", &stopping.to_text()).unwrap();
    assert_eq!(read, stopping);
}

/// A study stored before β was an option equals a study from a file that does not set it.
#[test]
fn the_schedule_of_robust_meta_learning_is_stored_only_where_it_is_chosen() {
    let stored = "{\"name\":\"rm-gp-ucb\"}";
    let read: StrategySpec = serde_json::from_str(stored).unwrap();
    assert_eq!(read, StrategySpec::rm_gp_ucb());
    assert_eq!(serde_json::to_string(&read).unwrap(), stored);
    let ucb_multiplier = UcbMultiplier::Constant(2.0);
    let chosen = StrategySpec::RmGpUcb(RmGpUcbOptions { ucb_multiplier });
    let text = serde_json::to_string(&chosen).unwrap();
    assert_eq!(serde_json::from_str::<StrategySpec>(&text).unwrap(), chosen);
    assert!(text.contains("2.0"), "{text}");
}

const OUTCOMES: &str = "\
[[objectives]]
name = \"error\"
direction = \"minimize\"
[[objectives]]
name = \"speed\"
direction = \"maximize\"
[[constraints]]
name = \"ms\"
at_most = 50
[[constraints]]
name = \"accuracy\"
at_least = 0.9
";

#[test]
fn objectives_and_constraints_are_read_as_the_file_says() {
    let end = WHOLE.find("[strategy]").unwrap();
    let short = &WHOLE[..end];
    let file = short.replace("direction = \"minimize\"\n", "") + OUTCOMES;
    let study = load(&file).unwrap();
    let definition = &study.definition;
    assert_eq!(definition.number_names(), ["error", "speed", "ms", "accuracy"]);
    assert_eq!(definition.directions(), [Direction::Minimize, Direction::Maximize]);
    assert_eq!(definition.direction, Direction::Minimize);
    let bounds: Vec<_> = definition.constraints.iter().map(Constraint::in_words).collect();
    assert_eq!(bounds, ["ms at most 50", "accuracy at least 0.9"]);
    // Objectives and constraints are part of the definition.
    let text = definition.to_text();
    assert_eq!(Definition::from_text("train", &text).unwrap(), *definition);
    let other = load(&file.replace("at_most = 50", "at_most = 60")).unwrap().definition;
    let differs = definition.difference(&other).unwrap().to_string();
    assert!(differs.contains("constraints.ms.at_most"), "{differs}");
    // A definition without them does not have the keys.
    let plain = load(short).unwrap().definition.to_text();
    assert!(!plain.contains("objectives") && !plain.contains("constraints"), "{plain}");
}

#[test]
fn mistakes_about_objectives_and_constraints_are_named_with_their_place_and_a_way_out() {
    let end = WHOLE.find("[strategy]").unwrap();
    let whole = WHOLE[..end].replace("direction = \"minimize\"\n", "") + OUTCOMES;
    load(&whole).unwrap();
    let second = "[[objectives]]\nname = \"speed\"\ndirection = \"maximize\"\n";
    let cases: [(&str, &str, &[&str]); 20] = [
        (
            "trials = 40",
            "trials = 40\ndirection = \"minimize\"",
            &["study.direction is for a single objective", "remove one"],
        ),
        (second, "", &["objectives has one entry, expected 2 to 4", "study.direction"]),
        (
            "name = \"speed\"",
            "name = \"error\"",
            &["objectives[1].name = \"error\" is the name of objectives[0] too"],
        ),
        (
            "name = \"ms\"",
            "name = \"speed\"",
            &["constraints[0].name = \"speed\" is the name of objectives[1] too"],
        ),
        (
            "name = \"ms\"",
            "name = \"value\"",
            &["constraints[0].name = \"value\" is the name of the single objective"],
        ),
        (
            "name = \"ms\"",
            "name = \"rate\"",
            &["is the name of a parameter too; choose another name"],
        ),
        (
            "name = \"ms\"",
            "name = \"state\"",
            &["is a column of tables of trials; choose another name"],
        ),
        (
            "name = \"ms\"",
            "name = \"a b\"",
            &["constraints[0].name = \"a b\", expected a name without blanks"],
        ),
        (
            "name = \"ms\"\n",
            "",
            &["constraints[0].name is missing", "under which the command reports it"],
        ),
        ("name = \"speed\"\n", "", &["objectives[1].name is missing"]),
        (
            "direction = \"maximize\"",
            "direction = \"up\"",
            &["objectives[1].direction = \"up\"", "\"maximize\" or \"minimize\""],
        ),
        ("direction = \"maximize\"\n", "", &["objectives[1].direction is missing"]),
        (
            "at_most = 50",
            "",
            &["constraints[0] (ms) has no bound; add at_most = .. or at_least = .."],
        ),
        (
            "at_most = 50",
            "at_most = 50\nat_least = 2",
            &["constraints[0] (ms) has both at_most and at_least; keep one"],
        ),
        (
            "at_most = 50",
            "at_most = inf",
            &["constraints[0].at_most = inf, expected a finite number"],
        ),
        (
            "at_most = 50",
            "at_moost = 50",
            &["unknown key constraints[0].at_moost", "did you mean at_most?"],
        ),
        (
            "[space.rate]",
            "[strategy]\nname = \"ts\"\n[space.rate]",
            &[
                "strategy \"ts\" cannot be combined with [[objectives]]",
                "\"log-ei\", \"random\" or \"sobol\"",
            ],
        ),
        (
            "[space.rate]",
            "[meta]\nstudies = [\"sqlite:a.db\"]\n[space.rate]",
            &["[[objectives]] cannot be combined with [meta]; remove one of them"],
        ),
        (
            "[space.rate]",
            "[early_stopping]\nrule = \"median\"\nepochs = 9\n[space.rate]",
            &["[[objectives]] cannot be combined with [early_stopping]"],
        ),
        (
            "trials = 40",
            "trials = 40\npatience = 3\nimprovement_min = 0.1",
            &["study.improvement_min is for a single objective; remove it"],
        ),
    ];
    for (from, to, words) in cases {
        assert!(whole.contains(from), "{from}");
        let message = load(&whole.replacen(from, to, 1)).unwrap_err().to_string();
        for word in words {
            assert!(message.contains(word), "{from:?} → {to:?}: {message}");
        }
        assert!(message.starts_with("/tmp/study.toml"), "{message}");
    }
}
