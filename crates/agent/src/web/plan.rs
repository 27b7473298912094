//! The restore planner: which command restores a moment beside the original, which point it reaches, and what it reads.
//!
//! Nothing is restored here. The plan comes from the library call of `seawall restore --dry-run`; of a server, whose restore needs a server, from what
//! its set holds. The command names the point that was found, so it reaches this point at any later time too.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seawall_core::{
    Clock as _, Failure, IntegrityCheck, Moment, NoProgress, PlannedObject, Point, RestoreRequest, SystemClock,
    is_visible,
};
use seawall_engines::{EngineConfig, ask, read_when};

use super::look::Look;
use crate::fleet::{Origin, Seen};

/// A restore that could be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Planned {
    /// The point that it reaches.
    pub(super) point: Point,
    /// How many objects it reads, and their bytes.
    pub(super) read: (u64, u64),
    /// These objects, oldest first, where they are known one by one.
    pub(super) objects: Vec<PlannedObject>,
    /// What couldn't be proved of them.
    pub(super) doubts: Vec<String>,
    /// What does it, in a shell.
    pub(super) command: String,
    /// Whether a part of the command is to be replaced first.
    pub(super) has_gap: bool,
}

/// Plans a restore of the moment that `text` means.
pub(super) async fn plan(look: &Look, member: &Seen, text: &str) -> Result<Planned, Failure> {
    let when = read_when(text, SystemClock.now())?;
    let Some(engine) = &member.engine else {
        return Err(member.failure.clone().unwrap_or_else(|| crate::fleet::starting(&member.config.name)));
    };
    let target = Target::of(member);
    let work = async {
        Ok(match &member.config.engine {
            EngineConfig::Server(_) | EngineConfig::Cluster(_) => {
                let found = engine.history().contents(&when).await?;
                (found.point, (found.objects, found.stored_bytes), Vec::new(), found.doubts)
            }
            EngineConfig::Sqlite(_) | EngineConfig::Lmdb(_) => {
                let request = RestoreRequest {
                    output: target.file().unwrap_or_default(),
                    when,
                    force: false,
                    dry_run: true,
                    integrity: IntegrityCheck::None,
                };
                let found = ask::files(&**engine)?.restore(&request, Arc::new(NoProgress)).await?;
                let read = found.objects.iter().map(|object| object.bytes).sum();
                (found.point, (found.objects.len() as u64, read), found.objects, found.doubts)
            }
        })
    };
    let (point, read, objects, doubts) = look.in_time(&member.config.name, work).await?;
    let config = look.actions().reloader().status().map(|status| status.file);
    let command = target.command(&Named::of(member, config), &point.position);
    Ok(Planned { point, read, objects, doubts, command, has_gap: target.has_gap() })
}

/// How a command names the database.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    /// By its name or source, in a configuration.
    In(String, String),
    /// By its vault.
    Vault(String),
}

impl Named {
    /// A database that was registered isn't in the configuration.
    fn of(member: &Seen, config: Option<String>) -> Self {
        match (config, member.origin) {
            (Some(file), Origin::Configured) => Self::In(file, member.config.name.clone()),
            (Some(file), Origin::Found) => Self::In(file, member.config.source().to_string()),
            (None, _) | (_, Origin::Registered) => Self::Vault(member.config.vault.to_string()),
        }
    }
}

/// Where it is restored to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// A file or folder beside the original.
    Beside(PathBuf),
    /// A database beside the original on its server.
    Database(String),
    /// All databases of a server: they need another one.
    Server(String),
}

impl Target {
    fn of(member: &Seen) -> Self {
        let source = member.config.source().to_string();
        match member.config.path() {
            Some(path) => Self::Beside(beside(path)),
            None => of_server(&source),
        }
    }

    fn file(&self) -> Option<PathBuf> {
        match self {
            Self::Beside(path) => Some(path.clone()),
            Self::Database(_) | Self::Server(_) => None,
        }
    }

    fn has_gap(&self) -> bool {
        matches!(self, Self::Server(_))
    }

