//! `seawall self`

use clap::Args;

/// `seawall self`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    seawall self\n  \
    seawall self --sbom > sbom.cdx.json  every crate in the program, as CycloneDX")]
pub(crate) struct SelfArguments {
    /// Print the bill of materials: every crate in the program with version, licence and checksum, as CycloneDX 1.6 JSON
    #[arg(long)]
    pub(crate) sbom: bool,
}
