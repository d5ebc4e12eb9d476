//! The parsed OpenAPI description.

use std::collections::{BTreeMap, BTreeSet};

use fedbo_coordinator::OPENAPI;
use serde_json::Value;

/// OpenAPI description, as served.
pub(crate) struct Description(pub(crate) Value);

/// The description of a response.
pub(crate) struct Described<'a> {
    pub(crate) status: u16,
    pub(crate) response: &'a Value,
}

impl Description {
    pub(crate) fn read() -> Self {
        Self(serde_json::from_str(OPENAPI).unwrap())
    }

    /// Returns a value, or the target of its reference.
    pub(crate) fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value.get("$ref").and_then(Value::as_str) {
            Some(reference) => {
                let pointer = reference.strip_prefix('#').unwrap();
                let found = self.0.pointer(pointer);
                self.resolve(found.unwrap_or_else(|| panic!("{reference} leads nowhere")))
            }
            None => value,
        }
    }

    pub(crate) fn schema(&self, name: &str) -> &Value {
        &self.0["components"]["schemas"][name]
    }

    /// Returns all operations by method and path.
    pub(crate) fn operations(&self) -> BTreeMap<(String, String), &Value> {
        let paths = self.0["paths"].as_object().unwrap();
        let of_path = |(path, item): (&String, &'_ Value)| {
            let methods: Vec<String> = item.as_object().unwrap().keys().cloned().collect();
            methods.into_iter().map({
                let path = path.clone();
                move |method| (method, path.clone())
            })
        };
        let named = paths.iter().flat_map(of_path);
        named
            .map(|(method, path)| {
                let operation = &self.0["paths"][&path][&method];
                ((method, path), operation)
            })
            .collect()
    }

    pub(crate) fn answers<'a>(&'a self, operation: &'a Value) -> Vec<Described<'a>> {
        let responses = operation["responses"].as_object().unwrap();
        responses
            .iter()
            .map(|(status, response)| Described {
                status: status.parse().unwrap(),
                response: self.resolve(response),
            })
            .collect()
    }

    /// Returns the codes and statuses of an operation's refusals.
    pub(crate) fn problems(&self, operation: &Value) -> BTreeSet<(String, u16)> {
        let answers = self.answers(operation);
        let pairs = answers.iter().flat_map(|answer| {
            codes(answer.response).into_iter().map(|code| (code, answer.status))
        });
        pairs.collect()
    }
}

/// Returns the possible codes of a refusal, or an empty list if the response is not a refusal.
pub(crate) fn codes(response: &Value) -> Vec<String> {
    let codes = response.pointer("/content/application~1json/schema/allOf/1/properties/code/enum");
    let codes = codes.and_then(Value::as_array).cloned().unwrap_or_default();
    codes.iter().map(|code| code.as_str().unwrap().to_owned()).collect()
}

pub(crate) fn strings(list: &Value) -> BTreeSet<String> {
    let list = list.as_array().unwrap();
    list.iter().map(|each| each.as_str().unwrap().to_owned()).collect()
}
