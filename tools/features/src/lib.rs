//! One set of features for all builds of this workspace: no code.
//!
//! Cargo chooses a dependency's features anew for each set of packages that is built, and compiles it, and all that depends on it, again
//! where they differ. Development tools of the whole workspace (criterion, trycmd, proptest, pyo3) ask for features that the program by
//! itself does not need, so that tests, program, benchmarks and the Python package would each compile the same dependencies. The manifest
//! of this crate names those features. Crates that are built by themselves depend on it; no crate that others use does.
//! A test of `xtask` compares the sets.
