//! One set of dependency features for all builds of this workspace. Contains no code.
//!
//! Cargo resolves the features of a dependency separately for each set of packages to build. If the
//! results differ, it recompiles the dependency and all its dependents. Development tools
//! (criterion, trycmd, proptest, pyo3) enable features that the program does not need, so tests,
//! program, benchmarks and the Python package would each compile the same dependencies.
//!
//! The manifest of this crate enables these features. Crates that are built separately depend on
//! it; library crates do not. A test in `xtask` compares the feature sets.
