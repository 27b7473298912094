//! The end-to-end tests, one module a scenario. What a test needs beside `seawall` is in its name: `litestream`, `s3`.
#![expect(clippy::unwrap_used, reason = "these are tests")]

mod golden;
mod harness;
