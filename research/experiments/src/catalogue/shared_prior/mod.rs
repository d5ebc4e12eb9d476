//! The benefit of joining. A party joins others with 50 random evaluations each, by a shared prior,
//! by FTS or by rivals of the shared prior, and is compared with a party alone.

pub(super) mod axes;
mod families;
pub(super) mod private;
mod rivals;

use std::collections::BTreeMap;
use std::sync::Arc;

use fedbo_federated::fts::{AgentSampling, Fts, FtsSettings};
use fedbo_federated::shared_prior::SharedPriorAgent;
use fedbo_federated::{Alone, MessageAgent};
use fedbo_gp::{FeatureDescription, FeatureMap, LengthscaleLaw, Posterior};
use fedbo_objective::{Outcome, Problem, TrialId};
use fedbo_protocol::{Agent, AgentPlan, AgentUpdate, Broadcast};
use fedbo_report::{Clusters, FigureSpec, Metric, PanelBy, PrimaryComparison, SummaryRequest};
use fedbo_runner::{Evaluation, Member, RowLabels};
use fedbo_strategies::meta::{MessageEnsemble, Rgpe, RgpeSettings, Taf, TafSettings, Unranked};
use fedbo_strategies::{
    Domain, LocalProb, LogEiSettings, MessageContent, MessageSettings, Observation, OthersUse,
    SharedPriorSettings, Source, Strategy, Surrogate, ThompsonSettings,
};
use fedbo_streams::{Purpose, Seed};

use self::families::{Family, Outlook};
use self::rivals::{Consensus, Method, Rival};
use super::jobs::{AnyAgent, Job, Session, check_primary, columns_of, message_of};
use super::{Call, ExperimentResult};

/// Number of queries of the joining party.
const N_ROUNDS: u64 = 20;
/// Number of evaluations of each other party.
const N_PAST: usize = 50;
/// M.
const N_FEATURES: usize = 200;
const CHECKPOINTS: [i64; 5] = [1, 3, 5, 10, 20];
/// The primary claims of the experiment: the shared prior beats these controls on these families
/// with honest others, after the given numbers of queries. There is no claim against the other
/// controls. The strongest of the other controls are a warm start and `log-ei-1`.
const PRIMARY: [(&str, &[Arm], &[i64]); 4] = [
    ("landmine", &[Arm::Fts, Arm::LogEi], &[3, 5, 10]),
    ("wine", &[Arm::LogEi], &[5]),
    ("digits", &[Arm::LogEi], &[5]),
    ("wine trees", &[Arm::LogEi], &[5]),
];

/// The strategies of the joining party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arm {
    SharedPrior,
    /// Built from the statistics in the same messages.
    Rgpe,
    Taf,
    Fts,
    LogEi,
    /// Log expected improvement alone, with one random point instead of three.
    LogEiFromOne,
    Ts,
    WarmStart,
    Placebo,
    /// A rival method that uses the other parties' models.
    Rival(Method),
    /// A rival for parties that start together.
    Consensus,
}

