//! The corpus and the inputs of bugs that were found, once more through every target.
