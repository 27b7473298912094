//! `seawall self`: how this program was built, and what it contains. The build script wrote both down.

use serde_json::{Value, json};

use crate::arguments::SelfArguments;
use crate::output::Output;
use crate::table;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const TARGET: &str = env!("SEAWALL_TARGET");
const PROFILE: &str = env!("SEAWALL_PROFILE");
const COMPILER: &str = env!("SEAWALL_COMPILER");
/// Empty if the build wasn't told.
const COMMIT: &str = env!("SEAWALL_COMMIT");
/// Written by the build script.
const CRATES: &str = include_str!(concat!(env!("OUT_DIR"), "/crates.txt"));

/// A crate that is linked into the program.
struct Crate<'a> {
    name: &'a str,
    version: &'a str,
    /// An SPDX expression; empty if the crate has only the text of a licence.
    licence: String,
    /// The SHA-256 of the crate's archive, in hex; empty for crates of this repository.
    checksum: &'a str,
}

/// The crates of the program, without the program itself.
fn crates() -> Vec<Crate<'static>> {
    let parse = |line: &'static str| {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or_default();
        let (name, version, licence, checksum) = (next(), next(), next(), next());
        // Some manifests still have the form from before SPDX expressions.
        Crate { name, version, licence: licence.replace('/', " OR "), checksum }
    };
    CRATES.lines().map(parse).filter(|one| one.name != "seawall").collect()
}

/// Runs the command.
pub(crate) fn run(arguments: &SelfArguments) -> Output {
    if arguments.sbom {
        let sbom = sbom();
        return Output::done(format!("{sbom:#}\n"), &sbom);
    }
    let commit = Some(COMMIT).filter(|commit| !commit.is_empty());
    let (is_static, asserts) = (cfg!(target_feature = "crt-static"), cfg!(debug_assertions));
    let crates = crates().len();
    let linked = if is_static { "statically" } else { "dynamically" };
    let assertions = if asserts { ", with debug assertions: a program for tests" } else { "" };
    let text = format!(
        "version   {VERSION}\n\
         commit    {}\n\
         target    {TARGET}, linked {linked}\n\
         profile   {PROFILE}{assertions}\n\
         compiler  {COMPILER}\n\
         SQLite    {}\n\
         contains  {} (`seawall self --sbom` lists them)\n",
        commit.unwrap_or("not known"),
        rusqlite::version(),
        table::count(crates, "crate"),
    );
    let document = json!({
        "version": VERSION, "commit": commit, "target": TARGET, "static": is_static, "profile": PROFILE, "debug_assertions": asserts,
        "compiler": COMPILER, "sqlite": rusqlite::version(), "crates": crates,
    });
    Output::done(text, &document)
}

/// The bill of materials. It has no time and no random number, so that the same program always prints the same bytes.
fn sbom() -> Value {
    let property = |name: &str, value: &str| json!({ "name": format!("seawall:{name}"), "value": value });
    let mut properties = vec![property("target", TARGET), property("profile", PROFILE), property("compiler", COMPILER)];
    if !COMMIT.is_empty() {
        properties.push(property("commit", COMMIT));
    }
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": {
            "type": "application", "bom-ref": "seawall", "name": "seawall", "version": VERSION,
            "licenses": [{ "expression": env!("CARGO_PKG_LICENSE") }], "properties": properties,
        } },
        "components": crates().iter().map(component).collect::<Vec<_>>(),
    })
}

fn component(one: &Crate<'_>) -> Value {
    let Crate { name, version, licence, checksum } = one;
    let mut component = json!({
        "type": "library", "bom-ref": format!("{name}@{version}"), "name": name, "version": version, "scope": "required",
    });
    if !licence.is_empty() {
        component["licenses"] = json!([{ "expression": licence }]);
    }
    if !checksum.is_empty() {
        component["purl"] = json!(format!("pkg:cargo/{name}@{}", version.replace('+', "%2B")));
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_crate_of_the_program_is_there_once_and_none_of_its_tests() {
        let crates = crates();
        let names: HashSet<&str> = crates.iter().map(|one| one.name).collect();
        for name in ["libsqlite3-sys", "lmdb-rkv-sys", "zstd-sys", "tokio", "rustls", "seawall-core", "seawall-ltx"] {
            assert!(names.contains(name), "{name}");
        }
        for name in ["seawall", "seawall-testing", "proptest", "criterion", "cc", "clap_derive", "serde_derive"] {
            assert!(!names.contains(name), "{name}");
        }
        let ids: HashSet<_> = crates.iter().map(|one| (one.name, one.version)).collect();
        assert_eq!(ids.len(), crates.len());
        for Crate { name, version, licence, checksum } in &crates {
            assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{name} {version}");
            assert!(!licence.is_empty() && !licence.contains('/'), "{name}: {licence}");
            let is_ours = name.starts_with("seawall-");
            let is_hash = checksum.len() == 64 && checksum.bytes().all(|c| c.is_ascii_hexdigit());
            assert!(is_ours == checksum.is_empty() && (is_ours || is_hash), "{name}: {checksum}");
        }
    }

    #[test]
    fn the_bill_of_materials_names_each_crate_for_scanners() {
        let sbom = sbom();
        assert_eq!(sbom["metadata"]["component"]["version"], VERSION);
        let components = sbom["components"].as_array().unwrap();
        assert_eq!(components.len(), crates().len());
        let of = |name: &str| components.iter().find(|one| one["name"] == name).unwrap();
        // A plus sign means a space to some readers of such a URL.
        let zstd = of("zstd-sys");
        assert!(zstd["purl"].as_str().is_some_and(|purl| purl.contains("%2Bzstd.") && !purl.contains('+')), "{zstd}");
        assert_eq!(zstd["hashes"][0]["alg"], "SHA-256");
        assert!(of("seawall-core").get("purl").is_none(), "no registry has it");
    }

    #[test]
    fn a_program_of_tests_says_so() {
        let output = run(&SelfArguments { sbom: false });
        assert!(output.text.starts_with(&format!("version   {VERSION}\n")), "{}", output.text);
        assert_eq!(output.json["debug_assertions"], cfg!(debug_assertions));
        assert_eq!(output.text.contains("a program for tests"), cfg!(debug_assertions));
        assert_eq!(output.json["target"], TARGET);
    }
}
