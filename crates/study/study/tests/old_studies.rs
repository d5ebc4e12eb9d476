//! Tests of studies that learn from old studies: reading, trust, and resuming after an
//! interruption.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::Arc;

use fedbo_optim::Points;
use fedbo_space::{ParameterSpec, Point, Value};
use fedbo_storage::{MemoryStorage, Storage};
use fedbo_strategies::meta::{MetaTask, OutputScale, TaskModel, TaskModels};
use fedbo_strategies::{Source, SurrogateSettings};
use fedbo_streams::Seed;
use fedbo_study::{
    Definition, MetaError, MetaScale, OldStudy, StrategySpec, Study, StudyError, StudyFile,
};

fn at(x: f64, y: f64) -> Point {
    let entry = |name: &str, value| (name.to_owned(), Value::Float(value));
    Point::new(vec![entry("x", x), entry("y", y)])
}

fn bowl(x: f64, y: f64) -> f64 {
    (x - 0.3).powi(2) + (y - 0.6).powi(2)
}

/// Returns an old study of a function at 20 points.
fn old(name: &str, f: impl Fn(f64, f64) -> f64) -> OldStudy {
    let points = (0..20).map(|i| {
        let i = f64::from(i);
        ((0.5 + 0.618 * i).fract(), (0.5 + 0.755 * i).fract())
    });
    OldStudy::new(name, points.map(|(x, y)| (at(x, y), f(x, y)))).unwrap()
}

fn plain() -> Definition {
    Definition::new("new")
        .parameter("x", ParameterSpec::float(0.0, 1.0))
        .parameter("y", ParameterSpec::float(0.0, 1.0))
        .minimize()
        .seed(5)
}

fn learning() -> Definition {
    plain()
        .learn_from(old("like", |x, y| 1.1 * bowl(x, y)))
        .learn_from(old("unlike", |x, y| 1.0 - bowl(x, y)))
}

fn trials(study: &Study) -> Vec<(Point, Option<f64>)> {
    let trials = study.trials().unwrap();
    trials.into_iter().map(|t| (t.point.clone(), t.value())).collect()
}

fn evaluate(point: &Point) -> Result<f64, String> {
    Ok(bowl(point.number("x"), point.number("y")))
}

#[test]
fn a_misleading_study_is_dropped_and_the_other_helps_from_the_first_query_on() {
    for scale in [MetaScale::Common, MetaScale::Raw, MetaScale::Own] {
        let definition = learning().meta_scale(scale);
        assert_eq!(definition.n_initial, if scale == MetaScale::Own { 5 } else { 0 });
        let study = Study::in_memory(&definition).unwrap();
        study.optimize(12, evaluate).unwrap();
        let steps = study.transfer_history().unwrap().unwrap();
        assert_eq!(steps.len(), 13);
        let [like, unlike] = &steps[12].studies[..] else { panic!("two studies") };
        assert!(unlike.weight < 0.05 && unlike.dropped && !like.dropped, "{scale:?} {steps:?}");
        assert!(unlike.distance > like.distance, "{scale:?}");
        assert_eq!(study.transfer().unwrap().as_ref(), steps.last());
        let best = study.best().unwrap().unwrap();
        assert!(best.value().unwrap() < 1e-3, "{scale:?} {best:?}");
    }
}

/// All old studies form a single shared prior. The prior's weight decreases if the old studies
/// mislead, and the history records the weight trial by trial.
#[test]
fn a_shared_prior_of_old_studies_is_trusted_as_far_as_they_agree_with_this_one() {
    let run = |studies: [OldStudy; 3]| {
        let definition = studies.into_iter().fold(plain(), Definition::learn_from);
        let study = Study::in_memory(&definition.strategy(StrategySpec::shared_prior())).unwrap();
        study.optimize(8, evaluate).unwrap();
        let steps = study.transfer_history().unwrap().unwrap();
        assert!(steps.len() == 9 && steps.iter().all(|step| step.studies.is_empty()), "{steps:?}");
        assert_eq!(study.transfer().unwrap().as_ref(), steps.last());
        // A trial's source contains the trust at the time of the query. The probe counts as a query
        // of the study's own model.
        let trials = study.trials().unwrap();
        for (trial, step) in trials.iter().zip(&steps) {
            if let Some(percent) = Source::trust_percent_of(&trial.source) {
                assert!((f64::from(percent) - 100.0 * step.share).abs() <= 0.5, "{steps:?}");
            }
        }
        let named = trials.iter().filter(|trial| trial.source.starts_with("shared:")).count();
        let trusts: Vec<f64> = steps.iter().map(|step| step.share).collect();
        (trials[0].value().unwrap(), named, trusts)
    };
    let like = |x: f64, y: f64, size: f64| 7.0 + size * bowl(x, y);
    let (first, named, trusts) = run([
        old("a", |x, y| like(x, y, 1.1)),
        old("b", |x, y| like(x - 0.03, y, 50.0)),
        old("c", |x, y| like(x, y + 0.03, 0.2)),
    ]);
    assert!(first < 0.02 && named >= 7, "{first} {named}");
    assert!(trusts[3] > 0.6 && trusts.iter().all(|trust| *trust > 0.2), "{trusts:?}");
    // Old studies with the opposite sign, which are best where the new study is worst. If their
    // offset differs too, they are dropped. Otherwise, their negated functions are trusted.
    let opposed =
        |level: f64| run(["a", "b", "c"].map(|name| old(name, |x, y| level - like(x, y, 1.0))));
    let (first, _, trusts) = opposed(60.0);
    assert!(first > 0.1 && trusts[8].abs() < 0.2, "{first} {trusts:?}");
    let (first, _, trusts) = opposed(7.0);
    assert!(first > 0.1 && trusts[8] < -0.5, "{first} {trusts:?}");
}

