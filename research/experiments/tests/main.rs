//! Integration tests of experiments.

mod attacks;
mod catalogue;
mod games;