impl Arm {
    const WITHOUT_RIVALS: [Self; 9] = [
        Self::SharedPrior,
        Self::Rgpe,
        Self::Taf,
        Self::Fts,
        Self::LogEi,
        Self::LogEiFromOne,
        Self::Ts,
        Self::WarmStart,
        Self::Placebo,
    ];
    const RIVALS: [Self; 5] = [
        Self::SharedPrior,
        Self::Rival(Method::Pooled),
        Self::Rival(Method::AverageHyperparameters),
        Self::Rival(Method::Barycentre),
        Self::WarmStart,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::SharedPrior => "shared-prior",
            Self::Rgpe => "rgpe",
            Self::Taf => "taf",
            Self::Fts => "fts",
            Self::LogEi => "log-ei",
            Self::LogEiFromOne => "log-ei-1",
            Self::Ts => "ts",
            Self::WarmStart => "warm-start",
            Self::Placebo => "placebo",
            Self::Rival(Method::Pooled) => "pooled",
            Self::Rival(Method::AverageHyperparameters) => "fgpr",
            Self::Rival(Method::Barycentre) => "barycentre",
            Self::Consensus => "consensus",
        }
    }

    /// Creates an agent with this arm's strategy. `others` are the other parties' models of their
    /// observations, for building a rival.
    fn agent(
        self,
        problem: &dyn Problem,
        map: &Arc<FeatureMap>,
        others: &[&Posterior],
        seed: Seed,
    ) -> anyhow::Result<AnyAgent> {
        let space = problem.space();
        let (domain, map) = (Domain::Space(space.clone()), Arc::clone(map));
        if let Self::Rival(method) = self {
            let own = LogEiSettings::for_agent(space, false);
            let rival = Rival::new(method, domain.clone(), own, others, seed)?;
            return Ok(alone(rival, domain, &map));
        }
        if self == Self::Consensus {
            let own = LogEiSettings::for_agent(space, false);
            return Ok(Box::new(Consensus::new(space.clone(), own, map, axes::N_ROUNDS, seed)?));
        }
        if matches!(self, Self::Fts | Self::Ts) {
            let local_prob = match self {
                Self::Fts => LocalProb::InverseSqrt,
                _ => LocalProb::Constant(1.0),
            };
            let settings = FtsSettings {
                own: ThompsonSettings::default_for(space.dim()),
                local_prob,
                agent_sampling: AgentSampling::Learned { sharpness: 2.0 },
                message: MessageSettings {
                    content: MessageContent::Posterior,
                    ..MessageSettings::default()
                },
            };
            return Ok(Box::new(Fts::new(domain, settings, map, seed)?));
        }
        let mut settings = SharedPriorSettings {
            own: LogEiSettings::for_agent(space, false),
            ..SharedPriorSettings::default_for(space.dim(), false)
        };
        match self {
            Self::Rgpe | Self::Taf => return self.ensemble(domain, settings, map, seed),
            Self::LogEi => settings.others = OthersUse::Nothing,
            Self::LogEiFromOne => {
                (settings.others, settings.n_random_first) = (OthersUse::Nothing, 1);
            }
            Self::WarmStart => {
                (settings.others, settings.n_best_first) = (OthersUse::BestPoints, 10);
            }
            _ => {}
        }
        let is_placebo = self == Self::Placebo;
        Ok(Box::new(SharedPriorAgent::new(domain, settings, is_placebo, map, seed)?))
    }

    /// Creates an agent that weights models, with the party's own model and search from `settings`.
    fn ensemble(
        self,
        domain: Domain,
        settings: SharedPriorSettings,
        map: Arc<FeatureMap>,
        seed: Seed,
    ) -> anyhow::Result<AnyAgent> {
        let (dim, rank, terms) = (domain.dim(), settings.rank, settings.terms());
        let ensemble = settings.own.into();
        if self == Self::Rgpe {
            let standard = RgpeSettings::for_study(dim, false);
            let settings = RgpeSettings { ensemble, unranked: Unranked::Random, ..standard };
            let rgpe = Rgpe::with_models(domain, Vec::new(), settings, seed)?;
            let party = MessageEnsemble::new(rgpe, map, rank, terms)?;
            return Ok(Box::new(MessageAgent::of(party, false)));
        }
        let settings = TafSettings { ensemble, ..TafSettings::for_study(dim, false) };
        let taf = Taf::with_models(domain, Vec::new(), settings, seed)?;
        let party = MessageEnsemble::new(taf, map, rank, terms)?;
        Ok(Box::new(MessageAgent::of(party, false)))
    }

    /// Returns the arm whose agents send the messages for this arm's agent.
    fn sender(self) -> Option<Self> {
        match self {
            Self::SharedPrior | Self::Rgpe | Self::Taf | Self::WarmStart => Some(Self::SharedPrior),
            Self::Fts | Self::Placebo => Some(self),
            Self::LogEi | Self::LogEiFromOne | Self::Ts | Self::Rival(_) | Self::Consensus => None,
        }
    }
}

/// Creates a party that receives no further messages.
fn alone<S>(strategy: S, domain: Domain, map: &Arc<FeatureMap>) -> AnyAgent
where
    S: Strategy + 'static,
{
    Box::new(Alone::<S, Broadcast>::new(strategy, domain, Arc::clone(map), map.n_features()))
}

/// The messages of a family's parties in one repetition, by the sender's arm, outlook and party.
type Messages = BTreeMap<(&'static str, &'static str, usize), AgentUpdate>;

/// State of a family's parties in one repetition.
struct Known {
    /// The shared features.
    map: Arc<FeatureMap>,
    messages: Messages,
    /// Each party's model of its true observations.
    models: Vec<Posterior>,
}

pub(super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    run_arms("shared-prior", &Arm::WITHOUT_RIVALS, call)
}

/// Runs the rival methods, which cost far more than the shared prior.
pub(super) fn run_rivals(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    run_arms("shared-prior-rivals", &Arm::RIVALS, call)
}

