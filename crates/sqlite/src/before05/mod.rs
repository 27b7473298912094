//! Replicas of Litestream before 0.5.

pub(crate) mod generations;
pub(crate) mod legacy;
