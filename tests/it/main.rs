//! The end-to-end tests, one module a scenario. What a test needs beside `seawall` is in its name: `litestream`, `s3`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

mod agent_folders;
mod agent_services;
mod agent_socket;
mod big;
mod cli_demo;
mod cli_errors;
mod cli_exec;
mod cli_json;
mod cli_ltx;
mod cli_maintain;
mod cli_once;
mod cli_restore;
mod cli_stop;
mod corruption;
mod drop_in;
mod faults;
mod follow;
mod golden;
mod harness;
mod levels_beside_litestream;
mod litestream_restores_what_we_wrote;
mod litestream_yml_is_used_as_it_is;
mod lmdb;
mod lmdb_in_configuration;
mod local_disk;
mod ltx_tool_and_ours;
mod ltx_tool_by_command;
mod postgres;
mod replicas_before_0_5;
mod restore_all;
mod shapes;
mod soak;
mod taking_over_from_litestream_and_back;
mod two_writers;
mod we_restore_what_litestream_wrote;
