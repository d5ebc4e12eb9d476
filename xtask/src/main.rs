//! The project's longer tasks.
fn main() {}