    fn command(&self, named: &Named, position: &str) -> String {
        let mut words = vec!["seawall".to_owned(), "restore".to_owned()];
        match named {
            Named::In(file, name) => words.extend(["--config".to_owned(), file.clone(), name.clone()]),
            Named::Vault(vault) => words.push(vault.clone()),
        }
        match self {
            Self::Beside(path) => words.extend(["-o".to_owned(), path.display().to_string()]),
            Self::Database(url) | Self::Server(url) => words.extend(["--to".to_owned(), url.clone()]),
        }
        words.extend(["--at".to_owned(), position.to_owned()]);
        // A name with a `-` at its beginning would be a flag.
        let is_flag = |word: &String| word.starts_with('-');
        if let Named::Vault(name) | Named::In(_, name) = named
            && is_flag(name)
        {
            words.retain(|word| word != name);
            words.extend(["--".to_owned(), name.clone()]);
        }
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

/// A word as a shell takes it. Characters that a reader doesn't see are written as bash, zsh and ksh read them, so that a command is what it
/// looks like.
fn quoted(word: &str) -> String {
    if word.chars().all(is_visible) {
        return shell_words::quote(word).into_owned();
    }
    let mut text = "$'".to_owned();
    for c in word.chars() {
        match c {
            '\'' | '\\' => text.extend(['\\', c]),
            c if is_visible(c) => text.push(c),
            c => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push_str(&format!("\\{byte:03o}"))),
        }
    }
    text + "'"
}

/// The name of a restored file: before the extension, so that it stays one of its kind.
fn beside(path: &Path) -> PathBuf {
    let part = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let name = part(path.file_stem()).unwrap_or_default();
    match part(path.extension()) {
        Some(extension) => path.with_file_name(format!("{name}-restored.{extension}")),
        None => path.with_file_name(format!("{name}-restored")),
    }
}

/// The place for a database of a server: the server's URL, and the name of a database that isn't there yet.
fn of_server(url: &str) -> Target {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (rest, query) = rest.split_once('?').map_or((rest, String::new()), |(rest, query)| (rest, format!("?{query}")));
    match rest.split_once('/') {
        Some((host, database)) if !database.is_empty() => {
            Target::Database(format!("{scheme}://{host}/{database}_restored{query}"))
        }
        _ => Target::Server(format!("{scheme}://USER@NEW_SERVER/")),
    }
}

/// Moments to go on to from one: how far each is away for people, and the moment.
pub(super) fn steps(from: Moment, now: Moment) -> Vec<(&'static str, Moment)> {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let back = [("1 day earlier", 1440), ("1 hour earlier", 60), ("1 minute earlier", 1)];
    let forth = [("1 minute later", 1), ("1 hour later", 60), ("1 day later", 1440)];
    let earlier = back.map(|(name, span)| (name, from.before(minutes(span))));
    let later = forth.map(|(name, span)| (name, from.after(minutes(span))));
    earlier.into_iter().chain(later).filter(|(_, at)| *at <= now && at.as_millis() >= 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted() {
        let beside = |path: &str| Target::Beside(beside(Path::new(path)));
        let named = |name: &str| Named::In("/etc/seawall.yml".into(), name.into());
        for (target, named, expected) in [
            (
                beside("/data/app.db"),
                named("app"),
                "seawall restore --config /etc/seawall.yml app -o /data/app-restored.db --at 00af",
            ),
            (
                beside("/data/it's here/a b"),
                Named::Vault("s3://b/x?endpoint=https://m".into()),
                "seawall restore 's3://b/x?endpoint=https://m' -o '/data/it'\\''s here/a b-restored' --at 00af",
            ),
            (
                beside("/data/a'\u{202e}\\7\u{1b}.db"),
                Named::Vault("/v".into()),
                r"seawall restore /v -o $'/data/a\'\342\200\256\\7\033-restored.db' --at 00af",
            ),
            (
                beside("/data/$(rm -rf x).db"),
                named("-rf"),
                "seawall restore --config /etc/seawall.yml -o '/data/$(rm -rf x)-restored.db' --at 00af -- -rf",
            ),
            (
                of_server("postgresql://app@db:5432/shop?sslmode=require"),
                named("shop"),
                "seawall restore --config /etc/seawall.yml shop --to 'postgresql://app@db:5432/shop_restored?sslmode=require' --at 00af",
            ),
            (
                of_server("mysql://app@db/"),
                named("all"),
                "seawall restore --config /etc/seawall.yml all --to mysql://USER@NEW_SERVER/ --at 00af",
            ),
        ] {
            assert_eq!(target.command(&named, "00af"), expected);
            assert_eq!(target.has_gap(), expected.contains("NEW_SERVER"));
        }
    }

    #[test]
    fn steps_stay_in_what_has_been() {
        let at = Moment::from_millis;
        let names =
            |from: i64, now: i64| -> Vec<&str> { steps(at(from), at(now)).into_iter().map(|(name, _)| name).collect() };
        let day = 86_400_000;
        assert_eq!(names(10 * day, 10 * day), ["1 day earlier", "1 hour earlier", "1 minute earlier"]);
        assert_eq!(names(10 * day, 20 * day).len(), 6);
        assert_eq!(names(0, 120_000), ["1 minute later"]);
        assert_eq!(steps(at(day), at(day))[0].1, at(0));
    }
}
