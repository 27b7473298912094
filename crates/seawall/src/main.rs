//! The seawall binary.
fn main() {}
