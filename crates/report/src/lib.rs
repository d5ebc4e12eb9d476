//! The results of a run: `results.csv`, `summary.json`, pictures, and the closing table.
//!
//! Decides how results are written, summarised and drawn. Knows nothing of algorithms: it sees rows and trials as plain data.
//! Start at [`Row`] and [`ResultsWriter`], then [`summarize`], [`Figure`], [`Tradeoff`] and [`closing_table`]. The pictures of a study of
//! one party stand apart, in [`study`]; that of a graph of agents is a [`GraphPicture`].
//!
//! # Pictures
//!
//! A picture is a pure function from rows, trials or rounds to a chart, and all that is drawn goes through the same three steps:
//!
//! | step | file | decides |
//! | --- | --- | --- |
//! | chart | `chart/mod.rs` | what is shown, as plain data: panels in rows and columns, each with two axes (linear, logarithmic, categories), a strip for what has no place on them, marks in their units (lines, bands, points, cells and bars, error bars, texts), rules and names beside points; a legend; captions |
//! | layout | `chart/layout.rs` | where everything stands: labels of ticks that fit, names that are cut, a legend in lines, names that keep off what they would hide. Its result is a list of shapes in units of length |
//! | renderer | `chart/render.rs` | how shapes become an SVG and a PNG, through plotters |
//!
//! Beside them stand what all pictures share: `axis` (ranges and ticks), `values` (an axis on which the better values can be told
//! apart, without what lies far off), `style` (colours that colour-blind readers can tell apart, shapes and dashes that do
//! without colour), `text` (widths and shortened names), `labels` (places of names). A new picture is a data type with a function to
//! a chart, and measures nothing. Tests check of every picture that they draw that its texts do not overlap and that nothing
//! leaves the canvas.

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
