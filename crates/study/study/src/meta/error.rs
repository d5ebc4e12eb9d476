//! The reasons why a study cannot learn from old ones.

use fedbo_strategies::StrategySpec;

/// The reason why a study cannot learn from old ones.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MetaError {
    /// An old study cannot be read.
    #[error("[meta] studies: {source_text:?} cannot be read: {message}")]
    Unreadable {
        /// The old study, as the file names it.
        source_text: String,
        /// The reason.
        message: String,
    },
    /// A CSV is not one of trials.
    #[error("[meta] studies: {source_text:?}{}: {message}", line.map_or_else(String::new, |line| format!(", line {line}")))]
    Csv {
        /// The old study, as the file names it.
        source_text: String,
        /// Line from 1, where it is one line's fault.
        line: Option<u64>,
        /// The problem, and the way out.
        message: String,
    },
    /// A study is to learn from itself.
    #[error(
        "[meta] studies: {source_text:?} is this study itself, which knows its own trials; remove it"
    )]
    Itself {
        /// The old study, as the file names it.
        source_text: String,
    },
    /// The same old study is named twice.
    #[error("[meta] studies: {source_text:?} is named twice; remove one of them")]
    Twice {
        /// The old study, as the file names it.
        source_text: String,
    },
    /// An old study has the other direction.
    #[error(
        "[meta] studies: {source_text:?} is to {theirs}, this study is to {ours}; leave it out, or export it with \
         fedbo export, change the sign of its values and name the CSV"
    )]
    Direction {
        /// The old study, as the file names it.
        source_text: String,
        /// Its direction.
        theirs: String,
        /// This study's.
        ours: String,
    },
    /// An old study has another space.
    #[error(
        "[meta] studies: {source_text:?} has another space: {}; to learn from what both have, add mismatch = \"shared\" to \
         [meta]",
        differences.join("; ")
    )]
    Space {
        /// The old study, as the file names it.
        source_text: String,
        /// One entry for each parameter that differs.
        differences: Vec<String>,
    },
    /// An old study and this one have no parameter in common.
    #[error("[meta] studies: {source_text:?} has no parameter of this study; remove it")]
    NothingShared {
        /// The old study, as the file names it.
        source_text: String,
    },
    /// An old study has no trial that can be used.
    #[error("[meta] studies: {source_text:?} has no trial to learn from: {why}; remove it")]
    NoTrial {
        /// The old study, as the file names it.
        source_text: String,
        /// The trials that were left out, and the reasons.
        why: String,
    },
    /// A value of `[meta.values]` means nothing.
    #[error("[meta.values] {name}: {message}")]
    Value {
        /// The parameter.
        name: String,
        /// The problem, and the way out.
        message: String,
    },
    /// The strategy learns from old studies, and there are none.
    #[error(
        "strategy {strategy:?} learns from old studies, and there are none; name some with [meta] studies = [..], or choose \
         another strategy, for instance \"log-ei\""
    )]
    NoStudies {
        /// The strategy.
        strategy: &'static str,
    },
    /// There are old studies, and the strategy does not learn from any.
    #[error(
        "strategy {strategy:?} does not learn from old studies; choose {}, add warm_start = 3 to [meta], which tries their best points \
         first, or remove [meta]",
        StrategySpec::names("or", StrategySpec::requires_old_studies)
    )]
    NoMetaStrategy {
        /// The strategy.
        strategy: &'static str,
    },
    /// A trial of an old study is not one of the new space.
    #[error("old study {name:?}, trial {index}: {message}")]
    Trial {
        /// The old study.
        name: String,
        /// The trial's place, from 0.
        index: usize,
        /// The problem.
        message: String,
    },
}
