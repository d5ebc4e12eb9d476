//! Search spaces: named parameters, points, and the unit cube that optimizers use.
//!
//! Maps float, integer (both with optional steps, or sets of numbers) and categorical parameters
//! into `[0,1]^d` and back, with conditions and linear rules between them. Checks that a space is
//! valid. This crate does not depend on objectives, surrogates or files. Start at [`Space`].

pub mod cell;
mod checked;
mod condition;
mod direction;
mod given;
mod kind;
mod number_set;
mod parameter;
mod point;
mod rules;
mod space;
mod stepped;
mod tree;

pub use condition::{OneOf, WhenSpec};
pub use direction::Direction;
pub use kind::{Kind, Numbers};
pub use number_set::NumberSet;
pub use parameter::{Parameter, ParameterSpec};
pub use point::{Point, Value};
pub use rules::{MixtureSpec, RuleSpec, Slice};
pub use space::{Space, SpaceError};
pub use stepped::Stepped;
pub use tree::Branch;
