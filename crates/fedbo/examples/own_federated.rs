//! A custom federated algorithm: `cargo run --package fedbo --example own_federated`.
//!
//! Agents send functions, as in federated Thompson sampling. On average, every third query of an
//! agent maximizes the mean of all functions that it has received.
#![expect(clippy::print_stdout, reason = "what an example is for")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo::federated::{
    AgentSetup, Algorithm, Broadcast, Collaborator, Exchange, FeatureMap, Federation,
    MessageContent, MessageSettings, Read, Reading, Relayed, Role, Settings, UpdateRejected,
    UsesHandouts, WeightSpaceSample, run_arm,
};
use fedbo::objective::Closure;
use fedbo::prelude::*;
use fedbo::strategy::{
    Domain, Observation, Points, Proposal, Source, StrategyError, Surrogate, ThompsonSampling,
    ThompsonSettings, UcbMultiplier,
};

/// The algorithm's registry entry.
const MEAN_OF_MESSAGES: Algorithm = Algorithm {
    name: "mean-of-messages",
    summary: "agents query where the mean of all messages is largest",
    exchange: Exchange::Relayed,
    role: Role::Own,
    name_without_noise: None,
    compared_with: None,
    controls: &[],
    tables: &[],
    read: |reading: &Reading<'_>| {
        Ok(Read {
            settings: Settings::Relayed(Arc::new(Options(reading.own.clone()))),
            ucb_multiplier: UcbMultiplier::Constant(1.0),
        })
    },
};

/// The options of the agents' own Thompson sampling.
struct Options(ThompsonSettings);

impl Relayed for Options {
    fn agent(
        &self,
        setup: &AgentSetup<'_>,
    ) -> Result<Box<dyn UsesHandouts<Handout = Broadcast>>, StrategyError> {
        let domain = Domain::Space(setup.space.clone());
        let mut message = MessageSettings::default();
        if setup.role == Role::Placebo {
            message.content = MessageContent::Placebo;
        }
        Ok(Box::new(Agent {
            own: ThompsonSampling::new(domain, self.0.clone(), setup.seed)?,
            is_alone: setup.role == Role::Alone,
            map: Arc::clone(setup.map),
            message,
            messages: BTreeMap::new(),
        }))
    }
}

struct Agent {
    own: ThompsonSampling,
    is_alone: bool,
    map: Arc<FeatureMap>,
    message: MessageSettings,
    /// The latest weights from each sender.
    messages: BTreeMap<u32, Vec<f64>>,
}

impl Strategy for Agent {
    fn ask(&self, pending: &Points, stream: &mut Stream) -> Result<Proposal, StrategyError> {
        if self.is_alone || self.messages.is_empty() || !stream.bernoulli(1.0 / 3.0) {
            return self.own.propose_own(pending, stream);
        }
        let mut mean = vec![0.0; self.map.n_features()];
        for weights in self.messages.values() {
            for (mean, weight) in mean.iter_mut().zip(weights) {
                *mean += weight / self.messages.len() as f64;
            }
        }
        let function = WeightSpaceSample::new(&self.map, &mean)?;
        let source = Source::Region { region: 0 };
        self.own.propose_maximum(&function, source, pending, stream)
    }

    fn tell(&mut self, observed: &[Observation]) -> Result<(), StrategyError> {
        self.own.tell(observed)
    }
}

impl Collaborator for Agent {
    fn domain(&self) -> &Domain {
        self.own.domain()
    }

    fn own(&self) -> &Surrogate {
        self.own.surrogate()
    }

    fn map(&self) -> &FeatureMap {
        &self.map
    }

    fn weight_sample(&self, stream: &mut Stream) -> Result<Vec<f64>, StrategyError> {
        self.message.draw(&self.map, self.own.surrogate(), stream)
    }
}

impl UsesHandouts for Agent {
    type Handout = Broadcast;

    fn take(&mut self, broadcast: Broadcast, own_id: u32) -> Vec<UpdateRejected> {
        for straggler in &broadcast.stragglers {
            self.messages.remove(straggler);
        }
        for message in &broadcast.messages {
            if message.sender != own_id {
                self.messages.insert(message.sender, message.weights.to_vec());
            }
        }
        Vec::new()
    }
}

const TEXT: &str = r#"
[federation]
name = "three peaks"
algorithm = "mean-of-messages"
rounds = 12

[space.x]
type = "float"
low = 0.0
high = 1.0
[space.y]
type = "float"
low = 0.0
high = 1.0

[[agents]]
name = "north"
[[agents]]
name = "south"
[[agents]]
name = "west"
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut federation = Federation::from_text(TEXT, &[MEAN_OF_MESSAGES])?;
    for (agent, (x, y)) in [("north", (0.7, 0.2)), ("south", (0.6, 0.3)), ("west", (0.7, 0.3))] {
        let peak = move |point: &Point| {
            let distance = (point.number("x") - x).powi(2) + (point.number("y") - y).powi(2);
            Ok((-20.0 * distance).exp())
        };
        federation = federation.with_objective(agent, Arc::new(Closure(peak)))?;
    }
    for arm in federation.arms() {
        let (rows, _) = run_arm(&federation, arm, "peaks", &AtomicBool::new(false))?;
        let last = rows.iter().filter(|row| row.iteration == 12);
        let best: f64 = last.filter_map(|row| row.best).sum::<f64>() / 3.0;
        println!("{arm}: best value of the agents on average {best:.4}");
    }
    Ok(())
}
