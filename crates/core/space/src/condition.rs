//! Conditions under which a parameter exists: `when = { booster = "dart" }`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Parameter, SpaceError, Value};

/// The reason for rejecting a condition: the key, the value found, and the expected values.
type Refused = (String, String, String);

fn refused<T>(key: &str, found: impl ToString, expected: impl Into<String>) -> Result<T, Refused> {
    Err((key.to_owned(), found.to_string(), expected.into()))
}

/// The `when` table of a parameter: for each parent, the values with which the parameter exists.
pub type WhenSpec = BTreeMap<String, OneOf>;

/// One value or a list of values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOf {
    /// Exactly this value.
    One(Value),
    /// Any of these values.
    Any(Vec<Value>),
}

impl OneOf {
    fn values(&self) -> &[Value] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Any(values) => values,
        }
    }
}

impl<V: Into<Value>> From<V> for OneOf {
    fn from(value: V) -> Self {
        Self::One(value.into())
    }
}

/// A checked condition: the parent has one of the values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    /// Index of the parent in the space.
    pub(crate) parent: usize,
    /// Indices of the parent's values (see [`crate::Kind::value`]), ascending.
    pub(crate) values: Vec<u64>,
}

/// Checks the `when` tables of all parameters. Returns the conditions of each parameter, and an
/// order of the parameters in which every parent comes before its children.
pub(crate) fn checked(
    parameters: &[Parameter],
) -> Result<(Vec<Vec<Condition>>, Vec<usize>), SpaceError> {
    let conditions: Vec<Vec<Condition>> = parameters
        .iter()
        .map(|parameter| {
            let entries = parameter.when().iter();
            let conditions = entries.map(|(parent, one_of)| {
                condition(parameters, parameter.name(), parent, one_of).map_err(
                    |(key, found, expected)| SpaceError::Parameter {
                        name: parameter.name().to_owned(),
                        key,
                        found,
                        expected,
                    },
                )
            });
            conditions.collect()
        })
        .collect::<Result<_, _>>()?;
    let order = parents_first(parameters, &conditions)?;
    Ok((conditions, order))
}

fn condition(
    parameters: &[Parameter],
    name: &str,
    parent: &str,
    one_of: &OneOf,
) -> Result<Condition, Refused> {
    let key = format!("when.{parent}");
    let found = || Shown(one_of.values()).to_string();
    let Some(index) = parameters.iter().position(|each| each.name() == parent) else {
        let others = parameters.iter().map(Parameter::name).filter(|each| *each != name);
        let others: Vec<&str> = others.collect();
        let expected = format!("the name of another parameter: {}", others.join(", "));
        return refused("when", parent, expected);
    };
    let kind = parameters[index].kind();
    if kind.n_values().is_none() {
        let expected = format!(
            "no condition on {parent}, which is {kind}; a condition needs a parent with separate values"
        );
        return refused(&key, found(), expected);
    }
    if one_of.values().is_empty() {
        return refused(&key, "[]", "at least one value");
    }
    let mut values = Vec::new();
    for value in one_of.values() {
        match kind.index_of(value) {
            Some(index) => values.push(index),
            None => return refused(&key, value, kind.to_string()),
        }
    }
    values.sort_unstable();
    if let Some(pair) = values.windows(2).find(|pair| pair[0] == pair[1]) {
        let value = kind.value(pair[0]).map_or_else(String::new, |value| value.to_string());
        return refused(&key, format!("{value} twice"), "different values");
    }
    Ok(Condition { parent: index, values })
}

/// Returns the indices of the parameters, parents before children and otherwise in their order.
fn parents_first(
    parameters: &[Parameter],
    conditions: &[Vec<Condition>],
) -> Result<Vec<usize>, SpaceError> {
    let mut order: Vec<usize> = Vec::with_capacity(parameters.len());
    let mut is_placed = vec![false; parameters.len()];
    while order.len() < parameters.len() {
        let is_next = |index: &usize| {
            !is_placed[*index] && conditions[*index].iter().all(|c| is_placed[c.parent])
        };
        match (0..parameters.len()).find(is_next) {
            Some(next) => {
                order.push(next);
                is_placed[next] = true;
            }
            None => {
                let rest = (0..parameters.len()).filter(|index| !order.contains(index));
                let names: Vec<&str> = rest.map(|index| parameters[index].name()).collect();
                return Err(SpaceError::Parameter {
                    name: names[0].to_owned(),
                    key: "when".to_owned(),
                    found: format!("a circle among {}", names.join(", ")),
                    expected: "conditions in which no parameter depends on itself".to_owned(),
                });
            }
        }
    }
    Ok(order)
}

/// Values as a list for messages.
struct Shown<'a>(&'a [Value]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(", "))
    }
}

/// Describes a `when` table: `booster = dart and depth = 2, 3`.
pub(crate) fn in_words(when: &WhenSpec) -> String {
    let entries = when.iter().map(|(parent, one_of)| match one_of {
        OneOf::One(value) => format!("{parent} = {value}"),
        OneOf::Any(values) => format!("{parent} is one of {}", Shown(values)),
    });
    entries.collect::<Vec<_>>().join(" and ")
}
