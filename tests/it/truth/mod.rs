//! The truth suite: attempts to make Seawall claim what isn't true, one file for each class of lie.
//!
//! Each test makes a lie possible (an object of another database, a damaged base, a vault that goes away), and looks at
//! what the real binary says. Where something can be restored, its content is compared with a recorded state: an exit
//! code alone proves nothing.

mod clocks;
mod damaged;
mod mixed;
mod overwritten;
mod sources;
mod watched;
