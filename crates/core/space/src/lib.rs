//! Search spaces: named parameters, points, and the unit cube that optimizers use.
//!
//! Maps float, integer (either with steps) and categorical parameters into `[0,1]^d` and back, and
//! checks that a space is valid. This crate has no knowledge of objectives, surrogates or files.
//! Start at [`Space`].

pub mod cell;
mod direction;
mod parameter;
mod partition;
mod point;
mod space;
mod stepped;

pub use direction::Direction;
pub use parameter::{Kind, Parameter, ParameterSpec};
pub use partition::{Partition, PartitionError};
pub use point::{Point, Value};
pub use space::{Space, SpaceError};
pub use stepped::Stepped;
