//! FTS section 5.1 and Fig. 1: functions drawn from a GP on a grid. Agents differ by d_n and have
//! t_n observations.

use std::sync::Arc;

use fedbo_federated::fts::{AgentSampling, Fts, FtsSettings};
use fedbo_gp::{
    Family, FeatureDescription, FeatureMap, Hyperparameters, Kernel, LengthscaleLaw, Prior,
};
use fedbo_optim::{MultiStart, Points};
use fedbo_protocol::{Agent, AgentPlan, AgentUpdate};
use fedbo_research_problems::{GridFamily, GridPrior, LENGTHSCALE, N_GRID, NOISE_VARIANCE};
use fedbo_space::Direction;
use fedbo_strategies::{
    Domain, HyperparameterPolicy, LocalProb, Maximizer, MessageContent, MessageNoise,
    MessageSettings, Observation, OwnQuery, OwnSampler, Repeats, SampleSearch, Source,
    SurrogateSettings, ThompsonSettings, UcbMultiplier,
};
use fedbo_streams::{Purpose, Seed};

use super::grid::{GridObjective, grid_evaluation, grid_index};
use super::jobs::{AnyAgent, Job, Session, contribute};
use super::{Call, ExperimentResult};
use fedbo_report::{FigureSpec, Metric, PanelBy, SummaryRequest};
use fedbo_runner::Member;
use fedbo_runner::RowLabels;

/// N, the number of other agents (FTS section 5.1: 50 in total; here the target is an additional
/// agent, as N + 1 in the problem setting).
const N_AGENTS: usize = 50;
/// Number of the target agent's queries after its one initial input.
const N_ROUNDS: u64 = 50;
/// d_n of similar agents, and of dissimilar ones.
const SMALL_GAP: f64 = 0.02;
const LARGE_GAP: f64 = 1.2;

/// One curve of the figure.
struct Arm {
    name: &'static str,
    n_features: usize,
    local_prob: LocalProb,
    content: MessageContent,
}

/// One panel of the figure.
struct Panel {
    name: &'static str,
    gap: f64,
    n_obs: usize,
    arms: Vec<Arm>,
}

fn panels() -> Vec<Panel> {
    let ts = || Arm {
        name: "ts",
        n_features: 25,
        local_prob: LocalProb::Constant(1.0),
        content: MessageContent::Posterior,
    };
    let fts = |name, n_features, local_prob| Arm {
        name,
        n_features,
        local_prob,
        content: MessageContent::Posterior,
    };
    let placebo = |name, local_prob| Arm {
        name,
        n_features: 100,
        local_prob,
        content: MessageContent::Placebo,
    };
    let slow = || LocalProb::InverseSqrt;
    let by_features = || {
        vec![
            ts(),
            fts("fts M=25", 25, slow()),
            fts("fts M=50", 50, slow()),
            fts("fts M=100", 100, slow()),
            placebo("placebo", slow()),
        ]
    };
    vec![
        Panel { name: "d=0.02 t_n=40", gap: SMALL_GAP, n_obs: 40, arms: by_features() },
        Panel { name: "d=0.02 t_n=100", gap: SMALL_GAP, n_obs: 100, arms: by_features() },
        Panel {
            name: "d=1.2 t_n=100",
            gap: LARGE_GAP,
            n_obs: 100,
            arms: vec![
                ts(),
                fts("fts slow p_t", 100, slow()),
                fts("fts fast p_t", 100, LocalProb::InverseSquare),
                placebo("placebo slow p_t", slow()),
                placebo("placebo fast p_t", LocalProb::InverseSquare),
            ],
        },
    ]
}

pub(super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let runs = call.runs();
    let writer = call.writer(&["x".to_owned()])?;
    let seed = call.seed();
    let prior = GridPrior::paper();
    let panels = panels();
    let mut jobs = Vec::new();
    for panel in &panels {
        for run in 0..runs {
            for arm in &panel.arms {
                let prior = &prior;
                let unit = RowLabels::new(panel.name, arm.name, "target", run);
                jobs.push(Job::session(unit, move || {
                    session(prior, panel, arm, seed.child(Purpose::RUN, u64::from(run)))
                }));
            }
        }
    }
    let (rows, ended) = call.play("fts-synthetic", &jobs, writer)?;

    let figure = FigureSpec {
        title: "Functions drawn from a GP on 1000 points, 50 other agents".into(),
        x_label: "queries".into(),
        y_label: "simple regret".into(),
        panel_by: PanelBy::Experiment,
        shared_y: true,
        ..FigureSpec::default()
    };
    let request = SummaryRequest {
        checkpoints: vec![5, 10, 20],
        figure: Some(figure),
        ..call.summary_request("fts-synthetic", Direction::Maximize, Metric::Regret)
    };
    let pairs_of = |configuration: &str| {
        let panel = panels.iter().find(|panel| panel.name == configuration);
        let mut pairs = Vec::new();
        for arm in panel.iter().flat_map(|panel| &panel.arms) {
            if arm.content == MessageContent::Posterior && arm.name != "ts" {
                pairs.push((arm.name.to_owned(), "ts".to_owned()));
                let placebo = arm.name.replace("fts", "placebo");
                let exists =
                    panel.is_some_and(|panel| panel.arms.iter().any(|other| other.name == placebo));
                pairs.push((
                    arm.name.to_owned(),
                    if exists { placebo } else { "placebo".to_owned() },
                ));
            }
        }
        pairs
    };
    let concluded = call.conclude(&rows, ended, request, pairs_of)?;
    let notes = vec![
        "Results reported in the paper (FTS Fig. 1): with d_n = 0.02 FTS beats TS; M matters little for t_n = 40 and clearly for \
         t_n = 100; with d_n = 1.2 FTS is comparable, and a fast p_t matches TS."
            .to_owned(),
    ];
    Ok(ExperimentResult { notes, ..concluded })
}

