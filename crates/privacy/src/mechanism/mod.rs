//! The subsampled discrete Gaussian mechanism on a lattice.
