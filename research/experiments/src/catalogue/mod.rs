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
mod meta;
mod peers;
mod population;
mod shared_prior;
mod single_party;
mod study_run;
mod suite;

pub use self::peers::PeersUnusable;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use fedbo_problems::data_sets::{DP_ENDS, DTS_CURVES, FTS_CURVES, FTS_SUMMARY, FTS_TARGETS};
use fedbo_report::{FolderLock, Summary};
use fedbo_runner::Ended;

/// The options of an experiment's run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Repetitions; none takes the experiment's own number.
    pub runs: Option<u32>,
    /// Root of all randomness.
    pub seed: u64,
    /// Folder with the data sets of experiments that need one.
    pub data: Option<PathBuf>,
    /// Results folder.
    pub out: PathBuf,
    /// True if results that stand there already may be replaced.
    pub overwrite: bool,
}

impl RunOptions {
    /// The data folder, which an experiment with data sets must be given.
    ///
    /// # Errors
    /// If there is none.
    fn data_folder(&self) -> anyhow::Result<&Path> {
        self.data.as_deref().context(
            "the experiment needs the data folder (--data DIR); `fedbo data check DIR` says which experiments a folder is enough for",
        )
    }
}

/// Hears how far an experiment is.
pub trait Progress: Sync {
    /// A stage with this many jobs begins.
    fn stage(&self, name: &str, n_jobs: usize);
    /// A job of the stage has ended; `note` says which.
    fn job_ended(&self, note: &str);
}

/// The result of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentResult {
    /// One summary a configuration.
    pub summary: Summary,
    /// The way in which it ended.
    pub ended: Ended,
    /// The notes beside the tables: the paper's figures, reasons for differences.
    pub notes: Vec<String>,
}

/// A declared experiment.
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line: what it shows and which figure it belongs to.
    pub about: &'static str,
    /// Data sets that it cannot run without, by their names in [`fedbo_problems::data_sets`].
    pub data_sets: &'static [&'static str],
    /// Files of the data folder with the authors' figures; without them, the experiment runs and shows its own figures only.
    pub figures: &'static [&'static str],
    /// Repetitions unless asked otherwise.
    pub default_runs: u32,
    run: fn(&RunOptions, &dyn Progress, &AtomicBool) -> anyhow::Result<ExperimentResult>,
}

impl Experiment {
    /// Returns true if `--data` is required.
    pub fn needs_data(&self) -> bool {
        !self.data_sets.is_empty()
    }

    /// Runs it on the current rayon pool, writing `results.csv` as units finish, then `summary.json` and the pictures.
    ///
    /// When `stop` is set, units that are not complete are dropped and everything else is kept.
    ///
    /// # Errors
    /// If data are missing, the folder cannot be written, or a unit fails.
    pub fn run(
        &self,
        options: &RunOptions,
        progress: &dyn Progress,
        stop: &AtomicBool,
    ) -> anyhow::Result<ExperimentResult> {
        let _held = FolderLock::acquire(&options.out)?;
        (self.run)(options, progress, stop)
    }
}

