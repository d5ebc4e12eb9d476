//! The declared experiments: a paper's tables and figures, each with its control arms.

mod bos;
mod dp_landmine;
mod dp_synthetic;
mod dts;
mod fts_landmine;
mod fts_synthetic;
mod fts_vs_meta;
mod fts_wine;
mod games;
mod grid;
mod jobs;
mod landmine_fields;
mod markdown;
mod meta;
mod peers;
mod population;
mod shared_prior;
mod single_party;
mod study_run;
mod suite;

pub use self::peers::PeersUnusable;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use fedbo_report::{
    Figure, FolderLock, Metric, ResultsWriter, Row, Summary, SummaryRequest, check_folder,
    summarize, summarize_configurations,
};
use fedbo_research_problems::data_sets::{
    DP_ENDS, DTS_CURVES, FTS_CURVES, FTS_SUMMARY, FTS_TARGETS,
};
use fedbo_runner::Ended;
use fedbo_space::Direction;
use fedbo_streams::Seed;
use rayon::prelude::*;

use self::jobs::{Job, run_jobs};

/// The options of an experiment's run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Number of repetitions; `None` uses the experiment's default.
    pub runs: Option<u32>,
    /// Root seed of all random draws.
    pub seed: u64,
    /// Folder with the data sets of experiments that need one.
    pub data: Option<PathBuf>,
    /// Results folder.
    pub out: PathBuf,
    /// True if existing results can be replaced.
    pub overwrite: bool,
}

impl RunOptions {
    /// Returns options for one repetition without data sets, with results in a new folder.
    pub fn once(seed: u64, out: impl Into<PathBuf>) -> Self {
        Self { runs: Some(1), seed, data: None, out: out.into(), overwrite: false }
    }
}

/// Observer of an experiment's progress.
pub trait Progress: Sync {
    /// Called when a stage with this number of jobs starts.
    fn stage(&self, name: &str, n_jobs: usize);
    /// Called when a job of the stage has ended. `note` describes it.
    fn job_ended(&self, note: &str);
}

/// Ignores all events.
impl Progress for () {
    fn stage(&self, _: &str, _: usize) {}
    fn job_ended(&self, _: &str) {}
}

/// The result of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentResult {
    /// One summary per configuration.
    pub summary: Summary,
    /// The reason why the run ended.
    pub ended: Ended,
    /// Notes on the tables: the paper's figures, and reasons for differences.
    pub notes: Vec<String>,
}

/// A declared experiment.
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// One-line summary of the result and the corresponding figure.
    pub about: &'static str,
    /// Required data sets, by their names in [`fedbo_research_problems::data_sets`].
    pub data_sets: &'static [&'static str],
    /// Files of the data folder with the authors' figures. Without them, the experiment runs and
    /// shows only its own figures.
    pub figures: &'static [&'static str],
    /// Default number of repetitions.
    pub default_runs: u32,
    run: fn(Call<'_>) -> anyhow::Result<ExperimentResult>,
}

impl Experiment {
    const fn new(
        name: &'static str,
        default_runs: u32,
        run: fn(Call<'_>) -> anyhow::Result<ExperimentResult>,
    ) -> Self {
        Self { name, about: "", data_sets: &[], figures: &[], default_runs, run }
    }

    const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    const fn with_data(self, data_sets: &'static [&'static str]) -> Self {
        Self { data_sets, ..self }
    }

    const fn with_figures(self, figures: &'static [&'static str]) -> Self {
        Self { figures, ..self }
    }

    /// Returns true if `--data` is required.
    pub fn needs_data(&self) -> bool {
        !self.data_sets.is_empty()
    }

    /// Runs the experiment on the current rayon pool. It writes `results.csv` as units finish,
    /// followed by `summary.json` and the figures.
    ///
    /// If `stop` is set, incomplete units are dropped and everything else is kept.
    ///
    /// # Errors
    /// If data is missing, the folder cannot be written, or a unit fails.
    pub fn run(
        &self,
        options: &RunOptions,
        progress: &dyn Progress,
        stop: &AtomicBool,
    ) -> anyhow::Result<ExperimentResult> {
        let _held = FolderLock::acquire(&options.out)?;
        check_folder(&options.out, options.overwrite)?;
        let default_runs = self.default_runs;
        (self.run)(Call { options, default_runs, progress, stop })
    }
}

