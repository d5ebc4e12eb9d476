//! Error classes, and masking of passwords in addresses in error messages.
//!
//! Each error type that ends a command implements [`Classified`] next to its definition. Programs
//! map the class to an exit code without knowing the variants. Game errors have a separate exit
//! code and therefore no class.

mod masked;

use std::error::Error;

pub use masked::masked;

/// The kind of remedy that an error needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// An input cannot be used: an option, a file, a setting or a stored study. The user must
    /// correct it.
    Input,
    /// Results cannot be stored, because of missing permissions, a full disk or moved storage.
    Output,
    /// A privacy budget does not cover the operation.
    BudgetSpent,
    /// Every trial failed, or too many failed in a row.
    NoTrial,
    /// Another party cannot be reached, rejects the request, or cannot be trusted.
    Remote,
    /// A bug, or a system fault that no input explains.
    Internal,
}

/// An error with a class.
pub trait Classified: Error + 'static {
    /// Returns the class of this error. A wrapper usually returns the class of the wrapped error.
    fn class(&self) -> Class;
}

/// Returns the class of `error` if it is an `E`. Programs try each error type that they expect.
#[must_use]
pub fn class_of<E: Classified>(error: &(dyn Error + 'static)) -> Option<Class> {
    error.downcast_ref::<E>().map(E::class)
}
