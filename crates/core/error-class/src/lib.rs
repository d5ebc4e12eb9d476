//! Classes of errors.
//!
//! Each error type that ends a command implements [`Classified`] beside its definition. Programs map
//! the class to an exit code without knowing the variants. Errors of games have an exit code of their
//! own, and so no class.

use std::error::Error;

/// The kind of remedy that an error needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// An input cannot be used: an option, a file, a setting or a stored study. The user corrects it.
    Input,
    /// Results cannot be stored: no permission, disk full, storage moved.
    Output,
    /// A privacy budget does not cover the operation.
    BudgetSpent,
    /// Every trial failed, or too many in a row.
    NoTrial,
    /// Another party cannot be reached, refuses, or is not to be trusted.
    Remote,
    /// A bug, or a fault of the system that no input explains.
    Internal,
}

/// An error with a class.
pub trait Classified: Error + 'static {
    /// Returns the class of this error: usually, for one that wraps another, the class of the other.
    fn class(&self) -> Class;
}

/// Returns the class of `error` if it is an `E`; programs list the types that they expect.
#[must_use]
pub fn class_of<E: Classified>(error: &(dyn Error + 'static)) -> Option<Class> {
    error.downcast_ref::<E>().map(E::class)
}