/// Checks d̄ of Lemma 7.1 in the units of the values, on the raw scale and on the common scale. In
/// standard units, d̄ would be about four times as large.
#[test]
fn distances_are_in_the_units_of_the_values() {
    let distance = |scale| {
        let definition = learning().meta_scale(scale).initial(20); // by then the objective is known
        let study = Study::in_memory(&definition).unwrap();
        study.optimize(22, evaluate).unwrap();
        study.transfer().unwrap().unwrap().studies[1].distance.unwrap()
    };
    // Mean of |(1 − b) − b| over the old points.
    let points = old("", bowl);
    let n = f64::from(u32::try_from(points.len()).unwrap());
    let expected = points.trials().map(|(_, b)| (1.0 - 2.0 * b).abs()).sum::<f64>() / n;
    for scale in [MetaScale::Common, MetaScale::Raw] {
        let distance = distance(scale);
        assert!((distance - expected).abs() < 0.25 * expected, "{distance} {expected}");
    }
}

/// The initial design counts as one estimate, made before the first query. Each later query adds
/// one.
#[test]
fn weights_wait_for_the_initial_design_to_end() {
    let study = Study::in_memory(&learning().initial(4)).unwrap();
    study.optimize(6, evaluate).unwrap();
    let steps = study.transfer_history().unwrap().unwrap();
    let shares: Vec<f64> = steps.iter().map(|step| step.share).collect();
    assert!(shares[..5].iter().all(|share| (share - 1.0).abs() < 1e-12), "{shares:?}");
    assert!(shares[5] < 0.8 && shares[6] < shares[5], "{shares:?}");
    let sources: Vec<String> = study.trials().unwrap().into_iter().map(|t| t.source).collect();
    assert_eq!(sources[3], "initial");
    assert_ne!(sources[4], "initial");
}

#[test]
fn every_strategy_goes_on_after_an_interruption_as_if_there_had_been_none() {
    for strategy in [
        StrategySpec::rm_gp_ucb(),
        StrategySpec::rm_gp_ts(),
        StrategySpec::rgpe(),
        StrategySpec::taf(),
        StrategySpec::shared_prior(),
    ] {
        let definition = learning().strategy(strategy).initial(2);
        let whole = Study::in_memory(&definition).unwrap();
        whole.optimize(8, evaluate).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        for n_trials in [1, 4, 5, 8] {
            let study = Study::open(storage.clone(), &definition).unwrap();
            study.optimize(n_trials, evaluate).unwrap();
        }
        let study = Study::load(storage, None).unwrap();
        assert_eq!(trials(&study), trials(&whole), "{}", strategy.name());
        assert_eq!(study.transfer().unwrap(), whole.transfer().unwrap());
        assert_eq!(study.transfer_history().unwrap(), whole.transfer_history().unwrap());
    }
}

#[test]
fn other_trials_of_an_old_study_are_another_definition() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    Study::open(storage.clone(), &learning()).unwrap();
    let mut changed = learning();
    changed.meta.as_mut().unwrap().studies[1].rows[3].1 += 1e-9;
    let error = Study::open(storage.clone(), &changed).unwrap_err().to_string();
    assert!(error.contains("list of trials of old study \"unlike\" is another"), "{error}");
    let error = Study::open(storage.clone(), &plain().initial(0)).unwrap_err().to_string();
    assert!(
        error.contains(
            "meta.studies is not set in the given settings, the stored study has [\"like\",\"unlike\"]"
        ),
        "{error}"
    );
    let error =
        Study::open(storage, &learning().meta_scale(MetaScale::Raw)).unwrap_err().to_string();
    assert!(
        error.contains("meta.scale") && error.contains("the stored study has \"common\""),
        "{error}"
    );
}

#[test]
fn a_definition_without_old_studies_is_stored_as_before() {
    let storage = Arc::new(MemoryStorage::new());
    Study::open(storage.clone(), &plain()).unwrap();
    let text = storage.studies().unwrap().remove(0).definition;
    assert!(!text.contains("meta"), "{text}");
}