/// Runs the arms on all families. Each task is the newcomer in turn.
fn run_arms(
    name: &'static str,
    arms: &'static [Arm],
    call: Call<'_>,
) -> anyhow::Result<ExperimentResult> {
    let folder = call.data_folder()?;
    let families = families::all(folder)?;
    let runs = call.runs();
    let seed = call.seed();
    let prepared = everything_known(call, &families, known)?;
    let columns = columns_of(families.iter().map(|family| family.tasks[0].space()));
    let writer = call.writer(&columns)?;
    let mut jobs = Vec::new();
    for (index, family) in families.iter().enumerate() {
        // Misleading others are of interest only in comparison with a party alone.
        let has_alone = arms.contains(&Arm::LogEi);
        let outlooks = family.outlooks.iter().filter(|each| has_alone || **each == Outlook::Honest);
        for outlook in outlooks {
            for arm in arms.iter().copied().filter(|arm| outlook.has(*arm)) {
                for run in 0..runs {
                    for task in 0..family.tasks.len() {
                        let unit =
                            RowLabels::new(family.configuration(*outlook), arm.name(), "", run);
                        let (prepared, seed) = (&prepared, unit_seed(seed, index, run));
                        // This code runs only if nothing was stopped, so all of `prepared` is
                        // present.
                        let job = Job::session(unit, move || {
                            session(family, *outlook, arm, task, &prepared[&(index, run)], seed)
                        });
                        jobs.push(job.in_columns(&columns));
                    }
                }
            }
        }
    }
    let primary = primary(arms);
    check_primary(&primary, &jobs, &CHECKPOINTS)?;
    let (rows, ended) = call.play(name, &jobs, writer)?;
    let request = SummaryRequest {
        checkpoints: CHECKPOINTS.to_vec(),
        primary,
        clusters: Clusters::Agents,
        figure: Some(figure("A party joins others that have made 50 random evaluations each")),
        ..call.summary_request(name, families[0].tasks[0].direction(), Metric::Best)
    };
    let pairs_of = |_: &str| {
        let controls = arms.iter().filter(|arm| **arm != Arm::SharedPrior);
        controls.map(|each| (Arm::SharedPrior.name().into(), each.name().into())).collect()
    };
    call.conclude(&rows, ended, request, pairs_of)
}

