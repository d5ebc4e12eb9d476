//! Eight wine sites tune their own classifiers together: the general setting of FTS, in which every agent optimizes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_algorithms::{
    AgentSampling, Domain, Fts, FtsSettings, LocalProb, MessageContent, MessageSettings,
    ThompsonSettings,
};
use fedbo_gp::{Family, FeatureDescription, FeatureMap, FeatureSampling, LengthscaleLaw};
use fedbo_objective::{Objective, Outcome, TrialId};
use fedbo_problems::{N_SILOS, Problem, WineSites, WineSvm};
use fedbo_protocol::{Agent, AgentPlan};
use fedbo_space::Point;
use fedbo_streams::{Purpose, Seed};

use super::jobs::{Job, Session, conclude, run_jobs};
use super::{Finding, Progress, RunOptions};
use crate::session::Member;
use crate::tally::Unit;
use fedbo_report::{
    Clusters, FigureSpec, Metric, PanelBy, ResultsWriter, Scale, SummaryRequest, check_folder,
};

const N_FEATURES: usize = 100;
const N_INITIAL: usize = 3;
const N_ROUNDS: u64 = 30;

const ARMS: [(&str, bool, MessageContent); 3] = [
    ("fts", true, MessageContent::Posterior),
    ("ts", false, MessageContent::Posterior),
    ("placebo", true, MessageContent::Placebo),
];

pub(super) fn run(
    options: &RunOptions,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> anyhow::Result<Finding> {
    let runs = options.runs.unwrap_or(20);
    check_folder(&options.out, options.overwrite)?;
    let sites = WineSites::new(N_SILOS)?;
    let silos = (0..N_SILOS)
        .map(|silo| WineSvm::new(&sites, silo).map(Arc::new))
        .collect::<Result<Vec<_>, _>>()?;
    let parameters: Vec<String> = silos[0]
        .space()
        .parameters()
        .iter()
        .map(|p| p.name().to_owned())
        .collect();
    let writer = ResultsWriter::create(&options.out, &parameters, options.overwrite)?;
    let seed = Seed::new(options.seed);
    let mut jobs = Vec::new();
    for run in 0..runs {
        for arm in ARMS {
            let silos = &silos;
            let unit = Unit {
                experiment: "fts-wine".into(),
                arm: arm.0.into(),
                agent: String::new(),
                run,
            };
            jobs.push(Job::session(unit, move || {
                session(
                    silos,
                    arm.1,
                    arm.2,
                    seed.child(Purpose::Run, u64::from(run)),
                )
            }));
        }
    }
    progress.stage("fts-wine", jobs.len());
    let (rows, ended) = run_jobs(&jobs, writer, progress, stop)?;
    let figure = FigureSpec {
        title: "Eight wine sites, each tuning (C, gamma) of its own SVM".into(),
        x_label: "queries a site".into(),
        y_label: "best validation AUC".into(),
        scale: Scale::Linear,
        panel_by: PanelBy::Agent,
        shared_y: false,
        references: Vec::new(),
    };
    let request = SummaryRequest {
        experiment: "fts-wine".into(),
        seed: options.seed,
        direction: silos[0].direction(),
        metric: Metric::Best,
        checkpoints: vec![3, 5, 10, 20],
        pairs: Vec::new(),
        clusters: Clusters::Runs,
        private: None,
        privacy: BTreeMap::new(),
        wall_seconds: BTreeMap::new(),
        figure: Some(figure),
    };
    let pairs_of = |_: &str| {
        ["ts", "placebo"]
            .map(|control| ("fts".into(), control.into()))
            .into()
    };
    let summary = conclude(&rows, ended, request, pairs_of, &options.out)?;
    Ok(Finding {
        summary,
        ended,
        notes: Vec::new(),
    })
}

/// One federation of all sites: equal initial points for all arms of a run, standardized outputs, a mixture of length
/// scales in the shared features, learned P_N.
fn session(
    silos: &[Arc<WineSvm>],
    shares: bool,
    content: MessageContent,
    seed: Seed,
) -> anyhow::Result<Session> {
    let space = silos[0].space().clone();
    let dim = space.dim();
    let description = FeatureDescription {
        n_features: N_FEATURES,
        dim,
        family: Family::SquaredExponential,
        lengthscale: LengthscaleLaw::LogNormal {
            median: 0.3,
            spread: 0.5,
        },
        sampling: FeatureSampling::Random,
    };
    let map = Arc::new(FeatureMap::draw(
        &description,
        &mut seed.stream(Purpose::SharedFeatures, 0, 0),
    )?);
    let mut members = Vec::new();
    for (id, silo) in (0_u32..).zip(silos) {
        let settings = FtsSettings {
            own: ThompsonSettings::default_for(dim),
            local_prob: if shares {
                LocalProb::InverseSqrt
            } else {
                LocalProb::Constant(1.0)
            },
            agent_sampling: AgentSampling::Learned { sharpness: 2.0 },
            message: MessageSettings {
                content,
                ..MessageSettings::default()
            },
        };
        let mut stream = seed.stream(Purpose::InitialDesign, u64::from(id), 0);
        let initial = (0..N_INITIAL)
            .map(|_| Domain::Space(space.clone()).random(&mut stream))
            .collect();
        let own_seed = seed.child(Purpose::Agent, u64::from(id));
        let fts = Fts::new(
            Domain::Space(space.clone()),
            settings,
            Arc::clone(&map),
            own_seed,
        )?;
        let plan = AgentPlan {
            id,
            history: Vec::new(),
            initial,
            n_rounds: N_ROUNDS,
        };
        let decoding = space.clone();
        let member = Member {
            agent: Agent::new(fts, plan, seed)?,
            objective: Arc::new(Shared(Arc::clone(silo))),
            decoder: Arc::new(move |unit| decoding.decode(unit)),
            direction: silo.direction(),
        };
        members.push((format!("site {id}"), member));
    }
    Ok(Session {
        members,
        contributions: Vec::new(),
        n_features: N_FEATURES,
        map: map.hash(),
        n_initial: N_INITIAL,
        optimum: None,
        truth: None,
        name_of: |id| format!("site {id}"),
    })
}

/// A problem that several sessions evaluate at once.
struct Shared<P>(Arc<P>);

impl<P: Objective> Objective for Shared<P> {
    fn evaluate(&self, point: &Point, trial: TrialId) -> Outcome {
        self.0.evaluate(point, trial)
    }
}
