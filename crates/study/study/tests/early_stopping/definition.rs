//! Tests of early stopping in a study's definition: valid and rejected settings.

use std::sync::Arc;

use fedbo_space::ParameterSpec;
use fedbo_storage::{MemoryStorage, Mode};
use fedbo_strategies::early_stopping::MedianOptions;
use fedbo_study::{
    Definition, EarlyStoppingSpec, StoppingRuleSpec, StrategySpec, Study, StudyError, StudyFile,
};

use crate::early_stopping::fixtures::{N_EPOCHS, definition, spec};

#[test]
fn a_definition_says_what_does_not_go_together() {
    let check = |definition: Definition| Study::in_memory(&definition).unwrap_err().to_string();
    let log_ei = Definition { strategy: StrategySpec::log_ei(), ..definition() };
    assert!(check(log_ei).contains("strategy \"log-ei\" cannot be combined with [early_stopping]"));
    let fresh = Definition::new("a").parameter("x", ParameterSpec::float(0.0, 1.0));
    assert_eq!(fresh.early_stopping(spec()).strategy, StrategySpec::gp_ucb());
    assert_eq!(definition().strategy, StrategySpec::sobol(), "what was chosen stays");

    // The error contains the changed key.
    let storage = Arc::new(MemoryStorage::new());
    Study::open(storage.clone(), &definition()).unwrap();
    let differs = |changed: EarlyStoppingSpec| {
        let definition = Definition { early_stopping: Some(changed), ..definition() };
        let error = Study::open(storage.clone(), &definition).unwrap_err();
        let StudyError::Differs { changes, .. } = error else {
            panic!("{error}");
        };
        let first = changes.iter().next().expect("at least one");
        first.key.clone()
    };
    assert_eq!(differs(EarlyStoppingSpec { epochs: 11, ..spec() }), "early_stopping.epochs");
    assert_eq!(differs(EarlyStoppingSpec::asha(N_EPOCHS)), "early_stopping.rule");
    let rule = StoppingRuleSpec::Median(MedianOptions { warmup_epochs: 2, trials_min: 4 });
    assert_eq!(differs(EarlyStoppingSpec::new(rule, N_EPOCHS)), "early_stopping.trials_min");
    let none = Definition { early_stopping: None, ..definition() };
    assert!(Study::open(storage, &none).unwrap_err().to_string().contains(
        "early_stopping.rule is not set in the given settings, the stored study has \"median\""
    ));
}

/// A study stored before the option existed continues with expected final values, regardless of the
/// current default. A file with a different setting is rejected.
#[test]
fn a_study_goes_on_with_the_expected_ends_that_it_began_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.toml");
    let file = |further: &str| {
        let text = format!(
            "[study]\nname = \"net\"\ndirection = \"minimize\"\ntrials = 9\nstorage = \"sqlite:net.db\"\n\
             [space.x]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n\
             [early_stopping]\nrule = \"bo-bos\"\nepochs = 30\n{further}"
        );
        std::fs::write(&path, text).unwrap();
        StudyFile::load(&path).unwrap()
    };
    let told = |study: &Study| match study.definition().early_stopping.unwrap().rule {
        StoppingRuleSpec::BoBos(options) => options.expected_end,
        rule => panic!("{rule:?}"),
    };
    let new = file("").read_definition().unwrap();
    let text = serde_json::to_string(&new).unwrap();
    let before = text.replace(",\"expected_end\":false", "");
    assert_ne!(text, before);
    let storage = fedbo_storage::open(&file("").storage, Mode::Create).unwrap();
    storage.create("net", &before).unwrap();
    for further in ["", "expected_end = true\n"] {
        let file = file(further);
        assert!(told(&file.open().unwrap()), "{further}");
        assert!(file.difference(file.open().unwrap().definition()).is_none(), "{further}");
    }
    let error = file("expected_end = false\n").open().unwrap_err().to_string();
    assert!(error.contains("early_stopping.expected_end is false"), "{error}");
    assert!(error.contains("the stored study has true"), "{error}");
    // In a new study, the option is off unless the file sets it.
    let fresh = |further: &str, name: &str| {
        let mut file = file(further);
        file.definition.name = name.to_owned();
        told(&file.open().unwrap())
    };
    assert!(!fresh("", "fresh") && fresh("expected_end = true\n", "other"));
}

/// A program must not store options that cannot be read back, since the study could never be opened
/// again.
#[test]
fn options_that_could_not_be_read_again_are_refused() {
    let rule = StoppingRuleSpec::Median(MedianOptions { warmup_epochs: 2, trials_min: 2_000_000 });
    let spec = EarlyStoppingSpec::new(rule, N_EPOCHS);
    let definition = Definition { early_stopping: Some(spec), ..definition() };
    let error = Study::in_memory(&definition).unwrap_err().to_string();
    assert!(error.contains("2000000") && error.contains("from 0 to 1000000"), "{error}");
}
