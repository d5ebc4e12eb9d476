//! The results of a run: `results.csv`, `summary.json`, the pictures `curves` and `tradeoff`, and the closing table.
//!
//! Decides how results are written, summarised and drawn. Knows nothing of algorithms: it sees rows only.
//! Start at [`Row`] and [`ResultsWriter`], then [`summarize`], [`Figure`], [`Tradeoff`] and [`closing_table`]. The pictures of a study of
//! one party stand apart, in [`study`]; that of a graph of agents is a [`GraphPicture`].

mod chart;
mod curves;
mod early_stopping;
mod error;
mod figure;
mod folder;
mod game;
mod graph;
mod metric;
mod row;
mod student;
pub mod study;
mod summary;
mod table;
mod task_weights;
mod team_regret;
mod trace;
mod tradeoff;

pub use chart::Scale;
pub use curves::{Curve, CurvePoint, curves};
pub use early_stopping::{
    CurveEnd, DecisionRegionsPicture, FINALS_FILES, FinalPoint, FinalsPicture,
    LEARNING_CURVES_FILES, LearningCurveLine, LearningCurvesPicture, Region, RegionEpoch,
    decision_regions_files,
};
pub use error::ReportError;
pub use figure::{Figure, FigureSpec, Panel, PanelBy, Reference};
pub use folder::{FolderLock, write_whole};
pub use game::{GAME_ACTION_FILES, GAME_PAYOFF_FILES, GamePicture, ParameterCourse, PlayerCourse};
pub use graph::{GRAPH_FILES, GraphAgent, GraphPicture};
pub use metric::Metric;

pub use row::{RESULTS_FILE, ResultsWriter, Row, check_folder, read_results};
pub use student::{Interval, LEVEL};
pub use summary::{
    ArmSummary, AtIteration, Clusters, Difference, Estimate, PrivacySpent, SUMMARY_FILE,
    SUMMARY_SCHEMA_VERSION, Summary, SummaryRequest, Verdict, summarize, summarize_configurations,
};
pub use table::{closing_table, closing_table_markdown};
pub use task_weights::{TASK_WEIGHT_FILES, TaskWeightRow, task_weight_table, write_task_weights};
pub use team_regret::{TEAM_REGRET_FILE, TeamRegret, TeamRun, write_team_regret};
pub use tradeoff::{
    ArmRef, TRADEOFF_FILES, Tradeoff, TradeoffPanel, TradeoffPoint, TradeoffSeries, TradeoffSpec,
};
