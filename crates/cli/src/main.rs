//! The binary `fedbo`.
fn main() {}
