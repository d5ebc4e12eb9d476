//! Old studies that a new one learns from: where they are read, how their trials fit the new space, what is kept of them.
//!
//! Decides which old trials count and where they lie in the new space. How much each old study is trusted is decided by
//! `fedbo_strategies::meta`. What was read is stored with the new study, which never reads it again: start at [`MetaSpec`],
//! then [`MetaFile`].

mod error;
mod fit;
mod old_study;
mod source;
mod spec;
mod table;
mod trust;

pub use error::MetaError;
pub use old_study::{LeftOut, OldStudy};
pub use source::OldSource;
pub use spec::{MetaScale, MetaSettings, MetaSpec, Mismatch};
pub use table::MetaFile;
pub(crate) use table::MetaTable;
pub(crate) use trust::Units;
pub use trust::{OldStudyTrust, TransferStep};
