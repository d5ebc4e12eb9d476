//! The results of a run: `results.csv`, `summary.json`, pictures, and the closing table.
//!
//! This crate writes, summarises and draws results. It does not depend on algorithms: its input is
//! rows and trials as plain data. Start at [`Row`] and [`ResultsWriter`], then [`summarize`],
//! [`Figure`], [`Tradeoff`] and [`closing_table`]. The pictures of a single party's study are in
//! [`study`]; the picture of a graph of agents is a [`GraphPicture`].
//!
//! # Pictures
//!
//! A picture is a pure function from rows, trials or rounds to a chart. Each chart goes through the
//! same three steps:
//!
//! 1. Chart (`chart/mod.rs`) defines the content as plain data: panels in rows and columns, a
//!    legend and captions. A panel has two axes (linear, logarithmic, categories), a strip for
//!    entries without a position on them, marks in axis units (lines, bands, points, cells and
//!    bars, error bars, text), rules, and names beside points.
//! 2. Layout (`chart/layout.rs`) computes positions: tick labels that fit, shortened names, a
//!    legend in lines, and names that avoid covering data. Its result is a list of shapes in units
//!    of length.
//! 3. The renderer (`chart/render.rs`) converts the shapes to an SVG and a PNG with plotters.
//!
//! All pictures share these modules: `axis` (ranges and ticks), `values` (an axis that resolves the
//! better values and excludes outliers), `style` (colours for colour-blind readers, and shapes and
//! dashes that work without colour), `text` (widths and shortened names), `labels` (positions of
//! names). A new picture is a data type with a function to a chart, and does not compute any
//! positions. For every picture that they draw, the tests check that text does not overlap and that
//! nothing leaves the canvas.

mod chart;
mod curves;
mod early_stopping;
mod error;
mod figure;
mod folder;
mod game;
mod graph;
mod metric;
mod ranking;
mod row;
mod staged;
mod student;
pub mod study;
mod summary;
mod table;
mod task_weights;
mod team_regret;
mod trace;
mod tradeoff;

pub use chart::text::{BOLD_FONT, FONT};
pub use chart::{Picture, Scale};
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
pub use metric::{LOG_REGRET_FLOOR, Metric};

pub use ranking::{
    MeanRanks, Quantiles, Ranking, RankingRequest, Signs, TaskGroup, quantile, sign_test,
};
pub use row::{
    RESULTS_FILE, ResultsTail, ResultsWriter, Row, check_folder, read_results, remove_reports,
};
pub use staged::StagedResults;
pub use student::{Interval, LEVEL, holm};
pub use summary::{
    ArmSummary, AtIteration, Clusters, Difference, Estimate, PrimaryComparison, PrivacySpent,
    SUMMARY_FILE, SUMMARY_SCHEMA_VERSION, Summary, SummaryRequest, Verdict, summarize,
    summarize_configurations,
};
pub use table::{closing_table, p_value_text};
pub use task_weights::{TASK_WEIGHT_FILES, TaskWeightRow, task_weight_table, write_task_weights};
pub use team_regret::{TEAM_REGRET_FILE, TeamRegret, TeamRun, write_team_regret};
pub use tradeoff::{
    ArmRef, TRADEOFF_FILES, Tradeoff, TradeoffPanel, TradeoffPoint, TradeoffSeries, TradeoffSpec,
};
