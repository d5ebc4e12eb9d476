//! The public configuration of a federation as text. It is known to all agents and must not change
//! after the first round (INV-11). Equal settings give equal text, and different settings give
//! different text.
//!
//! The wording is fixed, because ledgers store the text. Different wording for the same setting
//! would make a different study.

use fedbo_space::{Direction, Kind, MixtureSpec, RuleSpec, Space};
use fedbo_strategies::{LocalProb, MessageContent, MessageNoise, MessageSettings};
use serde::Serialize;

/// Lines of the form `key = value`, in a fixed order. Numbers have the shortest form that parses
/// back to the same value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicConfig(String);

impl Default for PublicConfig {
    /// Contains only the version of the format.
    fn default() -> Self {
        Self("fedbo federation, version 1\n".to_owned())
    }
}

impl PublicConfig {
    /// Returns the text as bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.0.clone().into_bytes()
    }

    /// Adds a line of text.
    pub fn line(&mut self, key: &str, value: &str) {
        self.0.push_str(&format!("{key} = {value}\n"));
    }

    /// Adds a number.
    pub fn number(&mut self, key: &str, value: f64) {
        self.line(key, &format!("{value:?}"));
    }

    /// Adds a whole number.
    pub fn count(&mut self, key: &str, value: u64) {
        self.line(key, &value.to_string());
    }

    /// Adds a value as JSON.
    pub fn json(&mut self, key: &str, value: &impl Serialize) {
        // Strings, numbers and lists of them can always be serialized as JSON.
        self.line(key, &serde_json::to_string(value).unwrap_or_default());
    }

    /// Adds the federation's name and settings, the roster in order, and the space.
    pub fn federation(
        &mut self,
        name: &str,
        seed: u64,
        direction: Direction,
        n_initial: usize,
        roster: &[&str],
        space: &Space,
    ) {
        self.json("name", &name);
        self.count("seed", seed);
        self.line(
            "direction",
            match direction {
                Direction::Maximize => "maximize",
                Direction::Minimize => "minimize",
            },
        );
        self.count("initial", n_initial as u64);
        for (slot, agent) in roster.iter().enumerate() {
            self.json(&format!("slot {slot}"), agent);
        }
        for parameter in space.parameters() {
            let (scale, range) = match parameter.kind() {
                Kind::Float { low, high, log } => (*log, format!("float {low:?} {high:?}")),
                Kind::Int { low, high, log } => (*log, format!("int {low} {high}")),
                Kind::Stepped(stepped) => {
                    let (low, high, step) = (stepped.low(), stepped.high(), stepped.step());
                    let range = match stepped.is_whole() {
                        true => format!("int {low} {high} step {step}"),
                        false => format!("float {low:?} {high:?} step {step:?}"),
                    };
                    (false, range)
                }
                Kind::Set(set) => {
                    let numbers = set.numbers();
                    let range = match set.is_whole() {
                        true => {
                            let texts: Vec<String> = numbers.iter().map(f64::to_string).collect();
                            format!("int in [{}]", texts.join(", "))
                        }
                        false => format!("float in {numbers:?}"),
                    };
                    (set.is_log(), range)
                }
                Kind::Categorical { choices } => {
                    (false, serde_json::to_string(choices).unwrap_or_default())
                }
                Kind::Ordered { choices } => {
                    let choices = serde_json::to_string(choices).unwrap_or_default();
                    (false, format!("ordered {choices}"))
                }
            };
            let range = if scale { range + " log" } else { range };
            self.line(&format!("parameter {}", parameter.name()), &range);
            if !parameter.when().is_empty() {
                self.json(&format!("when {}", parameter.name()), parameter.when());
            }
        }
    }

    /// Adds linear rules and mixtures. Without any, the text does not change.
    pub fn rules(&mut self, rules: &[RuleSpec], mixtures: &[MixtureSpec]) {
        for rule in rules {
            self.json("rule", rule);
        }
        for mixture in mixtures {
            self.json("mixture", mixture);
        }
    }

    /// Adds p_t.
    pub fn local_prob(&mut self, local_prob: &LocalProb) {
        let schedule = match local_prob {
            LocalProb::InverseSqrt => "1-1/sqrt(max(t,2))".to_owned(),
            LocalProb::InverseSquare => "1-1/max(t,2)^2".to_owned(),
            LocalProb::Power(exponent) => format!("1-t^-{exponent:?}"),
            LocalProb::Constant(p) => format!("{p:?}"),
            LocalProb::List(list) => serde_json::to_string(list).unwrap_or_default(),
        };
        self.line("local_prob", &schedule);
    }

    /// Adds the content of messages.
    pub fn message(&mut self, message: &MessageSettings) {
        self.line(
            "message",
            match message.content {
                MessageContent::Posterior => "sample",
                MessageContent::Mean => "mean",
                MessageContent::Zero => "zero",
                MessageContent::Placebo => "prior",
            },
        );
        match message.noise_variance {
            MessageNoise::Given(variance) => self.number("message_noise", variance),
            MessageNoise::Own { floor } => {
                self.line("message_noise", &format!("own, at least {floor:?}"))
            }
        }
        self.line("standardize", if message.standardize { "true" } else { "false" });
    }
}
