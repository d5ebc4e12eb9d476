//! One set of dependency features for all builds of this workspace; contains no code.
//!
//! Cargo resolves the features of a dependency for each set of packages to build. If they differ,
//! it recompiles the dependency and all its dependents. Development tools (criterion, trycmd,
//! proptest, pyo3) enable features that the program does not need, so tests, program, benchmarks
//! and the Python package would each compile the same dependencies.
//!
//! The manifest of this crate enables these features. Crates that are built on their own depend on
//! it; library crates do not. A test of `xtask` compares the feature sets.
