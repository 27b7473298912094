//! ltx
