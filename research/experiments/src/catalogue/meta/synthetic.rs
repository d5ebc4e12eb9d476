//! Thesis section 7.6.1, Fig. 7.1 and D.2: functions drawn from a GP, with meta-tasks at known
//! distances.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fedbo_gp::{Family, Hyperparameters, JointSampler, Kernel, Prior};
use fedbo_optim::{MultiStart, Points};
use fedbo_report::{FigureSpec, Metric, PanelBy, SummaryRequest, TaskWeightRow, task_weight_table};
use fedbo_research_problems::GridPrior;
use fedbo_space::Direction;
use fedbo_strategies::meta::{
    GapBound, InitialDesign, MetaBeliefSettings, MetaSample, MetaShare, MetaTask, OutputScale,
    RmGpTs, RmGpTsSettings, RmGpUcb, RmGpUcbSettings, TaskModels, TaskWeighting,
};
use fedbo_strategies::{
    Domain, GpUcb, GpUcbSettings, HyperparameterPolicy, Maximizer, OwnQuery, OwnSampler, Repeats,
    SampleSearch, Strategy, SurrogateSettings, ThompsonSampling, ThompsonSettings, UcbMultiplier,
};
use fedbo_streams::{Purpose, Seed};

use super::super::grid::{GridObjective, grid_decoder, grid_index};
use super::super::jobs::Job;
use super::super::{Call, ExperimentResult};
use super::{OneParty, TaskWeightBook};
use fedbo_runner::RowLabels;

/// Length scale of the functions, and number of grid points (thesis D.2.1, which does not state the
/// resolution of its domain).
const LENGTHSCALE: f64 = 0.05;
const N_GRID: usize = 1000;
/// Noise variance of all observations.
const NOISE_VARIANCE: f64 = 0.01;
/// N_i, the number of observations per meta-task.
const N_META_OBS: usize = 20;
/// Number of initial points, which the thesis does not state, and of queries after them.
const N_INITIAL: usize = 2;
const N_QUERIES: u64 = 30;
/// The first iteration at which arms are compared.
const CHECKPOINT: i64 = 15;

/// The strategy of an arm.
enum Rule {
    GpUcb,
    Ts,
    RmGpUcb(MetaBeliefSettings),
    RmGpTs(MetaSample),
    /// RM-GP-UCB with meta-outputs shuffled among the inputs of their task, so that no information
    /// about the function remains.
    Placebo,
}

/// One curve.
struct Arm {
    name: String,
    rule: Rule,
}

/// One panel of the figure.
struct Panel {
    name: &'static str,
    gaps: [f64; 4],
    ucb_multiplier: UcbMultiplier,
    arms: Vec<Arm>,
}

/// Returns the settings of the thesis' text: η N^{3/2} = `rate`, the mean of the gaps, and uniform
/// weights at the first query.
fn belief(rate: f64, decay: f64, gap_exponent: f64) -> MetaBeliefSettings {
    MetaBeliefSettings {
        gap_bound: GapBound::practical(),
        weighting: TaskWeighting::Online { rate },
        meta_share: MetaShare { decay, gap_exponent },
        initial_design: InitialDesign::Ignored,
    }
}

const LEARNED: &str = "rm-gp-ucb";
const UNIFORM: &str = "rm-gp-ucb uniform";

