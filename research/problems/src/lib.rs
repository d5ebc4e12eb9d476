//! Test functions, data sets and models with known properties, on which algorithms are measured.
//!
//! This crate defines each of them, in its own units and sign. It does not depend on surrogates,
//! strategies or federations. Start at [`problem()`], which finds a problem by name. [`GridFamily`]
//! is the synthetic family of the FTS paper, and [`suite()`] and [`suite_high()`] contain functions
//! on which optimizers are compared.

mod auc;
mod boosted_trees;
mod cart_pole;
mod cnn_records;
pub mod data_sets;
mod emails;
mod feature_selection;
mod gp_functions;
mod growing_data;
mod image_attack;
mod image_logistic;
mod labelled_table;
mod landmine;
pub mod landmine_archive;
mod landmine_grid;
mod learning_curves;
mod logistic;
mod mixed;
mod patients;
mod payoff_functions;
mod predator_prey;
mod problem;
mod softmax;
mod suite;
mod svm;
mod swimmer;
mod table;
mod training_problem;
mod wine;
mod wine_trees;

pub use auc::auc;
pub use cart_pole::{CartPole, CartPoleTasks, CartState};
pub use cnn_records::{CNN_DATA_SETS, CnnRecord, CnnRecords, N_CNN_RUNS, read_cnn_records};
pub use emails::read_emails;
pub use feature_selection::FeatureSelection;
pub use fedbo_objective::{Problem, ProblemSpec};
pub use fedbo_problems::digits::N_FORMS;
pub use fedbo_problems::{DigitsPerceptron, Function, TestFunction};
pub use gp_functions::{
    GridFamily, GridObservations, GridPrior, LENGTHSCALE, N_GRID, NOISE_VARIANCE,
};
pub use growing_data::{GROWING_SIZES, GrowingData, LogisticScale, LogisticScore};
pub use image_attack::{AttackOutcome, ImageAttack};
pub use image_logistic::{ImageLogistic, Steps};
pub use landmine::{LandmineField, LandmineSvm, N_FIELDS, read_fields};
pub use landmine_grid::{LandmineGrid, read_landmine_grids};
pub use learning_curves::{CurveFamily, LearningCurves};
pub use logistic::{
    LogisticError, LogisticModel, LogisticSettings, ValidationScore, logistic_curve, train_logistic,
};
pub use mixed::MixedSurface;
pub use patients::read_patients;
pub use payoff_functions::{N_GAMES, N_GRID_ACTIONS, read_payoff_functions};
pub use predator_prey::{PredatorPrey, PredatorPreyOutcome};
pub use problem::{PROBLEM_NAMES, ProblemError, ResearchProblems, problem};
pub use suite::{SuiteEntry, SuiteFamily, SuiteFunction, SuiteHalf, suite, suite_high};
pub use svm::{Labelled, SplitSvm, SvmError};
pub use swimmer::{Swimmer, SwimmerReturn};
pub use table::DataError;
pub use training_problem::TrainingProblem;
pub use wine::{N_SILOS, WineSilo, WineSites, WineSplit, WineSvm};
pub use wine_trees::{N_TREE_SILOS, WineTrees};
