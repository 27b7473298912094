//! Finds the units of systemd that run Seawall with a configuration, and what Seawall writes to with it.

#![expect(clippy::disallowed_methods, reason = "this module meets the file system")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use seawall_agent::VaultUrl;
use seawall_agent::config::{Config, EngineConfig};
use seawall_host::folder_of;

use super::finding::Finding;
use super::host;
use super::unit::{self, Needs, Unit, Written};
use crate::edge::Edge;

/// Where units are, the most important folder first.
const FOLDERS: [&str; 4] =
    ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];

/// More than this is no unit.
const LARGEST: u64 = 1 << 20;

/// Looks at the unit that is named, or at those of the system that run Seawall with this configuration. Without systemd there are
/// none.
pub(super) fn of_all(config: &Config, named: Option<&Path>, edge: &Edge) -> Vec<Finding> {
    let file = edge.absolute(&config.file);
    let written = written(config);
    let exists = |path: &Path| path.exists();
    let needs = Needs { config: &file, written: &written, exists: &exists };
    let units = match named.map(|path| edge.absolute(path)) {
        Some(path) => match read(&path) {
            Ok(text) => vec![(path, with_variables(Unit::read(&text)))],
            Err(error) => {
                let next = "name the file of the unit, such as /etc/systemd/system/seawall.service";
                return vec![Finding::wrong(
                    "unit",
                    path.display().to_string(),
                    format!("it can't be read: {error}"),
                    next,
                )];
            }
        },
        None => installed(&FOLDERS.map(PathBuf::from), &file),
    };
    let of_one = |(path, unit): &(PathBuf, Unit)| {
        let mut found = unit::of_unit(&path.display().to_string(), unit, &needs);
        found.extend(unit.environment_files().filter_map(host::readers_of_variables));
        found
    };
    units.iter().flat_map(of_one).collect()
}

/// The units that run Seawall with this configuration, or with one that isn't there, each with its drop-ins.
fn installed(folders: &[PathBuf], config: &Path) -> Vec<(PathBuf, Unit)> {
    let (mut names, mut found) = (BTreeSet::new(), Vec::new());
    for folder in folders {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let is_service = path.extension().is_some_and(|extension| extension == "service");
            // A unit of an earlier folder hides one of the same name.
            if !is_service || !names.insert(name.clone()) {
                continue;
            }
            let Ok(text) = read(&path) else { continue };
            let drop_ins = drop_ins(folders, &format!("{}.d", name.to_string_lossy()));
            let unit = with_variables(Unit::read(&(text + &drop_ins)));
            let its = unit.config(&|path: &Path| path.exists());
            if unit.runs_seawall() && (its == config || !its.exists()) {
                found.push((path, unit));
            }
        }
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found
}

/// The unit with the variables of its files, which may name its configuration.
fn with_variables(mut unit: Unit) -> Unit {
    let files: Vec<PathBuf> = unit.environment_files().map(Path::to_owned).collect();
    for text in files.iter().filter_map(|file| read(file).ok()) {
        let variables = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
        variables.filter_map(|line| line.split_once('=')).for_each(|(name, value)| unit.take_variable(name, value));
    }
    unit
}

/// The drop-ins of a unit, in the order of their names, whatever folder they are in. One of an earlier folder hides those of the
/// same name.
fn drop_ins(folders: &[PathBuf], below: &str) -> String {
    let mut files: BTreeMap<OsString, PathBuf> = BTreeMap::new();
    for folder in folders {
        let Ok(entries) = std::fs::read_dir(folder.join(below)) else { continue };
        for file in entries.flatten().map(|entry| entry.path()) {
            if let Some(name) = file.file_name().filter(|_| file.extension().is_some_and(|end| end == "conf")) {
                files.entry(name.to_owned()).or_insert(file);
            }
        }
    }
    files.values().filter_map(|file| read(file).ok()).map(|text| format!("\n{text}")).collect()
}

fn read(path: &Path) -> std::io::Result<String> {
    let metadata = path.metadata()?;
    // Opening a FIFO would wait for a writer.
    if !metadata.is_file() || metadata.len() > LARGEST {
        return Err(std::io::Error::other("it is no unit"));
    }
    std::fs::read_to_string(path)
}

