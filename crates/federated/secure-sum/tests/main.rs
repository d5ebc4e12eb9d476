//! Integration tests of secure sums.

mod audit;
mod seals;
mod sums;
