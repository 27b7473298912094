//! Which files of the system the server of a proof can read. Nothing of a user is among them: no home, no `/var`, no `/proc`, and of
//! `/etc` only what every program reads.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Programs, libraries, and what those read when they start. What isn't here is passed over.
pub(super) const READABLE: &[&str] = &[
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/local/libexec",
    "/usr/local/share",
    // Where systems that have no /usr keep all programs.
    "/nix/store",
    "/gnu/store",
    "/home/linuxbrew/.linuxbrew/Cellar",
    "/home/linuxbrew/.linuxbrew/lib",
    "/home/linuxbrew/.linuxbrew/opt",
    "/home/linuxbrew/.linuxbrew/share",
    // Dictionaries of text search, to which Debian's packages link.
    "/var/cache/postgresql/dicts",
    "/etc/crypto-policies",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/ld-musl-aarch64.path",
    "/etc/ld-musl-x86_64.path",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki/tls/openssl.cnf",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
    // How many cores and nodes of memory there are.
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
];

/// In so many folders above a program's own, others that belong to it are looked for.
const DEEP: usize = 3;

/// Folders of `/usr` that hold no programs of the system.
const NOT_OF_PROGRAMS: [&str; 5] = ["games", "home", "local", "src", "tmp"];

/// Folders of programs and libraries that this system has beside `READABLE`: those of `/usr`, of which packages may have their own
/// (`/usr/pgsql-17`, `/usr/gdal311`), and others that the loader is told of.
pub(super) fn of_this_system() -> Vec<PathBuf> {
    let below_usr = std::fs::read_dir("/usr").into_iter().flatten().flatten();
    let is_ours = |entry: &std::fs::DirEntry| !NOT_OF_PROGRAMS.map(OsStr::new).contains(&entry.file_name().as_os_str());
    let mut places: Vec<PathBuf> = below_usr.filter(is_ours).map(|entry| entry.path()).collect();
    let parts = std::fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().flatten().map(|entry| entry.path());
    for file in parts.chain([PathBuf::from("/etc/ld.so.conf")]) {
        places.extend(std::fs::read_to_string(file).iter().flat_map(|text| told_to_the_loader(text)));
    }
    places
}

/// The folders of a file of the loader's configuration.
fn told_to_the_loader(text: &str) -> Vec<PathBuf> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| line.starts_with('/')).map(PathBuf::from).filter(|place| is_narrow(place)).collect()
}

/// Devices that hold nothing.
pub(super) const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// What lies beside a program in the folders that belong to it, for a program that isn't one of the system's; and the folders of
/// `LD_LIBRARY_PATH`.
pub(super) fn beside(program: &Path, libraries: Option<&str>) -> Vec<PathBuf> {
    let libraries = libraries.unwrap_or_default().split(':').map(PathBuf::from).filter(|place| is_narrow(place));
    let mut places: Vec<PathBuf> = libraries.collect();
    places.push(program.to_owned());
    let Some(folder) = program.parent() else { return places };
    let holds_programs =
        ["bin", "sbin", "libexec", "scripts"].map(OsStr::new).contains(&folder.file_name().unwrap_or_default());
    let whole = folder.parent().filter(|_| holds_programs);
    for name in ["bin", "sbin", "libexec", "scripts", "lib", "lib64", "share"] {
        places.extend(whole.map(|whole| whole.join(name)).filter(|place| is_narrow(place)));
    }
    for above in whole.into_iter().flat_map(Path::ancestors).take(DEEP) {
        // A package that was unpacked elsewhere: `usr/lib/postgresql/15/bin` has its files in `usr/share/postgresql/15`.
        if ["lib", "lib64"].map(OsStr::new).contains(&above.file_name().unwrap_or_default()) {
            let share = above.with_file_name("share");
            places.extend([above.to_owned(), share].into_iter().filter(|place| is_narrow(place)));
        }
        places.extend(bundled(above));
    }
    places
}

/// Folders of libraries that a package for Python brings along (`NAME.libs`).
fn bundled(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let found = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_bundle = |entry: &std::fs::DirEntry| {
        Path::new(&entry.file_name()).extension() == Some(OsStr::new("libs"))
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    found.filter(is_bundle).map(|entry| entry.path())
}

/// Whether a place isn't the whole of the system.
fn is_narrow(place: &Path) -> bool {
    place.is_absolute() && place.parent().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_program() {
        let found = |program: &str, libraries: Option<&str>| -> Vec<String> {
            beside(Path::new(program), libraries).iter().map(|place| place.display().to_string()).collect()
        };
        assert_eq!(found("/home/me/postgres", None), ["/home/me/postgres"]);
        assert_eq!(found("/postgres", Some("/:lib::/opt/x/lib")), ["/opt/x/lib", "/postgres"]);
        let of_opt = found("/opt/mysql/bin/mysqld", None);
        assert!(of_opt.contains(&"/opt/mysql/lib".to_owned()) && of_opt.contains(&"/opt/mysql/share".to_owned()));
        assert!(!of_opt.contains(&"/opt/mysql".to_owned()), "what else is there may be data: {of_opt:?}");
        let unpacked = found("/srv/pg/usr/lib/postgresql/15/bin/postgres", None);
        assert!(unpacked.contains(&"/srv/pg/usr/share".to_owned()), "{unpacked:?}");
        assert!(
            !unpacked.iter().any(|place| ["/srv", "/srv/pg", "/srv/pg/usr"].contains(&place.as_str())),
            "{unpacked:?}"
        );
    }

    #[test]
    fn what_this_system_has_beside() {
        let text = "include /etc/ld.so.conf.d/*.conf\n# /opt/no\n/opt/geos/lib64  # of a package\n/\nrelative/lib\n/usr/proj9/lib\n";
        assert_eq!(told_to_the_loader(text), ["/opt/geos/lib64", "/usr/proj9/lib"].map(PathBuf::from));
        let found = of_this_system();
        assert!(found.contains(&PathBuf::from("/usr/lib")), "{found:?}");
        assert!(
            !found.iter().any(|place| ["/usr", "/usr/src", "/usr/local"].map(Path::new).contains(&place.as_path()))
        );
    }

    #[test]
    fn what_a_package_for_python_brings_along() {
        let folder = tempfile::tempdir().expect("a folder");
        let libraries = folder.path().join("server.libs");
        std::fs::create_dir(&libraries).expect("made");
        std::fs::write(folder.path().join("other.libs"), "no folder").expect("written");
        std::fs::create_dir(folder.path().join("secrets")).expect("made");
        let found = beside(&folder.path().join("server/install/bin/postgres"), None);
        assert!(found.contains(&libraries), "{found:?}");
        let in_folder = found.iter().filter(|place| place.parent() == Some(folder.path())).count();
        assert_eq!(in_folder, 1, "{found:?}");
    }

    #[test]
    fn no_place_of_users_and_services_is_readable() {
        for place in READABLE {
            for closed in
                ["/etc", "/home", "/opt", "/proc", "/root", "/run", "/srv", "/tmp", "/usr", "/var", "/var/lib", "/"]
            {
                assert!(!Path::new(closed).starts_with(place), "{place} opens {closed}");
            }
        }
    }
}