/// A requested run: its options, its progress observer, and the flag that stops it.
#[derive(Clone, Copy)]
struct Call<'a> {
    options: &'a RunOptions,
    default_runs: u32,
    progress: &'a dyn Progress,
    stop: &'a AtomicBool,
}

impl<'a> Call<'a> {
    /// Returns the number of repetitions.
    fn runs(self) -> u32 {
        self.options.runs.unwrap_or(self.default_runs)
    }

    fn seed(self) -> Seed {
        Seed::new(self.options.seed)
    }

    fn data_folder(self) -> anyhow::Result<&'a Path> {
        self.options.data.as_deref().context(
            "the experiment needs the data folder (--data DIR); `fedbo-research data check DIR` lists the experiments for which a folder is sufficient",
        )
    }

    /// Returns a request to summarize an experiment's rows: arms without comparisons, with one
    /// value per unit.
    fn summary_request(self, name: &str, direction: Direction, metric: Metric) -> SummaryRequest {
        SummaryRequest::new(name, self.options.seed, direction, metric)
    }

    /// Computes the jobs' prerequisites in parallel, as a separate stage. `None` marks an item that
    /// was stopped or not started. `note` describes a completed item.
    ///
    /// # Errors
    /// If an item fails.
    fn prepare<I: Sync, T: Send>(
        self,
        stage: &str,
        items: &[I],
        note: impl Fn(&I) -> String + Sync,
        make: impl Fn(&I) -> anyhow::Result<Option<T>> + Sync,
    ) -> anyhow::Result<Vec<Option<T>>> {
        self.progress.stage(stage, items.len());
        let done = items.par_iter().map(|item| {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let made = make(item)?;
            if made.is_some() {
                self.progress.job_ended(&note(item));
            }
            Ok(made)
        });
        // All results are collected before the first error is selected, so the error does not
        // depend on timing.
        done.collect::<Vec<_>>().into_iter().collect()
    }

    /// Creates a results writer with these parameters.
    fn writer(self, parameters: &[String]) -> anyhow::Result<ResultsWriter> {
        Ok(ResultsWriter::create(&self.options.out, parameters, self.options.overwrite)?)
    }

    /// Runs all jobs as a stage. The rows of a job are written once all preceding jobs are done, so
    /// the file has the order of the jobs.
    ///
    /// # Errors
    /// If a job fails or the file cannot be written. Rows that have already been written are kept.
    fn play(
        self,
        stage: &str,
        jobs: &[Job<'_>],
        writer: ResultsWriter,
    ) -> anyhow::Result<(Vec<Row>, Ended)> {
        self.progress.stage(stage, jobs.len());
        run_jobs(jobs, writer, self.progress, self.stop)
    }

    /// Writes the summary and the figures of an experiment's rows. Configurations are summarised
    /// separately, each with its pairs (arm, control) from `pairs_of`.
    ///
    /// # Errors
    /// If a file cannot be written.
    fn conclude(
        self,
        rows: &[Row],
        ended: Ended,
        request: SummaryRequest,
        pairs_of: impl Fn(&str) -> Vec<(String, String)>,
    ) -> anyhow::Result<ExperimentResult> {
        let out = &self.options.out;
        if let Some(figure) = &request.figure {
            Figure::from_rows(rows, request.metric, figure).write(out)?;
        }
        let mut summary = if rows.iter().any(|row| row.experiment != request.experiment) {
            summarize_configurations(rows, &request, pairs_of)
        } else {
            let pairs = pairs_of(&request.experiment);
            summarize(rows, &SummaryRequest { pairs, ..request })
        };
        summary.interrupted = ended == Ended::Interrupted;
        for part in &mut summary.configurations {
            part.interrupted = summary.interrupted;
        }
        summary.write(out)?;
        Ok(ExperimentResult { summary, ended, notes: Vec::new() })
    }
}

