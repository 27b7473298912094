//! The files of a cluster and its log, as they are: `receive` takes the log into a vault and gives it back.

pub mod receive;
