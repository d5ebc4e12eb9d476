//! The `fedbo` program in a temporary folder: commands on files, studies and games.

mod bad_input;
mod common;
mod conditions;
mod corrections;
mod durability;
mod early_stopping;
mod early_stopping_bo_bos;
mod federation_spaces;
mod given_values;
mod neighbours;
mod old_studies;
mod outcomes;
mod parameter_forms;
mod parameter_sets;
#[cfg(feature = "games")]
mod play;
mod privacy;
mod privacy_ledger;
mod repeated_runs;
mod running;
mod safeguards;
mod studies;
mod study_input;
mod study_postgres;
mod terminal;
mod topology;
mod training;