fn panels() -> Vec<Panel> {
    let arm = |name: &str, rule| Arm { name: name.to_owned(), rule };
    let uniform = MetaBeliefSettings { weighting: TaskWeighting::Uniform, ..belief(1.0, 0.7, 0.7) };
    let rates = [0.01, 0.1, 10.0]
        .map(|rate| arm(&format!("eta {rate}"), Rule::RmGpUcb(belief(rate, 0.7, 0.7))));
    let exponents = [0.0, 0.3, 0.7, 1.5].map(|exponent| {
        arm(&format!("eps {exponent}"), Rule::RmGpUcb(belief(1.0, 0.99, exponent)))
    });
    let similar = [0.05, 0.05, 4.0, 4.0];
    let compared = || {
        vec![
            arm("gp-ucb", Rule::GpUcb),
            arm(UNIFORM, Rule::RmGpUcb(uniform.clone())),
            arm(LEARNED, Rule::RmGpUcb(belief(1.0, 0.7, 0.7))),
            arm("placebo", Rule::Placebo),
        ]
    };
    let sampling = [
        arm("ts", Rule::Ts),
        arm("rm-gp-ts", Rule::RmGpTs(MetaSample::OneTask)),
        arm("rm-gp-ts sum", Rule::RmGpTs(MetaSample::WeightedSum)),
    ];
    vec![
        Panel {
            name: "gaps 0.05 0.05 4 4",
            gaps: similar,
            ucb_multiplier: UcbMultiplier::Logarithmic,
            arms: compared().into_iter().chain(sampling).collect(),
        },
        Panel {
            name: "gaps 0.05 0.05 4 4, beta 2",
            gaps: similar,
            ucb_multiplier: UcbMultiplier::Constant(2.0),
            arms: compared(),
        },
        Panel {
            name: "gaps 0.05 0.05 4 4, eta",
            gaps: similar,
            ucb_multiplier: UcbMultiplier::Logarithmic,
            arms: std::iter::once(arm("eta 1", Rule::RmGpUcb(belief(1.0, 0.7, 0.7))))
                .chain(rates)
                .collect(),
        },
        Panel {
            name: "all gaps 8",
            gaps: [8.0; 4],
            ucb_multiplier: UcbMultiplier::Logarithmic,
            arms: std::iter::once(arm("gp-ucb", Rule::GpUcb)).chain(exponents).collect(),
        },
    ]
}

/// Returns the pairs (arm, control) of a panel.
fn pairs_of(panel: &Panel) -> Vec<(String, String)> {
    let pair = |arm: &str, control: &str| (arm.to_owned(), control.to_owned());
    let mut pairs = Vec::new();
    for arm in &panel.arms {
        match arm.rule {
            Rule::RmGpUcb(_) if panel.name.ends_with("eta") => {
                if arm.name != "eta 1" {
                    pairs.push(pair("eta 1", &arm.name));
                }
            }
            Rule::RmGpUcb(_) => pairs.push(pair(&arm.name, "gp-ucb")),
            Rule::RmGpTs(_) => pairs.push(pair(&arm.name, "ts")),
            Rule::Placebo => {
                pairs.push(pair(LEARNED, UNIFORM));
                pairs.push(pair(LEARNED, "placebo"));
            }
            Rule::GpUcb | Rule::Ts => {}
        }
    }
    pairs
}

pub(in super::super) fn run(call: Call<'_>) -> anyhow::Result<ExperimentResult> {
    let runs = call.runs();
    let writer = call.writer(&["x".to_owned()])?;
    let seed = call.seed();
    let prior = GridPrior::new(N_GRID, LENGTHSCALE);
    let grid = Points::from_flat(1, prior.grid().to_vec());
    let sampler = Arc::new(JointSampler::new(kernel()?, grid)?);
    let (panels, book) = (panels(), TaskWeightBook::default());
    let mut jobs = Vec::new();
    for panel in &panels {
        for run in 0..runs {
            for arm in &panel.arms {
                let unit = RowLabels::new(panel.name, arm.name.clone(), "target", run);
                let (prior, book, job) = (&prior, &book, jobs.len());
                let domain = Domain::Factored(Arc::clone(&sampler));
                let seed = seed.child(Purpose::RUN, u64::from(run));
                jobs.push(Job::new(unit, move |unit, stop| {
                    let problem = Problem::draw(prior, panel.gaps, &seed);
                    let beta = panel.ucb_multiplier;
                    let mut strategy = strategy(&arm.rule, beta, domain.clone(), &problem, seed)?;
                    let (course, ended) = problem.run(unit, strategy.as_mut(), seed, stop)?;
                    book.put(job, course.weights);
                    Ok((course.rows, ended))
                }));
            }
        }
    }
    let (rows, ended) = call.play("meta-synthetic", &jobs, writer)?;
    drop(jobs);
    let request = SummaryRequest {
        checkpoints: vec![5, CHECKPOINT],
        figure: Some(FigureSpec {
            title: "Functions drawn from a GP, four meta-tasks of 20 observations".into(),
            x_label: "queries".into(),
            y_label: "simple regret".into(),
            panel_by: PanelBy::Experiment,
            shared_y: true,
            ..FigureSpec::default()
        }),
        ..call.summary_request("meta-synthetic", Direction::Maximize, Metric::Regret)
    };
    let pairs = |name: &str| {
        let panel = panels.iter().find(|panel| panel.name == name);
        panel.map(pairs_of).unwrap_or_default()
    };
    let concluded = call.conclude(&rows, ended, request, pairs)?;
    let title = "Weights of the meta-tasks, and the share of all of them";
    let weights = book.write(&call.options.out, title)?;
    let is_shown = |row: &&TaskWeightRow| row.arm == LEARNED || row.arm.starts_with("e");
    let shown: Vec<TaskWeightRow> = weights.iter().filter(is_shown).cloned().collect();
    let notes = vec![
        format!(
            "Mean weights at some queries\n\n{}",
            task_weight_table(&shown, &[1, 2, 3, 5, 10, 15])
        ),
        dissimilar_note(&weights),
        "Results reported in the thesis (Fig. 7.1): uniform weights beat GP-UCB and learned ones beat both; the weights of the \
         two dissimilar tasks fall rapidly; a much smaller eta is worse, a larger one slightly so; with all gaps at 8, RM-GP-UCB \
         is comparable with GP-UCB, and a larger epsilon is slightly better."
            .to_owned(),
    ];
    Ok(ExperimentResult { notes, ..concluded })
}

