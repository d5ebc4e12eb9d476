//! A search space as displayed to users and programs before they agree to it: every parameter with
//! all its properties.

use fedbo_space::{ParameterSpec, Space};
use serde::Serialize;
use serde_json::Value;

use fedbo_console::text::shown;

/// Keys of a parameter, in display order.
const KEYS: [&str; 7] = ["low", "high", "step", "values", "log", "choices", "ordered"];

/// A parameter as JSON.
#[derive(Serialize)]
pub struct ShownParameter {
    name: String,
    #[serde(flatten)]
    spec: ParameterSpec,
}

/// Returns all parameters, in order.
pub fn parameters(space: &Space) -> Vec<ShownParameter> {
    let parameters = space.parameters().iter();
    parameters
        .map(|parameter| ShownParameter {
            name: parameter.name().to_owned(),
            spec: parameter.to_spec(),
        })
        .collect()
}

/// Returns all parameters, one per line, with control sequences escaped (INV-24).
pub fn lines(space: &Space) -> String {
    let mut text = "the study's parameters, which your command will be given:".to_owned();
    for parameter in parameters(space) {
        let mut line = String::new();
        let described = serde_json::to_value(&parameter.spec).unwrap_or_default();
        if let Value::Object(mut entries) = described {
            entries.remove("type");
            // Known keys in file order, then any others.
            let first = KEYS.map(|key| (key.to_owned(), entries.remove(key).unwrap_or_default()));
            for (key, value) in first.into_iter().chain(entries) {
                if !value.is_null() && value != Value::Bool(false) {
                    line += &format!(", {key} = {value}");
                }
            }
        }
        text += &format!(
            "\n  {}: {}{}",
            shown(&parameter.name),
            shown(&parameter.spec.kind),
            shown(&line)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_orders_are_shown() {
        let batch = ParameterSpec::int_values([128, 16]).with_log();
        let spin = ParameterSpec::ordered(["slow", "fast"]);
        let space = Space::from_specs([("batch", &batch), ("spin", &spin)]).expect("a space");
        let text = lines(&space);
        for part in [
            "\n  batch: int, values = [16.0,128.0], log = true",
            r#"  spin: categorical, choices = ["slow","fast"], ordered = true"#,
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn every_parameter_is_shown_and_nothing_in_it_acts() {
        let rate = ParameterSpec::log_float(1e-3, 1.0);
        let odd = ["rbf", "x; touch pwned", "\u{202e}fbr", "a\"b"];
        let kernel = ParameterSpec::categorical(odd);
        let space = Space::from_specs([("rate", &rate), ("kernel", &kernel)]).expect("a space");
        let text = lines(&space);
        for part in [
            "\n  rate: float, low = 0.001, high = 1.0, log = true",
            r#"  kernel: categorical, choices = ["rbf","x; touch pwned","\u202efbr","a\"b"]"#,
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains('\u{202e}'));
        let json = serde_json::to_value(parameters(&space)).expect("JSON");
        assert_eq!(json[1]["name"], "kernel");
        assert_eq!(json[1]["choices"][1], "x; touch pwned");
        assert_eq!(json[0]["low"], 0.001);
    }
}
