//! DP-FTS-DE section 5.2 and appendix B.2: 29 landmine fields tune their support vector machines together.

mod arms;
mod costs;
mod notes;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use fedbo_federated::dp_fts_de::DpFtsDe;
use fedbo_gp::{Family, FeatureDescription, FeatureMap};
use fedbo_protocol::{Agent, AgentPlan};
use fedbo_report::{
    ArmRef, FigureSpec, Metric, PanelBy, Row, Scale, SummaryRequest, TradeoffPanel, TradeoffPoint,
    TradeoffSeries, TradeoffSpec,
};
use fedbo_research_problems::{LandmineSvm, Problem, read_fields};
use fedbo_space::Direction;
use fedbo_strategies::{Domain, ThompsonSettings};
use fedbo_streams::{Purpose, Seed};

use self::arms::{Arm, arms, pairs_of, panel};
use self::costs::{Cost, DELTA};
use super::jobs::{Job, JobResult};
use super::population::PopulationMean;
use super::{Call, ExperimentResult};
use fedbo_runner::{Evaluation, Member, RowLabels};

/// N, the number of fields. Each field is an agent.
const N_AGENTS: usize = fedbo_research_problems::N_FIELDS;
const N_INITIAL: usize = 10;
/// T, the number of queries after the initial points.
const N_ROUNDS: u64 = 60;
const DIM: usize = 2;

/// Data shared by all sessions.
struct Setup {
    svms: Vec<Arc<LandmineSvm>>,
    n_rounds: u64,
}

impl Setup {
    fn read(folder: &Path) -> anyhow::Result<Self> {
        let fields = read_fields(folder)?;
        let svm = |field| LandmineSvm::new(&fields, field).map(Arc::new);
        Ok(Self { svms: (0..N_AGENTS).map(svm).collect::<Result<_, _>>()?, n_rounds: N_ROUNDS })
    }
}

/// The share of signal in the agents' final beliefs about the others, by [`Arm::key`], with one
/// value per run.
type SharesOfSignal = BTreeMap<String, Vec<f64>>;

pub(super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let folder = call.data_folder()?;
    let runs = call.runs();
    let setup = Setup::read(folder)?;
    let arms = arms()?;
    let writer = call.writer(&[])?;
    let seed = call.seed();
    let shares = Mutex::new(SharesOfSignal::new());
    let mut jobs = Vec::new();
    for arm in &arms {
        for run in 0..runs {
            let (setup, shares) = (&setup, &shares);
            let unit = RowLabels::new(arm.panels[0], arm.name.clone(), "mean over fields", run);
            jobs.push(Job::new(unit, move |unit, stop| {
                let seed = seed.child(Purpose::RUN, u64::from(run));
                session(setup, arm, unit, &seed, shares, stop)
            }));
        }
    }
    let (rows, ended) = call.play("dp-landmine", &jobs, writer)?;
    drop(jobs);
    let figure = FigureSpec {
        title: "SVM on 29 landmine fields; simulated noise".into(),
        x_label: "queries of each field".into(),
        y_label: "best validation AUC, mean over fields".into(),
        panel_by: PanelBy::Experiment,
        ..FigureSpec::default()
    };
    let request = SummaryRequest {
        checkpoints: vec![5, 10, 20, 40],
        private: Some(false),
        figure: Some(figure),
        ..call.summary_request("dp-landmine", Direction::Maximize, Metric::Best)
    };
    let pairs = |panel: &str| pairs_of(&arms, panel);
    let mut concluded = call.conclude(&rows, ended, request, pairs)?;
    concluded.summary.add_tradeoff(tradeoff(&arms)?, &call.options.out)?;
    let shares = shares.into_inner().unwrap_or_else(PoisonError::into_inner);
    let notes = notes::notes(folder, &arms, &concluded.summary, &shares)?;
    Ok(ExperimentResult { notes, ..concluded })
}