/// Returns a note on the number of runs in which both dissimilar tasks are below 0.05, query by
/// query.
fn dissimilar_note(weights: &[TaskWeightRow]) -> String {
    let mut worst: BTreeMap<(u32, i64), f64> = BTreeMap::new();
    for row in weights {
        let is_dissimilar = row.task.ends_with("gap 4");
        if row.arm == LEARNED && is_dissimilar {
            let entry = worst.entry((row.run, row.iteration)).or_default();
            *entry = entry.max(row.weight);
        }
    }
    let mut note = "Runs in which the weight of each dissimilar task is below 0.05:".to_owned();
    for iteration in [2, 3, 4, 5, 6, 8, 10] {
        let at: Vec<f64> =
            worst.iter().filter(|((_, t), _)| *t == iteration).map(|(_, weight)| *weight).collect();
        let n = at.iter().filter(|weight| **weight < 0.05).count();
        let _ = write!(note, " {n} of {} at query {iteration};", at.len());
    }
    note.pop();
    note
}

/// The target's function, its meta-tasks and its initial design, which are the same in all arms of
/// a run.
struct Problem {
    values: Vec<f64>,
    tasks: Vec<MetaTask>,
    initial: Vec<Vec<f64>>,
}

impl Problem {
    /// Draws f from the prior. Each meta-task has uniformly random inputs,
    /// f_i(x) = f(x) + U[−d_i, d_i] with a new draw for each input, and noise (thesis D.2.1.1).
    fn draw(prior: &GridPrior, gaps: [f64; 4], seed: &Seed) -> Self {
        let values = prior.draw(&mut seed.stream(Purpose::PROBLEM, 0, 0));
        let tasks = (1..).zip(gaps).map(|(number, gap)| {
            let mut stream = seed.stream(Purpose::HISTORY, number, 0);
            let mut task = MetaTask {
                name: format!("task {number}, gap {gap}"),
                inputs: Points::new(1),
                outputs: Vec::new(),
            };
            for _ in 0..N_META_OBS {
                let index = stream.below(N_GRID);
                let shift = gap * (2.0 * stream.uniform() - 1.0);
                task.inputs.push(&[prior.grid()[index]]);
                let noise = NOISE_VARIANCE.sqrt() * stream.normal();
                task.outputs.push(values[index] + shift + noise);
            }
            task
        });
        let mut stream = seed.stream(Purpose::INITIAL_DESIGN, 0, 0);
        let initial = (0..N_INITIAL).map(|_| vec![prior.grid()[stream.below(N_GRID)]]);
        Self { tasks: tasks.collect(), initial: initial.collect(), values }
    }

