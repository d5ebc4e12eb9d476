//! `table`: trials in tables from other programs, as read by `fedbo import` and `[meta] studies`.

use std::path::Path;
use std::sync::Arc;

use fedbo_space::ParameterSpec;
use fedbo_storage::MemoryStorage;
use fedbo_study::{Definition, Outside, Study, trials_of_table};

fn definition() -> Definition {
    Definition::new("old")
        .parameter("x", ParameterSpec::float(0.0, 1.0))
        .parameter("value", ParameterSpec::int(1, 9))
        .parameter("kind", ParameterSpec::categorical(["a, b", "c"]))
        .minimize()
}

/// Reads the bytes as a table. Accepted rows are stored unchanged, and a second import is a
/// no-op. A table that is accepted as a whole is read the same if rows outside may be left out.
pub fn table(bytes: &[u8]) {
    let definition = definition();
    let study = Study::in_memory(&definition).expect("a valid definition");
    let space = study.space();
    let read = |outside| trials_of_table(bytes, Path::new("old.csv"), &definition, outside);
    if let Ok(strict) = read(Outside::Refuse) {
        let lenient = read(Outside::Skip).expect("fewer rows are refused");
        assert_eq!(strict.trials, lenient.trials);
    }
    match read(Outside::Skip) {
        Ok(read) => {
            let storage = Arc::new(MemoryStorage::new());
            let import = || Study::import(storage.clone(), &definition, &read.trials);
            let (study, n_new) = import().expect("what was accepted can be stored");
            assert_eq!(n_new, read.trials.len());
            let stored = study.trials().expect("a storage in memory");
            for (stored, (point, numbers)) in stored.iter().zip(&read.trials) {
                assert_eq!(Some(&stored.point), space.normalize(point).ok().as_ref());
                assert!(stored.numbers() == numbers && numbers.iter().all(|each| each.is_finite()));
            }
            assert_eq!(import().expect("the same again").1, 0);
        }
        Err(error) => assert!(error.to_string().starts_with("old.csv")),
    }
}

/// Returns a fedbo export, a table written by pandas, and a handwritten one.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "number,state,source,value,failure,attempts,asked_at,started_at,told_at,ask_seconds,evaluate_seconds,trained_epochs,x,\
         parameter.value,kind\n0,complete,own,0.5,,1,t,t,t,0.1,0.2,,1e-3,7,\"a, b\"\n1,failed,own,,\"exit: 1\",1,t,t,t,0.1,0.2,,0.5,8,c\n",
        ",number,value,params_kind,params_value,params_x,state\n0,0,0.5,\"a, b\",7,0.001,COMPLETE\n1,1,,c,8,0.5,PRUNED\n",
        "\u{feff}x, value, direction, parameter.value, kind\n0.5, 2, minimize, 3, c\n0.1, nan, minimize, 4, c\n",
        "x;parameter.value;kind;value\n0,5;3;c;2,5\n9;3;c;1\n",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