/// Runs the target's session. All arms of a run have the same function, initial input, agents'
/// observations and noise.
fn session(prior: &GridPrior, panel: &Panel, arm: &Arm, seed: Seed) -> anyhow::Result<Session> {
    let family = GridFamily::draw(prior, &seed, N_AGENTS, panel.gap);
    let grid = Arc::new(Points::from_flat(1, family.grid.clone()));
    let description =
        FeatureDescription::random(arm.n_features, 1, LengthscaleLaw::Fixed(LENGTHSCALE));
    let n_features = arm.n_features as u64;
    let map = Arc::new(FeatureMap::draw(
        &description,
        &mut seed.stream(Purpose::SHARED_FEATURES, n_features, 0),
    )?);
    let settings = settings(arm)?;
    let mut contributions: Vec<AgentUpdate> = Vec::new();
    if arm.name != "ts" {
        for agent in 0..N_AGENTS {
            let id = u32::try_from(agent + 1)?;
            let mut stream = seed.stream(Purpose::HISTORY, u64::from(id), 0);
            let seen = family.observations(agent, panel.n_obs, NOISE_VARIANCE, &mut stream);
            let history = seen
                .inputs
                .iter()
                .zip(&seen.y)
                .map(|(x, y)| Observation::new(vec![*x], Some(*y), Source::Initial));
            let plan =
                AgentPlan { id, history: history.collect(), initial: Vec::new(), n_rounds: 0 };
            contributions.push(contribute(&map, &settings, plan, &seed)?);
        }
    }
    let first = seed.stream(Purpose::INITIAL_DESIGN, 0, 0).below(N_GRID);
    let plan = AgentPlan {
        id: 0,
        history: Vec::new(),
        initial: vec![vec![family.grid[first]]],
        n_rounds: N_ROUNDS,
    };
    let fts = Fts::new(Domain::Finite(grid), settings, Arc::clone(&map), seed)?;
    let objective = GridObjective { values: family.target, noise_std: NOISE_VARIANCE.sqrt(), seed };
    let values = objective.values.clone();
    let optimum = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let member = Member {
        agent: Agent::new(Box::new(fts) as AnyAgent, plan, seed)?,
        evaluation: grid_evaluation(objective),
    };
    Ok(Session {
        members: vec![("target".into(), member)],
        others: Vec::new(),
        contributions,
        message_len: arm.n_features,
        map: map.hash(),
        n_initial: 1,
        optimum: Some(optimum),
        truth: Some(Box::new(move |point| Some(values[grid_index(point)?]))),
        name_of: |id| id.to_string(),
    })
}

/// Returns the paper's model: SE with the true length scale, signal variance 1, true noise
/// variance, raw outputs, β_t = 1.
fn settings(arm: &Arm) -> anyhow::Result<FtsSettings> {
    let kernel = Kernel::isotropic(Family::SquaredExponential, 1, LENGTHSCALE, 1.0)?;
    Ok(FtsSettings {
        own: ThompsonSettings {
            surrogate: SurrogateSettings {
                hyperparameters: HyperparameterPolicy::Fixed(Hyperparameters {
                    kernel,
                    noise_variance: NOISE_VARIANCE,
                }),
                standardize: false,
                sampler: OwnSampler::Exact(Prior::default()),
            },
            maximizer: Maximizer::MultiStart(MultiStart::for_dim(1)), // unused: a finite domain is scanned
            ucb_multiplier: UcbMultiplier::Constant(1.0),
            repeats: Repeats::Allow,
            search: SampleSearch::Global,
            own_query: OwnQuery::Sample,
        },
        local_prob: arm.local_prob.clone(),
        agent_sampling: AgentSampling::Uniform,
        message: MessageSettings {
            content: arm.content,
            noise_variance: MessageNoise::Given(NOISE_VARIANCE),
            standardize: false,
        },
    })
}