/// All experiments.
pub fn catalogue() -> &'static [Experiment] {
    &[
        Experiment {
            name: "fts-synthetic",
            about: "FTS Fig. 1: simple regret on functions drawn from a GP, for small and large t_n, M and d_n",
            data_sets: &[],
            figures: &[],
            default_runs: 60,
            run: fts_synthetic::run,
        },
        Experiment {
            name: "fts-landmine",
            about: "FTS Fig. 2a, 3a and 4a: SVM on landmine fields, in the paper's setting and in one that helps",
            data_sets: &["landmine", "landmine-fts"],
            figures: &[FTS_SUMMARY],
            default_runs: 20,
            run: fts_landmine::run,
        },
        Experiment {
            name: "fts-vs-meta",
            about: "FTS Fig. 2a, 3a, 3d, 5: FTS beside RGPE and TAF on landmine fields, by message length, run time and number of agents",
            data_sets: &["landmine", "landmine-fts"],
            figures: &[FTS_SUMMARY, FTS_CURVES, FTS_TARGETS],
            default_runs: fts_vs_meta::DEFAULT_RUNS,
            run: fts_vs_meta::run,
        },
        Experiment {
            name: "fts-wine",
            about: "Eight wine sites tune an SVM together: FTS against TS and placebo",
            data_sets: &[],
            figures: &[],
            default_runs: 20,
            run: fts_wine::run,
        },
        Experiment {
            name: "shared-prior",
            about: "The worth of joining: a party joins others by a shared prior, beside FTS, RGPE and TAF on messages, log-ei (after three random points, or one) and ts alone, a warm start and a placebo",
            data_sets: &["landmine"],
            figures: &[],
            default_runs: shared_prior::DEFAULT_RUNS,
            run: shared_prior::run,
        },
        Experiment {
            name: "shared-prior-private",
            about: "The worth of joining a private federation: one release by epsilon and number of parties, beside DP-FTS-DE, its noise alone and log-ei",
            data_sets: &["landmine"],
            figures: &[],
            default_runs: shared_prior::private::DEFAULT_RUNS,
            run: shared_prior::private::run,
        },
        Experiment {
            name: "shared-prior-rivals",
            about: "Other uses of what the others know, beside the shared prior: all observations pooled, averaged hyperparameters, a barycentre of posteriors, a warm start",
            data_sets: &["landmine"],
            figures: &[],
            default_runs: shared_prior::DEFAULT_RIVAL_RUNS,
            run: shared_prior::run_rivals,
        },
        Experiment {
            name: "shared-prior-axes",
            about: "The worth of joining by number of others, their observations, the share of unrelated ones or another group, or if all begin together, beside log-ei and a warm start",
            data_sets: &["landmine"],
            figures: &[],
            default_runs: shared_prior::axes::DEFAULT_RUNS,
            run: shared_prior::axes::run,
        },
        Experiment {
            name: "dp-synthetic",
            about: "DP-FTS-DE Fig. 2, 4-7, 9, 12: 200 agents on functions drawn from a GP; what DE, q, z, S and P do, and a small budget",
            data_sets: &[],
            figures: &[],
            default_runs: 50,
            run: dp_synthetic::run,
        },
        Experiment {
            name: "dp-landmine",
            about: "DP-FTS-DE Fig. 3a, 3d, 11: 29 landmine fields tune their SVMs; what q and z do, and small budgets",
            data_sets: &["landmine"],
            figures: &[DP_ENDS],
            default_runs: 10,
            run: dp_landmine::run,
        },
        Experiment {
            name: "dts-star",
            about: "Distributed TS Fig. 1: stars of 1, 3, 5 and 7 agents on Ackley and Rosenbrock, by the text and as in the authors' code",
            data_sets: &[],
            figures: &[DTS_CURVES],
            default_runs: 20,
            run: dts::star,
        },
        Experiment {
            name: "dts-connectivity",
            about: "Distributed TS: 20 agents on random graphs with edge probability 0.2, 0.4, 0.6",
            data_sets: &[],
            figures: &[DTS_CURVES],
            default_runs: 20,
            run: dts::connectivity,
        },
        Experiment {
            name: "dts-topologies",
            about: "Distributed TS: 12 agents on seven graphs, from nobody joined to everybody",
            data_sets: &[],
            figures: &[],
            default_runs: 20,
            run: dts::topologies,
        },
        Experiment {
            name: "meta-synthetic",
            about: "Thesis Fig. 7.1, D.2: RM-GP-UCB on functions drawn from a GP with four meta-tasks at known distances",
            data_sets: &[],
            figures: &[],
            default_runs: 200,
            run: meta::synthetic::run,
        },
        Experiment {
            name: "meta-cnn",
            about: "Thesis Fig. 7.2a-b, D.3, D.5: a CNN on four data sets, a replay of the authors' records, the other three as earlier tasks",
            data_sets: &["meta-bo"],
            figures: &[],
            default_runs: meta::cnn::DEFAULT_RUNS,
            run: meta::cnn::run,
        },
        Experiment {
            name: "meta-svm-landmine",
            about: "Thesis Fig. 7.2d on another table: an SVM on each of 29 landmine fields by 88 settings, the 28 others as earlier tasks",
            data_sets: &["landmine-grid"],
            figures: &[],
            default_runs: meta::svm_landmine::DEFAULT_RUNS,
            run: meta::svm_landmine::run,
        },
        Experiment {
            name: "meta-growing-data",
            about: "Thesis Fig. 7.3b, D.5c: a logistic regression tuned again as its data grow, on wines in place of patients",
            data_sets: &[],
            figures: &[],
            default_runs: meta::growing_data::DEFAULT_RUNS,
            run: meta::growing_data::run,
        },
        Experiment {
            name: "meta-cartpole",
            about: "Thesis Fig. 7.3c-d: policy search for cart and pole, with searches from three near and seven random states",
            data_sets: &[],
            figures: &[],
            default_runs: meta::cart_pole::DEFAULT_RUNS,
            run: meta::cart_pole::run,
        },
        Experiment {
            name: "meta-cartpole-large",
            about: "Thesis Fig. D.7: the same with 60 earlier searches of 130 queries each",
            data_sets: &[],
            figures: &[],
            default_runs: meta::cart_pole::DEFAULT_RUNS_LARGE,
            run: meta::cart_pole::run_large,
        },
        Experiment {
            name: "bos-curves",
            about: "BO-BOS and its rivals on synthetic learning curves: exponential, crossing, plateau then drop, noisy",
            data_sets: &[],
            figures: &[],
            default_runs: bos::curves::DEFAULT_RUNS,
            run: bos::curves::run,
        },
        Experiment {
            name: "bos-logistic",
            about: "Thesis Fig. 4.1: logistic regression on images, BO-BOS with four schedules of K_1 beside its rivals",
            data_sets: &[],
            figures: &[],
            default_runs: bos::logistic::DEFAULT_RUNS,
            run: bos::logistic::run,
        },
        Experiment {
            name: "bos-features",
            about: "Thesis Fig. 4.3b: gradient boosting with forward feature selection, stopped early",
            data_sets: &[],
            figures: &[],
            default_runs: bos::features::DEFAULT_RUNS,
            run: bos::features::run,
        },
        Experiment {
            name: "bos-policy",
            about: "Thesis Fig. 4.3a, A.5: a swimmer's linear policy, episodes stopped early on discounted returns",
            data_sets: &[],
            figures: &[],
            default_runs: bos::policy::DEFAULT_RUNS,
            run: bos::policy::run,
        },
        Experiment {
            name: "bos-ends",
            about: "BO-BOS as a study has it: what its model is told of the end of a stopped trial",
            data_sets: &[],
            figures: &[],
            default_runs: bos::ends::DEFAULT_RUNS,
            run: bos::ends::run,
        },
        Experiment {
            name: "games-synthetic",
            about: "Thesis Fig. 8.2, E.1-E.5: R2-B2 in synthetic games, levels against levels, models, level-0 strategies, wrong beliefs, three agents",
            data_sets: &["r2b2-synthetic"],
            figures: &[],
            default_runs: games::synthetic::DEFAULT_RUNS,
            run: games::synthetic::run,
        },
        Experiment {
            name: "games-adversarial",
            about: "Thesis Table 8.1, Fig. 8.3, E.6, E.8, E.10: attack and defence of a classifier of digits, levels against levels",
            data_sets: &[],
            figures: &[],
            default_runs: games::adversarial::DEFAULT_RUNS,
            run: games::adversarial::run,
        },
        Experiment {
            name: "games-predator-prey",
            about: "Thesis Fig. 8.5: two predators and a prey search for policies, a game of three with 55 dimensions",
            data_sets: &[],
            figures: &[],
            default_runs: games::predator_prey::DEFAULT_RUNS,
            run: games::predator_prey::run,
        },
        Experiment {
            name: "single-party",
            about: "One party alone: ts, gp-ucb and log-ei on test functions and a mixed space, 50 evaluations, beside random and Sobol",
            data_sets: &[],
            figures: &[],
            default_runs: 10,
            run: single_party::run,
        },
        Experiment {
            name: "suite",
            about: "One party alone: log-ei, ts, gp-ucb, sobol and random on 116 functions generated from seeds, 100 trials; ranks, quantiles and sign tests, by half",
            data_sets: &[],
            figures: &[],
            default_runs: suite::DEFAULT_RUNS,
            run: suite::run,
        },
        Experiment {
            name: "suite-choosing",
            about: "The half of the suite on which settings are chosen, alone",
            data_sets: &[],
            figures: &[],
            default_runs: suite::DEFAULT_RUNS,
            run: suite::run_choosing,
        },
        Experiment {
            name: "suite-high",
            about: "The same strategies on 24 functions of 20 and 50 parameters, 500 trials",
            data_sets: &[],
            figures: &[],
            default_runs: suite::DEFAULT_RUNS_HIGH,
            run: suite::run_high,
        },
        Experiment {
            name: "suite-noisy",
            about: "The suite's noisy functions, each arm also by the trial with the best posterior mean, and log-ei with replicates",
            data_sets: &[],
            figures: &[],
            default_runs: suite::DEFAULT_RUNS,
            run: suite::run_noisy,
        },
    ]
}

/// The experiment of this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    catalogue().iter().find(|experiment| experiment.name == name)
}