/// Calls `known` for each repetition of each family. Returns its results by family and run.
fn everything_known<T: Send>(
    call: Call<'_>,
    families: &[Family],
    known: impl Fn(&Family, Seed) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<BTreeMap<(usize, u32), T>> {
    let units: Vec<(usize, u32)> = (0..families.len())
        .flat_map(|family| (0..call.runs()).map(move |run| (family, run)))
        .collect();
    let found = call.prepare(
        "the others' messages",
        &units,
        |&(family, run)| format!("{} run {run}", families[family].name),
        |&(family, run)| known(&families[family], unit_seed(call.seed(), family, run)).map(Some),
    )?;
    Ok(units.into_iter().zip(found).filter_map(|(unit, found)| Some((unit, found?))).collect())
}

fn figure(title: &str) -> FigureSpec {
    FigureSpec {
        title: title.into(),
        x_label: "queries".into(),
        y_label: "best value, mean over parties".into(),
        panel_by: PanelBy::Experiment,
        mean_over_agents: true,
        ..FigureSpec::default()
    }
}

/// Returns the primary comparisons of an experiment with these arms.
fn primary(arms: &[Arm]) -> Vec<PrimaryComparison> {
    let mut found = Vec::new();
    for (family, controls, checkpoints) in PRIMARY {
        for control in controls.iter().filter(|control| arms.contains(control)) {
            found.extend(checkpoints.iter().map(|iteration| PrimaryComparison {
                experiment: family.to_owned(),
                arm: Arm::SharedPrior.name().to_owned(),
                control: control.name().to_owned(),
                iteration: *iteration,
            }));
        }
    }
    found
}

fn unit_seed(seed: Seed, family: usize, run: u32) -> Seed {
    seed.child(Purpose::RUN, u64::from(run)).child(Purpose::AGENT, family as u64)
}

/// Creates the shared features.
fn feature_map(dim: usize, n_features: usize, seed: Seed) -> anyhow::Result<Arc<FeatureMap>> {
    #[expect(clippy::cast_precision_loss, reason = "dimensions are far below 2^53")]
    let median = 0.3 * (dim as f64).sqrt();
    let description = FeatureDescription::quasi_random(
        n_features,
        dim,
        LengthscaleLaw::LogNormal { median, spread: 0.5 },
    );
    let map = FeatureMap::draw(&description, &mut seed.stream(Purpose::SHARED_FEATURES, 0, 0))?;
    Ok(Arc::new(map))
}

/// Computes the shared features, and all messages and models, each from [`N_PAST`] uniformly random
/// points.
fn known(family: &Family, seed: Seed) -> anyhow::Result<Known> {
    let map = feature_map(family.tasks[0].space().dim(), N_FEATURES, seed)?;
    let (mut messages, mut models) = (Messages::new(), Vec::new());
    for (party, problem) in family.tasks.iter().enumerate() {
        let past = past(problem.as_ref(), seed.child(Purpose::HISTORY, party as u64))?;
        let own_seed = seed.child(Purpose::AGENT, party as u64);
        let settings = LogEiSettings::for_agent(problem.space(), false).surrogate;
        let mut model = Surrogate::new(problem.space().dim(), settings, None, own_seed)?;
        model.tell(&past)?;
        models.push(model.posterior().clone());
        for outlook in &family.outlooks {
            let told: Vec<Observation> =
                past.iter().map(|observation| outlook.told(party, observation)).collect();
            for arm in [Arm::SharedPrior, Arm::Fts, Arm::Placebo] {
                let message = message(arm, problem.as_ref(), party, told.clone(), &map, seed)?;
                messages.insert((arm.name(), outlook.name(), party), message);
            }
        }
    }
    Ok(Known { map, messages, models })
}

/// Returns the message that an arm's agent sends after the observations in `history`.
fn message(
    arm: Arm,
    problem: &dyn Problem,
    party: usize,
    history: Vec<Observation>,
    map: &Arc<FeatureMap>,
    seed: Seed,
) -> anyhow::Result<AgentUpdate> {
    let agent = arm.agent(problem, map, &[], seed.child(Purpose::AGENT, party as u64))?;
    let id = u32::try_from(party)?;
    message_of(agent, AgentPlan { id, history, initial: Vec::new(), n_rounds: 0 }, &seed)
}

/// Returns evaluations at uniformly random points, with signs such that larger is better.
fn past(problem: &dyn Problem, seed: Seed) -> anyhow::Result<Vec<Observation>> {
    let domain = Domain::Space(problem.space().clone());
    let mut stream = seed.stream(Purpose::INITIAL_DESIGN, 0, 0);
    let observation = |trial: usize| {
        let unit = domain.random(&mut stream);
        let point = problem.space().decode(&unit);
        let id = TrialId { agent: 0, trial: trial as u64 };
        let value = match problem.evaluate(&point, id) {
            Outcome::Value(value) => Some(problem.direction().to_maximize(value)),
            _ => None,
        };
        Ok(Observation::new(unit, value, Source::Initial))
    };
    (0..N_PAST).map(observation).collect()
}

fn session(
    family: &Family,
    outlook: Outlook,
    arm: Arm,
    task: usize,
    Known { map, messages, models }: &Known,
    seed: Seed,
) -> anyhow::Result<Session> {
    let problem = &family.tasks[task];
    let own_seed = seed.child(Purpose::AGENT, task as u64);
    let others: Vec<&Posterior> =
        models.iter().enumerate().filter(|(other, _)| *other != task).map(|each| each.1).collect();
    let agent = arm.agent(problem.as_ref(), map, &others, own_seed)?;
    let contributions: Vec<AgentUpdate> = match arm.sender() {
        None => Vec::new(),
        Some(sender) => {
            let others = (0..family.tasks.len()).filter(|other| *other != task);
            others.map(|other| messages[&(sender.name(), outlook.name(), other)].clone()).collect()
        }
    };
    let message_len = match arm {
        Arm::Fts | Arm::Ts | Arm::Rival(_) => N_FEATURES,
        _ => messages[&(Arm::SharedPrior.name(), outlook.name(), 0)].weights.len(),
    };
    let member = member(family, task, agent, N_ROUNDS, seed)?;
    Ok(session_of(vec![member], contributions, message_len, map))
}

/// Returns a party with this number of queries, and its name.
fn member(
    family: &Family,
    task: usize,
    agent: AnyAgent,
    n_rounds: u64,
    seed: Seed,
) -> anyhow::Result<(String, Member<AnyAgent>)> {
    let problem = &family.tasks[task];
    let id = u32::try_from(task)?;
    let plan = AgentPlan { id, history: Vec::new(), initial: Vec::new(), n_rounds };
    let member = Member {
        agent: Agent::new(agent, plan, seed)?,
        evaluation: Evaluation::of(Arc::clone(problem)),
    };
    Ok((format!("{} {task}", family.party), member))
}

/// Creates a session of optimizing parties, with the messages of contributors and their length.
fn session_of(
    members: Vec<(String, Member<AnyAgent>)>,
    contributions: Vec<AgentUpdate>,
    message_len: usize,
    map: &FeatureMap,
) -> Session {
    Session {
        members,
        others: Vec::new(),
        contributions,
        message_len,
        map: map.hash(),
        n_initial: 0,
        optimum: None,
        truth: None,
        name_of: |id| format!("party {id}"),
    }
}
