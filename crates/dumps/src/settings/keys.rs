//! What becomes of a key of dbbackup's configuration? Pure.

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is looked at below.
    Used,
    /// It is a secret; Seawall looks for it there.
    Secret(&'static str),
    /// There is no counterpart.
    None(&'static str),
}

const BY_ITSELF: &str = "Seawall chooses this by itself, within --jobs and --memory";
const ALWAYS: &str = "Seawall always does this";
const NATIVE: &str = "Seawall has one engine, which always takes one consistent state";
const OF_RESTORES: &str = "it is about restores, and Seawall's restores never weaken the server's own safety";
const DEAD: &str = "it has no effect in dbbackup either";
const PASSWORD: &str =
    "~/.pgpass or ~/.my.cnf, or the file of backup.passfile (PostgreSQL) or backup.password-file (MySQL), mode 0600";
pub(super) const STORE: &str = "the environment of the store (such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), or files: see docs/configuration.md";

/// The keys that are known.
const KEYS: &[(&str, Fate)] = &[
    ("type", Fate::Used),
    ("db_type", Fate::Used),
    ("host", Fate::Used),
    ("port", Fate::Used),
    ("user", Fate::Used),
    ("username", Fate::Used),
    ("database", Fate::Used),
    ("name", Fate::Used),
    ("socket", Fate::Used),
    ("ssl_mode", Fate::Used),
    ("insecure", Fate::Used),
    ("backup_dir", Fate::Used),
    ("dir", Fate::Used),
    ("jobs", Fate::Used),
    ("retention_days", Fate::Used),
    ("min_backups", Fate::Used),
    ("enabled", Fate::Used),
    ("cloud", Fate::Used),
    ("provider", Fate::Used),
    ("bucket", Fate::Used),
    ("region", Fate::Used),
    ("endpoint", Fate::Used),
    ("prefix", Fate::Used),
    ("encrypt", Fate::Used),
    ("password", Fate::Secret(PASSWORD)),
    ("access_key", Fate::Secret(STORE)),
    ("access_key_id", Fate::Secret(STORE)),
    ("secret_key", Fate::Secret(STORE)),
    ("secret_access_key", Fate::Secret(STORE)),
    ("account_key", Fate::Secret(STORE)),
    ("credentials", Fate::Secret(STORE)),
    ("encryption_key", Fate::Secret("the owner's own file: `seawall vault init VAULT --generate` makes one")),
    (
        "encryption_key_file",
        Fate::None(
            "vaults are encrypted for age recipients: see docs/encryption.md. Keep the file: old backups need it",
        ),
    ),
    (
        "encryption_key_env",
        Fate::None(
            "vaults are encrypted for age recipients: see docs/encryption.md. Keep the key: old backups need it",
        ),
    ),
    (
        "compression",
        Fate::None("Seawall compresses with zstd, which is smaller and faster; backup.compression changes it"),
    ),
    (
        "compression_level",
        Fate::None("Seawall compresses with zstd, which is smaller and faster; backup.compression changes it"),
    ),
    (
        "compression_algorithm",
        Fate::None("Seawall compresses with zstd, which is smaller and faster; backup.compression changes it"),
    ),
    ("compression_mode", Fate::None(BY_ITSELF)),
    ("auto_detect_compression", Fate::None(BY_ITSELF)),
    ("auto_detect_cores", Fate::None(BY_ITSELF)),
    ("max_cores", Fate::None(BY_ITSELF)),
    ("cpu_workload", Fate::None(BY_ITSELF)),
    ("cpu_auto_tune", Fate::None(BY_ITSELF)),
    ("cpu_boost", Fate::None("Seawall never changes the machine's own settings")),
    ("dump_jobs", Fate::None("jobs counts for all connections of a backup")),
    ("cluster_parallelism", Fate::None("jobs counts for all connections of a backup")),
    ("cluster_timeout", Fate::None("a backup has no limit of time: each wait has one")),
    ("cluster_timeout_minutes", Fate::None("a backup has no limit of time: each wait has one")),
    ("resource_profile", Fate::None(BY_ITSELF)),
    ("profile", Fate::None(BY_ITSELF)),
    ("large_db_mode", Fate::None(BY_ITSELF)),
    ("buffer_size", Fate::None(BY_ITSELF)),
    ("batch_size", Fate::None(BY_ITSELF)),
    ("pool_size", Fate::None(BY_ITSELF)),
    ("workers", Fate::None(BY_ITSELF)),
    ("io_governor", Fate::None(BY_ITSELF)),
    ("native_engine", Fate::None(NATIVE)),
    ("native", Fate::None(NATIVE)),
    ("use_native_engine", Fate::None(NATIVE)),
    ("fallback_tools", Fate::None(NATIVE)),
    ("native_engine_debug", Fate::None(NATIVE)),
    ("engine", Fate::None(NATIVE)),
    ("dump_format", Fate::None("backup.format keeps the formats of pg_dump: custom, directory or plain")),
    ("backup_type", Fate::None("every backup is complete, and takes only what changed from a cluster's files")),
    ("max_retries", Fate::None(ALWAYS)),
    ("connection_timeout", Fate::None(ALWAYS)),
    ("check_resources", Fate::None(ALWAYS)),
    (
        "verify_after_backup",
        Fate::None("`prove` restores and checks databases by a schedule: see docs/configuration.md"),
    ),
    ("skip_disk_check", Fate::None("Seawall needs no local disk for a backup")),
    ("disk_space_multiplier", Fate::None("Seawall needs no local disk for a backup")),
    ("work_dir", Fate::None("Seawall needs no local disk for a backup")),
    ("auto_upload", Fate::None("backups go straight to the vault")),
    ("cloud_auto_upload", Fate::None("backups go straight to the vault")),
    ("allow_root", Fate::None("Seawall may run as any user")),
    ("restore_mode", Fate::None(OF_RESTORES)),
    ("restore_fsync_mode", Fate::None(OF_RESTORES)),
    ("statement_timeout", Fate::None(DEAD)),
    ("lock_timeout", Fate::None(DEAD)),
    ("max_memory_mb", Fate::None("backup.memory bounds the memory; dbbackup has no such bound")),
    ("transaction_batch_size", Fate::None(DEAD)),
    ("max_bandwidth", Fate::None("it has no effect in dbbackup either; --upload-limit of a backup bounds uploads")),
    ("prefix_postgres", Fate::None("sets have names of their own in the vault")),
    ("prefix_mysql", Fate::None("sets have names of their own in the vault")),
    ("prefix_mariadb", Fate::None("sets have names of their own in the vault")),
    ("no_color", Fate::None("Seawall's output has no colours")),
];

/// Beginnings of keys without a counterpart.
const FAMILIES: [(&str, &str); 5] = [
    ("gfs_", "it has no effect in dbbackup either; retention.daily, weekly, monthly and yearly keep such backups"),
    ("blob_", "large objects and columns are read as all other rows"),
    ("hook", "it has no effect in dbbackup either; `hooks` runs programs: see docs/configuration.md"),
    (
        "physical_",
        "it has no effect in dbbackup either; `continuous` protects a cluster's files and log: see docs/configuration.md",
    ),
    ("mysql_", "it is an option of mysqldump, which Seawall doesn't need"),
];

/// Whether a key is about the store in the cloud, in whatever section it stands.
pub(super) fn is_of_cloud(section: &str, key: &str) -> bool {
    section == "cloud" || matches!(section, "" | "backup") && key.starts_with("cloud_")
}

/// Whether a key that is used stands in a section where it means what it is used for. `enabled` has a meaning in many.
fn is_in_place(section: &str, name: &str) -> bool {
    const CLOUD: [&str; 6] = ["enabled", "provider", "bucket", "region", "endpoint", "prefix"];
    const BACKUP: [&str; 6] = ["backup_dir", "dir", "jobs", "retention_days", "min_backups", "cloud"];
    match name {
        name if CLOUD.contains(&name) => section == "cloud",
        "cloud" => matches!(section, "" | "backup" | "cloud"),
        name if BACKUP.contains(&name) => {
            matches!(section, "" | "backup" | "retention" | "security" | "performance" | "general")
        }
        "encrypt" => matches!(section, "" | "backup" | "encryption" | "security"),
        "insecure" | "ssl_mode" => matches!(section, "" | "database" | "security"),
        _ => true,
    }
}

/// Why the value of a key that is used isn't understood.
pub(super) fn defect(name: &str, value: &str) -> Option<&'static str> {
    let is_one = |known: &[&str]| known.iter().any(|known| value.eq_ignore_ascii_case(known));
    let number = value.parse::<u32>();
    let (is_sound, why) = match name {
        "retention_days" | "min_backups" => (number.is_ok(), "it isn't a whole number; so nothing is deleted"),
        // 0 stands for the usual port.
        "port" => (number.is_ok_and(|port| port <= 65_535), "it isn't a port; so the usual one is written"),
        "jobs" => {
            (number.is_ok_and(|jobs| (1..=64).contains(&jobs)), "it isn't a number from 1 to 64; so it is left out")
        }
        "ssl_mode" => (is_one(&MODES), "it isn't a mode that is known; so the strictest one is written"),
        "type" | "db_type" => (
            is_one(&["postgres", "postgresql", "mysql", "mariadb"]),
            "it isn't a server that is known; so PostgreSQL is written",
        ),
        "cloud.provider" => (
            is_one(&["s3", "minio", "b2", "gcs", "gs", "azure", "azblob"]),
            "it isn't a store that is known; so no vault is written",
        ),
        "cloud.bucket" => (super::is_bucket(value), "it isn't the name of a bucket; so no vault is written"),
        "backup_dir" | "dir" => (!value.starts_with('~'), "Seawall doesn't expand ~; so no vault is written"),
        "encrypt" => (is_one(&WORDS), "it is neither true nor false; so it counts as true"),
        "cloud.enabled" | "cloud.cloud" | "cloud" | "insecure" => {
            (is_one(&WORDS), "it is neither true nor false; so it counts as false")
        }
        _ => (true, ""),
    };
    (!is_sound).then_some(why)
}