#[test]
fn what_cannot_be_learned_from_is_refused_before_anything_is_stored() {
    let refused = |definition: Definition| {
        let storage = Arc::new(MemoryStorage::new());
        let error = Study::open(storage.clone(), &definition).unwrap_err();
        assert!(storage.studies().unwrap().is_empty());
        error.to_string()
    };
    let error = refused(plain().strategy(StrategySpec::taf()));
    assert!(error.contains("\"taf\" learns from old studies"), "{error}");
    let error = refused(learning().strategy(StrategySpec::ts()));
    assert!(error.contains("\"ts\" does not learn"), "{error}");
    let outside = OldStudy::new("far", [(at(0.5, 0.5), 1.0), (at(1.5, 0.5), 1.0)]).unwrap();
    let error = refused(plain().learn_from(outside));
    assert!(error.contains("old study \"far\", trial 1: parameter x = 1.5"), "{error}");
    let nan = OldStudy::new("nan", [(at(0.5, 0.5), f64::NAN)]).unwrap();
    let error = refused(plain().learn_from(nan));
    assert!(error.contains("old study \"nan\", trial 0: NaN"), "{error}");
    assert!(matches!(OldStudy::new("empty", []), Err(MetaError::NoTrial { .. })));
    let other = Point::new(vec![("y".to_owned(), Value::Float(0.1))]);
    let two = OldStudy::new("two", [(at(0.1, 0.1), 1.0), (other, 1.0)]).unwrap();
    let error = refused(plain().learn_from(two));
    assert!(error.contains("old study \"two\", trial 1: the point lacks parameter x"), "{error}");
}

/// Covers a parameter that old trials do not have. If the parameter is spread over its range, the
/// old study's model is constant in it and equally certain everywhere. If all trials had the middle
/// value, the model would be uncertain away from the middle.
#[test]
fn an_old_study_is_constant_in_a_parameter_that_it_did_not_have() {
    let folder = tempfile::tempdir().unwrap();
    let csv: String = (0..16)
        .map(|i| f64::from(i) / 15.0)
        .map(|x| format!("{x:?},{:?}\n", (6.0 * x).sin()))
        .collect();
    std::fs::write(folder.path().join("old.csv"), format!("x,value\n{csv}")).unwrap();
    let file = folder.path().join("new.toml");
    std::fs::write(
        &file,
        "[study]\nname = \"new\"\ndirection = \"maximize\"\ntrials = 5\n\
         [space.x]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n\
         [space.z]\ntype = \"float\"\nlow = -3.0\nhigh = 5.0\n\
         [meta]\nstudies = [\"old.csv\"]\nmismatch = \"shared\"\n",
    )
    .unwrap();
    let file = StudyFile::load(&file).unwrap();
    let definition = file.read_definition().unwrap();
    let study = definition.meta.unwrap().studies.remove(0);
    assert_eq!(study.assumptions, ["taken as constant in z"]);
    let mut inputs = Points::new(2);
    let mut middle = Points::new(2);
    let mut outputs = Vec::new();
    for (point, value) in study.trials() {
        let unit = file.space.encode(&point).unwrap();
        inputs.push(&unit);
        middle.push(&[unit[0], 0.5]);
        outputs.push(value);
    }
    let std_and_bend = |inputs: Points| {
        let name = "old".to_owned();
        let outputs = outputs.clone();
        let task = MetaTask { name, inputs, outputs };
        let settings = SurrogateSettings::for_space(&file.space, false);
        let models = TaskModels::fit(&[task], OutputScale::Own, &settings, Seed::new(1)).unwrap();
        let mut grid = Points::new(2);
        for x in 1..10 {
            for z in [0.02, 0.5, 0.98] {
                grid.push(&[f64::from(x) / 10.0, z]);
            }
        }
        let (means, variances) = models.tasks()[0].mean_variances(&grid);
        let bend = means.chunks(3).map(|m| (m[0] - m[1]).abs().max((m[2] - m[1]).abs()));
        let std = variances.iter().map(|v| v.sqrt()).fold(0.0, f64::max);
        (std, bend.fold(0.0, f64::max))
    };
    let (std, bend) = std_and_bend(inputs);
    assert!(std < 0.2 && bend < 0.2, "{std} {bend}");
    let (std_of_middle, _) = std_and_bend(middle);
    assert!(std_of_middle > 2.0 * std, "{std_of_middle} {std}");
}

#[test]
fn a_file_whose_old_studies_cannot_be_read_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.toml");
    let text = "[study]\nname = \"new\"\ndirection = \"maximize\"\ntrials = 5\nstorage = \"sqlite:new.db\"\n\
                [space.x]\ntype = \"float\"\nlow = 0.0\nhigh = 1.0\n[meta]\nstudies = [\"sqlite:old.db\"]\n";
    std::fs::write(&path, text).unwrap();
    let error = StudyFile::load(Path::new(&path)).unwrap().open().unwrap_err();
    assert!(matches!(error, StudyError::Meta(MetaError::Unreadable { .. })), "{error}");
    assert!(!folder.path().join("new.db").exists());
}
