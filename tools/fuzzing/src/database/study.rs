//! A study of a single party.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use fedbo_space::{ParameterSpec, Point, Value};
use fedbo_storage::{Mode, SqliteStorage, Storage, verify};
use fedbo_study::{Definition, StrategySpec, Study, StudyError};

use super::Change;
use crate::input_reader::Pieces;
use crate::scratch;

const NAME: &str = "study.db";

/// Verifies and reads the file, then asks for a trial and tells its value.
pub(super) fn read(mut pieces: Pieces<'_>) {
    let strategy = pieces.below(2);
    let path = Change::of(&mut pieces).put(NAME, &bases()[strategy], pieces, |_, bytes| bytes);
    if let Err(error) = verify(&path) {
        assert!(!error.to_string().is_empty());
    }
    if let Err(error) = go_on(&path) {
        assert!(!error.to_string().is_empty());
    }
}

fn go_on(path: &Path) -> Result<(), StudyError> {
    let storage: Arc<dyn Storage> = Arc::new(SqliteStorage::open(path, Mode::Existing)?);
    for record in storage.studies()? {
        let study = Study::load(Arc::clone(&storage), Some(&record.name))?;
        let trials = study.trials()?;
        study.check()?;
        study.best()?;
        let trial = study.ask()?;
        // INV-21: a proposed point lies in the space.
        if trials.iter().all(|known| known.number != trial.number) {
            assert_eq!(study.space().normalize(&trial.point).as_ref(), Ok(&trial.point));
        }
        study.tell(trial.number, 0.5)?;
    }
    Ok(())
}

/// Returns one study with a surrogate and one without, each with trials in every state.
fn bases() -> &'static [Vec<u8>; 2] {
    static BASES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    BASES.get_or_init(|| {
        [StrategySpec::random(), StrategySpec::gp_ucb()].map(|strategy| {
            let path = scratch::folder().join(format!("{}.db", strategy.name()));
            begun(&path, strategy).expect("a new study");
            std::fs::read(&path).expect("a file of the storage")
        })
    })
}

fn begun(path: &Path, strategy: StrategySpec) -> Result<(), StudyError> {
    let storage = Arc::new(SqliteStorage::open(path, Mode::Create)?);
    let definition = Definition::new("train")
        .parameter("x", ParameterSpec::float(0.0, 1.0))
        .parameter("kind", ParameterSpec::categorical(["a", "b"]))
        .strategy(strategy)
        .initial(2);
    let study = Study::open(storage, &definition)?;
    for (number, value) in [(0, 0.25), (1, -1.5)] {
        study.ask()?;
        study.tell(number, value)?;
    }
    study.ask()?;
    study.tell_failed(2, "no output")?;
    study.ask()?;
    let own = [("x", Value::Float(0.5)), ("kind", Value::Choice("b".to_owned()))];
    let own = own.map(|(name, value)| (name.to_owned(), value));
    study.enqueue(&Point::new(own.into()))?;
    Ok(())
}
