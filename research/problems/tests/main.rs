//! Integration tests of problems and data sets.

mod authors_archive;
mod cnn_records;
mod data_sets;
mod landmine;
