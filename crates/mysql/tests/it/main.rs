//! The engine against real servers.
