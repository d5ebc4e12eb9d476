//! Integration tests for strategies and early stopping.

mod early_stopping_baselines;
mod robust_meta;
mod strategies;
