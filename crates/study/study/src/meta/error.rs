//! Errors of studies that learn from old studies.

use fedbo_strategies::StrategySpec;

/// Error returned if a study cannot learn from old studies.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MetaError {
    /// An old study cannot be read.
    #[error("[meta] studies: {source_text:?} cannot be read: {message}")]
    Unreadable {
        /// The old study, as written in the file.
        source_text: String,
        /// The reason.
        message: String,
    },
    /// A CSV file is not a table of trials.
    #[error("[meta] studies: {source_text:?}{}: {message}", line.map_or_else(String::new, |line| format!(", line {line}")))]
    Csv {
        /// The old study, as written in the file.
        source_text: String,
        /// Line number, counted from 1, if the problem is on one line.
        line: Option<u64>,
        /// The problem and its remedy.
        message: String,
    },
    /// The study lists itself as an old study.
    #[error(
        "[meta] studies: {source_text:?} is this study itself, which already uses its own trials; remove it"
    )]
    Itself {
        /// The old study, as written in the file.
        source_text: String,
    },
    /// The same old study is listed twice.
    #[error("[meta] studies: {source_text:?} is named twice; remove one of them")]
    Twice {
        /// The old study, as written in the file.
        source_text: String,
    },
    /// An old study has the opposite direction.
    #[error(
        "[meta] studies: {source_text:?} is set to {theirs}, this study is set to {ours}; leave it out, or export \
         it with fedbo export, change the sign of its values and name the CSV"
    )]
    Direction {
        /// The old study, as written in the file.
        source_text: String,
        /// The old study's direction.
        theirs: String,
        /// The new study's direction.
        ours: String,
    },
    /// An old study has a different space.
    #[error(
        "[meta] studies: {source_text:?} has a different space: {}; to learn from their common part, add mismatch = \
         \"shared\" to [meta]",
        differences.join("; ")
    )]
    Space {
        /// The old study, as written in the file.
        source_text: String,
        /// One entry per parameter that differs.
        differences: Vec<String>,
    },
    /// An old study and the new one have no parameter in common.
    #[error("[meta] studies: {source_text:?} has no parameter of this study; remove it")]
    NothingShared {
        /// The old study, as written in the file.
        source_text: String,
    },
    /// An old study has no usable trial.
    #[error("[meta] studies: {source_text:?} has no trial to learn from: {why}; remove it")]
    NoTrial {
        /// The old study, as written in the file.
        source_text: String,
        /// The skipped trials, with reasons.
        why: String,
    },
    /// A value of `[meta.values]` is invalid.
    #[error("[meta.values] {name}: {message}")]
    Value {
        /// Name of the parameter.
        name: String,
        /// The problem and its remedy.
        message: String,
    },
    /// The strategy learns from old studies, but none are given.
    #[error(
        "strategy {strategy:?} learns from old studies, but none are given; name some with [meta] studies = [..], or choose \
         another strategy, for instance \"log-ei\""
    )]
    NoStudies {
        /// Name of the strategy.
        strategy: &'static str,
    },
    /// Old studies are given, but the strategy does not learn from them.
    #[error(
        "strategy {strategy:?} does not learn from old studies; choose {}, add warm_start = 3 to [meta], which tries their best points \
         first, or remove [meta]",
        StrategySpec::names("or", StrategySpec::requires_old_studies)
    )]
    NoMetaStrategy {
        /// Name of the strategy.
        strategy: &'static str,
    },
    /// A trial from an old study is outside the new space.
    #[error("old study {name:?}, trial {index}: {message}")]
    Trial {
        /// Name of the old study.
        name: String,
        /// Index of the trial, from 0.
        index: usize,
        /// The problem.
        message: String,
    },
}
