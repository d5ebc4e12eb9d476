//! Documents of the product: studies, trials, ledgers, graphs and runs, as shown by commands and
//! pages.
//!
//! The program `fedbo`, the dashboard and the Python package show the same content. Each module
//! creates one document as JSON, as a table or as a picture, or reads the source of a document.
//! This crate defines no commands and no pages.

mod coordinator_studies;
pub mod corrections;
mod error_text;
pub mod exit;
pub mod export;
pub mod file_kind;
pub mod game_results;
mod graph;
pub mod graph_picture;
mod ledger_check;
mod ledger_source;
pub mod old_studies;
pub mod own_point;
pub mod pictures;
pub mod promise;
pub mod space_display;
mod statement;
pub mod study_ref;
pub mod trial_record;

pub use coordinator_studies::{ListedStudy, listed, slot_state};
pub use error_text::error_text;
pub use graph::{CliqueRecord, GraphDocument, GraphSource};
pub use ledger_check::CheckDocument;
pub use ledger_source::LedgerSource;
pub use statement::{StatementDocument, in_plain_words, noise_multiplier};
