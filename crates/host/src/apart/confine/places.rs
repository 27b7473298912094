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
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libx32",
    "/usr/libexec",
    "/usr/share",
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
    places
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
