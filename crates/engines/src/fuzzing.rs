//! Entry points for the fuzz target `engines_parsers`: what this crate reads of a vault. Not part of the interface.

use crate::proofs;

/// Reads `bytes` as what a vault holds about proofs. Nothing may panic.
pub fn parse(bytes: &[u8]) {
    proofs::read_anything(bytes);
}
