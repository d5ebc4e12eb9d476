//! Command output: results, notes, tables, formatting, progress and exit codes.
//!
//! Results are written to standard output, everything else to standard error. Colours are used only
//! on terminals unless `CLICOLOR_FORCE` is set; `NO_COLOR` and `CLICOLOR=0` disable them. This
//! crate defines no commands.

mod bars;
mod exit;
pub mod interrupt;
mod output;
pub mod sparkline;
pub mod table;
pub mod text;

pub use bars::{Mode, SILENCE, TICK, style};
pub use exit::{BadInput, Exit, HELP};
pub use output::{
    BARS, OutputClosed, Panics, collect_panics, data, enable_quiet, is_quiet, note, remark, result,
    stderr_is_coloured, stderr_width, table, width,
};