/// The words for true and false.
const WORDS: [&str; 8] = ["true", "false", "1", "0", "yes", "no", "on", "off"];

/// The modes of encryption of a connection, as PostgreSQL calls them.
pub(super) const MODES: [&str; 6] = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

/// What becomes of a key in a section, and the name by which it is known.
pub(super) fn fate(section: &str, key: &str) -> Option<(String, Fate)> {
    // In other sections these words mean other things.
    const OF_DATABASES: [&str; 9] =
        ["type", "host", "port", "user", "username", "database", "name", "socket", "password"];
    if OF_DATABASES.contains(&key) && !matches!(section, "" | "database") {
        return None;
    }
    let section_of_name = if is_of_cloud(section, key) { "cloud" } else { section };
    let short =
        key.strip_prefix(section_of_name).and_then(|rest| rest.strip_prefix('_')).filter(|short| !short.is_empty());
    for name in [Some(key), short].into_iter().flatten() {
        if let Some((_, fate)) = KEYS.iter().find(|(known, _)| *known == name) {
            if *fate == Fate::Used && !is_in_place(section_of_name, name) {
                return None;
            }
            return Some((name.to_owned(), *fate));
        }
    }
    if section == "blob" {
        return Some((key.to_owned(), Fate::None(FAMILIES[1].1)));
    }
    let family = FAMILIES.iter().find(|(begins, _)| key.starts_with(begins))?;
    Some((key.to_owned(), Fate::None(family.1)))
}