    fn run(
        &self,
        unit: &RowLabels,
        strategy: &mut dyn Strategy,
        seed: Seed,
        stop: &AtomicBool,
    ) -> anyhow::Result<(super::RunTrace, fedbo_runner::Ended)> {
        let objective =
            GridObjective { values: self.values.clone(), noise_std: NOISE_VARIANCE.sqrt(), seed };
        let optimum = self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let party = OneParty {
            unit,
            objective: &objective,
            decoder: &grid_decoder(),
            direction: Direction::Maximize,
            initial: &self.initial,
            n_queries: N_QUERIES,
            optimum: Some(optimum),
            truth: &|point| Some(self.values[grid_index(point)?]),
            dim: 1,
            seed,
        };
        party.run(strategy, stop)
    }
}

fn kernel() -> anyhow::Result<Kernel> {
    Ok(Kernel::isotropic(Family::SquaredExponential, 1, LENGTHSCALE, 1.0)?)
}

/// Returns the true kernel and noise, with raw outputs: f and the meta-functions are draws of one
/// GP (thesis section 7.2).
fn surrogate() -> anyhow::Result<SurrogateSettings> {
    Ok(SurrogateSettings {
        hyperparameters: HyperparameterPolicy::Fixed(Hyperparameters {
            kernel: kernel()?,
            noise_variance: NOISE_VARIANCE,
        }),
        standardize: false,
        sampler: OwnSampler::Exact(Prior::default()),
    })
}

fn strategy(
    rule: &Rule,
    ucb_multiplier: UcbMultiplier,
    domain: Domain,
    problem: &Problem,
    seed: Seed,
) -> anyhow::Result<Box<dyn Strategy>> {
    let surrogate = surrogate()?;
    let maximizer = Maximizer::MultiStart(MultiStart::for_dim(1)); // unused: a finite domain is scanned
    let robust = |belief: &MetaBeliefSettings, tasks: &[MetaTask]| {
        let settings = RmGpUcbSettings {
            surrogate: surrogate.clone(),
            scale: OutputScale::Raw,
            maximizer: maximizer.clone(),
            ucb_multiplier,
            meta_ucb_multiplier: 1.0,
            belief: belief.clone(),
            repeats: Repeats::Allow,
        };
        RmGpUcb::new(domain.clone(), tasks, settings, seed)
    };
    let thompson = ThompsonSettings {
        surrogate: surrogate.clone(),
        maximizer: maximizer.clone(),
        ucb_multiplier: UcbMultiplier::Constant(1.0),
        repeats: Repeats::Allow,
        search: SampleSearch::Global,
        own_query: OwnQuery::Sample,
    };
    Ok(match rule {
        Rule::GpUcb => {
            let settings =
                GpUcbSettings { surrogate, maximizer, ucb_multiplier, repeats: Repeats::Allow };
            Box::new(GpUcb::new(domain, settings, seed)?)
        }
        Rule::Ts => Box::new(ThompsonSampling::new(domain, thompson, seed)?),
        Rule::RmGpUcb(belief) => Box::new(robust(belief, &problem.tasks)?),
        Rule::Placebo => {
            let tasks = placebo_tasks(&problem.tasks, &seed);
            Box::new(robust(&belief(1.0, 0.7, 0.7), &tasks)?)
        }
        Rule::RmGpTs(meta_sample) => {
            let models = TaskModels::fit(&problem.tasks, OutputScale::Raw, &surrogate, seed)?;
            let settings = RmGpTsSettings {
                thompson,
                scale: OutputScale::Raw,
                belief: belief(1.0, 0.7, 0.7),
                gap_ucb_multiplier: ucb_multiplier,
                meta_sample: *meta_sample,
            };
            Box::new(RmGpTs::with_models(domain, Arc::new(models), settings, seed)?)
        }
    })
}

/// Returns the same inputs and outputs, with each task's outputs shuffled among its inputs.
pub(super) fn placebo_tasks(tasks: &[MetaTask], seed: &Seed) -> Vec<MetaTask> {
    let dealt = (0..).zip(tasks).map(|(number, task)| {
        let mut stream = seed.stream(fedbo_protocol::PLACEBO, number, 0);
        let mut outputs = task.outputs.clone();
        for last in (1..outputs.len()).rev() {
            outputs.swap(last, stream.below(last + 1));
        }
        MetaTask { outputs, ..task.clone() }
    });
    dealt.collect()
}