/// The folders that a process writes to with this configuration.
fn written(config: &Config) -> Vec<Written> {
    let mut all = BTreeSet::new();
    let mut add = |folder: &Path, purpose: String| all.insert(Written { folder: folder.to_owned(), purpose });
    for database in &config.databases {
        let name = &database.name;
        match &database.engine {
            EngineConfig::Sqlite(sqlite) => {
                add(folder_of(&sqlite.path), format!("the database {name}"));
                add(&sqlite.state_dir(), format!("the state of {name}"));
            }
            EngineConfig::Lmdb(_) => database.path().into_iter().for_each(|path| {
                add(path, format!("the environment {name}"));
            }),
            EngineConfig::Server(_) | EngineConfig::Cluster(_) => {}
        }
        if let Some(scratch) = database.prove.as_ref().and_then(|prove| prove.scratch.as_ref()) {
            add(scratch, format!("proofs of {name}"));
        }
        let vaults = std::iter::once(&database.vault).chain(database.beside.iter().map(|beside| &beside.url));
        for vault in vaults {
            if let VaultUrl::File(folder) = vault {
                add(folder, format!("a vault of {name}"));
            }
        }
    }
    for directory in &config.directories {
        add(&directory.dir, "the folder of databases".to_owned());
    }
    if let Some(socket) = &config.services.socket {
        // Units name the folder that this link leads to.
        let folder = folder_of(&socket.path);
        let folder =
            folder.strip_prefix("/var/run").map_or_else(|_| folder.to_owned(), |rest| Path::new("/run").join(rest));
        add(&folder, "the control socket".to_owned());
    }
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_a_configuration_with_their_drop_ins() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, second) = (folder.path().join("etc"), folder.path().join("lib"));
        let config = folder.path().join("seawall.yml");
        let other = folder.path().join("other.yml");
        for file in [&config, &other] {
            std::fs::write(file, "").expect("written");
        }
        let write = |folder: &Path, name: &str, text: String| {
            let file = folder.join(name);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            std::fs::write(file, text).expect("written");
        };
        let unit = |config: &Path| format!("ExecStart=/bin/seawall replicate --config {}\n", config.display());
        write(&second, "seawall.service", unit(&other));
        write(&first, "seawall.service", unit(&config));
        write(&first, "other.service", unit(&other));
        write(&first, "gone.service", unit(Path::new("/gone.yml")));
        write(&first, "nginx.service", "ExecStart=/bin/nginx\n".to_owned());
        write(&first, "seawall.timer", unit(&config));
        write(&second, "seawall.service.d/10.conf", "ProtectSystem=strict\n".to_owned());
        let found = installed(&[first.clone(), second, PathBuf::from("/nowhere")], &config);
        let paths: Vec<&PathBuf> = found.iter().map(|(path, _)| path).collect();
        assert_eq!(paths, [&first.join("gone.service"), &first.join("seawall.service")]);
        assert_eq!(found[1].1, Unit::read(&format!("{}ProtectSystem=strict\n", unit(&config))));

        // A variable of a file names the configuration, and not whatever this command looks at.
        let variables = folder.path().join("variables");
        write(
            &first,
            "seawall.service",
            format!("ExecStart=/bin/seawall replicate\nEnvironmentFile={}\n", variables.display()),
        );
        for (its, expected) in [(&config, 2), (&other, 1)] {
            std::fs::write(&variables, format!("# SEAWALL_CONFIG=/x\nSEAWALL_CONFIG=\"{}\"\n", its.display()))
                .expect("written");
            assert_eq!(installed(std::slice::from_ref(&first), &config).len(), expected, "{}", its.display());
        }
    }

    #[test]
    fn drop_ins_are_ordered_by_name_over_all_folders() {
        let folder = tempfile::tempdir().expect("a folder");
        let folders = ["etc", "run", "lib"].map(|name| folder.path().join(name));
        for (folder, name, text) in [
            (0, "50.conf", "a=admin"),
            (2, "10.conf", "a=vendor"),
            (2, "90.conf", "b=vendor"),
            // Hidden by the admin's empty one of the same name.
            (2, "70.conf", "c=vendor"),
            (0, "70.conf", ""),
            (1, "notes.txt", "d=1"),
        ] {
            let place = folders[folder].join("seawall.service.d");
            std::fs::create_dir_all(&place).expect("made");
            std::fs::write(place.join(name), text).expect("written");
        }
        assert_eq!(drop_ins(&folders, "seawall.service.d"), "\na=vendor\na=admin\n\nb=vendor");
    }
}
