//! Integration tests of studies.

mod batches;
mod corrections;
mod early_stopping;
mod early_stopping_bo_bos;
mod given;
mod old_studies;
mod outcomes;
mod penalties;
mod sampler;
mod studies;
