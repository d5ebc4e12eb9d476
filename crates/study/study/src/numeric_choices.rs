//! A hint about choices that are better declared as a set of numbers.

use fedbo_space::{Kind, Parameter, Space, Value};

/// Returns a hint for each parameter with more than two unordered choices that are all numbers.
pub(crate) fn hints(space: &Space) -> Vec<String> {
    space.parameters().iter().filter_map(hint).collect()
}

fn hint(parameter: &Parameter) -> Option<String> {
    let Kind::Categorical { choices } = parameter.kind() else { return None };
    let is_number = |choice: &Value| choice.as_f64().is_some();
    if choices.len() <= 2 || !choices.iter().all(is_number) {
        return None;
    }
    let is_whole = choices.iter().all(|choice| matches!(choice, Value::Int(_)));
    let texts: Vec<String> = choices.iter().map(Value::to_string).collect();
    Some(format!(
        "all choices of {:?} are numbers, but the model ignores their distances; for a new study, write type = \"{}\" and \
         values = [{}] (with log = true if ratios matter), unless the numbers are labels",
        parameter.name(),
        if is_whole { "int" } else { "float" },
        texts.join(", "),
    ))
}

#[cfg(test)]
mod tests {
    use fedbo_space::ParameterSpec;

    use super::*;

    #[test]
    fn only_unordered_numbers_give_a_hint() {
        let of = |spec: &ParameterSpec| {
            let x = ParameterSpec::float(0.0, 1.0);
            hints(&Space::from_specs([("x", &x), ("batch", spec)]).unwrap())
        };
        let found = of(&ParameterSpec::categorical([16, 32, 128]));
        assert_eq!(found.len(), 1);
        for part in ["\"batch\"", "type = \"int\"", "values = [16, 32, 128]"] {
            assert!(found[0].contains(part), "{found:?}");
        }
        let mixed = [Value::Int(1), Value::Float(0.5), Value::Int(2)];
        assert!(of(&ParameterSpec::categorical(mixed))[0].contains("\"float\""));
        for spec in [
            ParameterSpec::categorical([16, 32]),
            ParameterSpec::ordered([16, 32, 128]),
            ParameterSpec::int_values([16, 32, 128]),
            ParameterSpec::categorical(["16", "32", "128"]),
            ParameterSpec::categorical([Value::Int(1), Value::Int(2), "auto".into()]),
        ] {
            assert!(of(&spec).is_empty(), "{spec:?}");
        }
    }
}
