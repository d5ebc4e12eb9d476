//! Old studies that a new study learns from: their sources, the conversion to the new space, and
//! the stored trials.
//!
//! This module determines the old trials that are used and their points in the new space.
//! `fedbo_strategies::meta` determines the trust in each old study. The trials are stored with the
//! new study, which never reads the old studies again. Start at [`MetaSpec`], then [`MetaFile`].

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