/// Runs one session. Returns its rows once for each panel that shows the arm.
fn session(
    setup: &Setup,
    arm: &Arm,
    unit: &RowLabels,
    seed: &Seed,
    shares: &Mutex<SharesOfSignal>,
    stop: &AtomicBool,
) -> JobResult {
    let approach = &arm.approach;
    let description = FeatureDescription {
        n_features: approach.n_features,
        dim: DIM,
        family: Family::SquaredExponential,
        lengthscale: arm.setting.lengthscales(),
        sampling: approach.sampling,
    };
    let n_features = approach.n_features as u64;
    let mut stream = seed.stream(Purpose::SHARED_FEATURES, n_features, 0);
    let map = Arc::new(FeatureMap::draw(&description, &mut stream)?);
    let own = arm.setting.own()?;
    let mut members = Vec::with_capacity(setup.svms.len());
    for id in (0_u32..).take(setup.svms.len()) {
        members.push(member(setup, arm, id, own.clone(), &map, seed)?);
    }
    let mut mean = PopulationMean::new(unit.clone(), N_INITIAL, None);
    let ended = approach.run(&mut members, &map, seed, &mut mean, stop)?;
    let share = members[0].agent.strategy().signal_share();
    let mut known = shares.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(arm.key()).or_default().push(share);
    drop(known);
    let rows = mean.into_rows();
    let of_panel = |panel: &&str| {
        let experiment = (*panel).to_owned();
        rows.iter().map(move |row| Row { experiment: experiment.clone(), ..row.clone() })
    };
    Ok((arm.panels.iter().flat_map(of_panel).collect(), ended))
}

/// Creates an agent for a field. Its initial points are the same in every arm, relative to the
/// region in which it starts.
fn member(
    setup: &Setup,
    arm: &Arm,
    id: u32,
    own: ThompsonSettings,
    map: &Arc<FeatureMap>,
    seed: &Seed,
) -> anyhow::Result<Member<DpFtsDe>> {
    let svm = Arc::clone(&setup.svms[id as usize]);
    let space = svm.space().clone();
    let strategy = arm.approach.strategy(
        Domain::Space(space.clone()),
        own,
        Arc::clone(map),
        setup.svms.len(),
        seed.child(Purpose::AGENT, u64::from(id)),
    )?;
    let start = arm.approach.start_partition(DIM)?;
    let region = id as usize % start.n_regions();
    let mut stream = seed.stream(Purpose::INITIAL_DESIGN, u64::from(id), 0);
    let initial = (0..N_INITIAL).map(|_| {
        let within: Vec<f64> = (0..DIM).map(|_| stream.uniform()).collect();
        space.snap(&start.place(region, &within))
    });
    let plan =
        AgentPlan { id, history: Vec::new(), initial: initial.collect(), n_rounds: setup.n_rounds };
    Ok(Member { agent: Agent::new(strategy, plan, *seed)?, evaluation: Evaluation::of(svm) })
}

/// Returns Fig. 3a with our results, and the same figure for our setting. The costs are those that
/// the schedules would have with secure noise; the runs themselves are simulations.
fn tradeoff(arms: &[Arm]) -> anyhow::Result<TradeoffSpec> {
    let series = |panel: &'static str, name: &str, cost: &dyn Fn(&Arm) -> Cost| {
        let mut points = Vec::new();
        for arm in arms.iter().filter(|arm| arm.series == Some(panel)) {
            if let Some(cost) = cost(arm)? {
                points.push(TradeoffPoint {
                    arm: ArmRef::new(panel, &arm.name),
                    label: arm.label.clone(),
                    cost,
                });
            }
        }
        let name = name.to_owned();
        anyhow::Ok(TradeoffSeries { name, points })
    };
    let levels = |panel: &'static str| -> Vec<ArmRef> {
        let shown = arms.iter().filter(|arm| arm.panels.contains(&panel));
        let levels = shown.filter(|arm| arm.series.is_none());
        levels.map(|arm| ArmRef::new(panel, &arm.name)).collect()
    };
    let moments = |arm: &Arm| costs::by_moments(&arm.approach, N_AGENTS);
    let pld = |arm: &Arm| costs::by_pld(&arm.approach, N_AGENTS, DELTA);
    Ok(TradeoffSpec {
        title: "Utility against the cost of the schedule; simulated noise".into(),
        y_label: "best validation AUC after 60 queries".into(),
        panels: vec![
            TradeoffPanel {
                title: "the paper's setting".into(),
                x_label: "epsilon by moments, delta = 1/29^1.1".into(),
                scale: Scale::Log,
                series: vec![
                    series(panel::NOISE, "z varies, q = 0.35", &moments)?,
                    series(panel::SAMPLING, "q varies, z = 1", &moments)?,
                    series(panel::VARIANTS, "weights not adaptive", &moments)?,
                ],
                levels: levels(panel::NOISE),
            },
            TradeoffPanel {
                title: "our setting".into(),
                x_label: "epsilon by PLD, delta = 1e-5".into(),
                scale: Scale::Log,
                series: vec![series(panel::OURS, "few releases of means", &pld)?],
                levels: levels(panel::OURS),
            },
        ],
    })
}

#[cfg(test)]
mod tests;