/// Returns all experiments.
pub fn catalogue() -> &'static [Experiment] {
    const ALL: &[Experiment] = &[
        Experiment::new("fts-synthetic", 60, fts_synthetic::run)
            .about("FTS Fig. 1: simple regret on functions drawn from a GP, for small and large t_n, M and d_n"),
        Experiment::new("fts-landmine", 20, fts_landmine::run)
            .about("FTS Fig. 2a, 3a and 4a: SVM on landmine fields, in the paper's setting and in a helpful one")
            .with_data(&["landmine", "landmine-fts"])
            .with_figures(&[FTS_SUMMARY]),
        // As in the paper: six targets with five sets of initial points.
        Experiment::new("fts-vs-meta", 5, fts_vs_meta::run)
            .about("FTS Fig. 2a, 3a, 3d, 5: FTS compared with RGPE and TAF on landmine fields, by message length, run time and number of agents")
            .with_data(&["landmine", "landmine-fts"])
            .with_figures(&[FTS_SUMMARY, FTS_CURVES, FTS_TARGETS]),
        Experiment::new("fts-wine", 20, fts_wine::run)
            .about("Eight wine sites tune an SVM together: FTS against TS and placebo"),
        Experiment::new("shared-prior", 20, shared_prior::run)
            .about("The benefit of joining: a party joins others by a shared prior, compared with FTS, RGPE and TAF on messages, log-ei (after three random points, or one) and ts alone, a warm start and a placebo")
            .with_data(&["landmine"]),
        Experiment::new("shared-prior-private", 10, shared_prior::private::run)
            .about("The benefit of joining a private federation: one release by epsilon and number of parties, compared with DP-FTS-DE, its noise alone and log-ei")
            .with_data(&["landmine"]),
        Experiment::new("shared-prior-rivals", 2, shared_prior::run_rivals)
            .about("Other uses of the others' knowledge, compared with the shared prior: all observations pooled, averaged hyperparameters, a barycentre of posteriors, a warm start")
            .with_data(&["landmine"]),
        Experiment::new("shared-prior-axes", 4, shared_prior::axes::run)
            .about("The benefit of joining by number of others, their observations, the share of unrelated ones or another group, or if all begin together, compared with log-ei and a warm start")
            .with_data(&["landmine"]),
        Experiment::new("dp-synthetic", 50, dp_synthetic::run)
            .about("DP-FTS-DE Fig. 2, 4-7, 9, 12: 200 agents on functions drawn from a GP; effects of DE, q, z, S and P, and a small budget"),
        Experiment::new("dp-landmine", 10, dp_landmine::run)
            .about("DP-FTS-DE Fig. 3a, 3d, 11: 29 landmine fields tune their SVMs; effects of q and z, and small budgets")
            .with_data(&["landmine"])
            .with_figures(&[DP_ENDS]),
        Experiment::new("dts-star", 20, dts::star)
            .about("Distributed TS Fig. 1: stars of 1, 3, 5 and 7 agents on Ackley and Rosenbrock, by the text and as in the authors' code")
            .with_figures(&[DTS_CURVES]),
        Experiment::new("dts-connectivity", 20, dts::connectivity)
            .about("Distributed TS: 20 agents on random graphs with edge probability 0.2, 0.4, 0.6")
            .with_figures(&[DTS_CURVES]),
        Experiment::new("dts-topologies", 20, dts::topologies)
            .about("Distributed TS: 12 agents on seven graphs, from edgeless to complete"),
        Experiment::new("meta-synthetic", 200, meta::synthetic::run)
            .about("Thesis Fig. 7.1, D.2: RM-GP-UCB on functions drawn from a GP with four meta-tasks at known distances"),
        Experiment::new("meta-cnn", 30, meta::cnn::run)
            .about("Thesis Fig. 7.2a-b, D.3, D.5: a CNN on four data sets, a replay of the authors' records, the other three as earlier tasks")
            .with_data(&["meta-bo"]),
        // Repetitions: five for each of 29 fields.
        Experiment::new("meta-svm-landmine", 145, meta::svm_landmine::run)
            .about("Thesis Fig. 7.2d on another table: an SVM on each of 29 landmine fields by 88 settings, the 28 others as earlier tasks")
            .with_data(&["landmine-grid"]),
        Experiment::new("meta-growing-data", 40, meta::growing_data::run)
            .about("Thesis Fig. 7.3b, D.5c: a logistic regression tuned again as its data grow, on wines instead of patients"),
        Experiment::new("meta-diabetes", 40, meta::growing_data::run_patients)
            .about("Thesis Fig. 7.3b, D.5c, D.6: the same on the thesis' patients (Pima diabetes)")
            .with_data(&["pima"]),
        Experiment::new("meta-cartpole", 60, meta::cart_pole::run)
            .about("Thesis Fig. 7.3c-d: policy search for cart and pole, with searches from three near and seven random states"),
        Experiment::new("meta-cartpole-large", 10, meta::cart_pole::run_large)
            .about("Thesis Fig. D.7: the same with 60 earlier searches of 130 queries each"),
        Experiment::new("bos-curves", 20, bos::curves::run)
            .about("BO-BOS and its rivals on synthetic learning curves: exponential, crossing, plateau then drop, noisy"),
        Experiment::new("bos-logistic", 20, bos::logistic::run)
            .about("Thesis Fig. 4.1: logistic regression on images, BO-BOS with four schedules of K_1 and its rivals"),
        Experiment::new("bos-features", 10, bos::features::run)
            .about("Thesis Fig. 4.3b: gradient boosting with forward feature selection, stopped early, on images instead of e-mails"),
        Experiment::new("bos-spam", 5, bos::features::run_emails)
            .about("Thesis Fig. 4.3b: the same on the thesis' e-mails (spam)")
            .with_data(&["spam"]),
        Experiment::new("bos-policy", 10, bos::policy::run)
            .about("Thesis Fig. 4.3a, A.5: a swimmer's linear policy, episodes stopped early on discounted returns"),
        Experiment::new("bos-ends", 20, bos::ends::run)
            .about("BO-BOS as in a study: the value that its model is told at the end of a stopped trial"),
        // Ten games, five starts each.
        Experiment::new("games-synthetic", 50, games::synthetic::run)
            .about("Thesis Fig. 8.2, E.1-E.5: R2-B2 in synthetic games, levels against levels, models, level-0 strategies, wrong beliefs, three agents")
            .with_data(&["r2b2-synthetic"]),
        // Ten images, two starts each.
        Experiment::new("games-adversarial", 20, games::adversarial::run)
            .about("Thesis Table 8.1, Fig. 8.3, E.6, E.8, E.10: attack and defence of a digit classifier, levels against levels"),
        // Twice as many as the thesis's ten: in ten games with a different seed, predators gained
        // 0.022 ± 0.011 in 2 v 0 v 1, which is inconclusive.
        Experiment::new("games-predator-prey", 20, games::predator_prey::run)
            .about("Thesis Fig. 8.5: two predators and a prey search for policies, a three-player game with 55 dimensions"),
        Experiment::new("single-party", 10, single_party::run)
            .about("One party alone: ts, gp-ucb and log-ei on test functions and a mixed space, 50 evaluations, compared with random and Sobol search"),
        Experiment::new("suite", 10, suite::run)
            .about("One party alone: log-ei, ts, gp-ucb, sobol and random on 116 functions generated from seeds, 100 trials; ranks, quantiles and sign tests, by half"),
        Experiment::new("suite-choosing", 10, suite::run_choosing)
            .about("Only the half of the suite on which settings are chosen"),
        Experiment::new("suite-high", 1, suite::run_high)
            .about("The same strategies on 24 functions of 20 and 50 parameters, 500 trials"),
        Experiment::new("suite-noisy", 10, suite::run_noisy)
            .about("The suite's noisy functions, with each arm also judged by the trial with the best posterior mean, and log-ei with replicates"),
    ];
    ALL
}

/// Returns the experiment with this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    catalogue().iter().find(|experiment| experiment.name == name)
}
