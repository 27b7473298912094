//! Programs of the user's that run before and after an operation, and after one that failed: the section `hooks`.
//!
//! A program that runs before an operation can refuse it. What happens to the others changes nothing: the log tells it. An operation that a
//! signal or a stop interrupts runs no further program.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use seawall_config::error::{Location, Problem};
use seawall_config::fields::{At, Fields};
use seawall_core::{Failure, Kind};
use seawall_host::{Run, run_program};

/// How long a program may take unless something else is said.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What hooks are around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A backup of a server, or of one of its databases.
    Backup,
    /// A restore.
    Restore,
    /// A proof: a restore that is checked and thrown away.
    Proof,
}

/// The moments at which a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Hook {
    BeforeBackup,
    AfterBackup,
    BeforeRestore,
    AfterRestore,
    BeforeProof,
    AfterProof,
    OnFailure,
}

const HOOKS: [Hook; 7] = [
    Hook::BeforeBackup,
    Hook::AfterBackup,
    Hook::BeforeRestore,
    Hook::AfterRestore,
    Hook::BeforeProof,
    Hook::AfterProof,
    Hook::OnFailure,
];

impl Hook {
    fn name(self) -> &'static str {
        match self {
            Self::BeforeBackup => "before-backup",
            Self::AfterBackup => "after-backup",
            Self::BeforeRestore => "before-restore",
            Self::AfterRestore => "after-restore",
            Self::BeforeProof => "before-proof",
            Self::AfterProof => "after-proof",
            Self::OnFailure => "on-failure",
        }
    }
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::Restore => "restore",
            Self::Proof => "proof",
        }
    }

    fn before(self) -> Hook {
        match self {
            Self::Backup => Hook::BeforeBackup,
            Self::Restore => Hook::BeforeRestore,
            Self::Proof => Hook::BeforeProof,
        }
    }

    fn after(self) -> Hook {
        match self {
            Self::Backup => Hook::AfterBackup,
            Self::Restore => Hook::AfterRestore,
            Self::Proof => Hook::AfterProof,
        }
    }
}

/// What a program is told of an operation. It has no secrets in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// The database's name.
    pub database: String,
    /// The file, or the URL without a password.
    pub source: String,
    /// The vault, without secrets.
    pub vault: String,
    /// Where a restore goes to: a file, or a URL without a password. Empty for other operations.
    pub target: String,
}

/// The programs of a configuration.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Hooks {
    /// Each with its arguments.
    programs: BTreeMap<Hook, Vec<String>>,
    timeout: Duration,
}

impl fmt::Debug for Hooks {
    /// Without arguments: they may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.programs.keys().map(|hook| hook.name())).finish()
    }
}

impl Hooks {
    /// Reads the section; without it hooks are as `common` has them.
    ///
    /// # Errors
    /// What is wrong in the section, without showing a program's arguments.
    pub fn take(fields: &mut Fields, common: &Self) -> Result<Self, Location> {
        let Some(mut section) = fields.section("hooks")? else { return Ok(common.clone()) };
        let timeout = section.positive_duration("timeout")?.map_or(TIMEOUT, |at| at.value);
        let in_shell = section.flag("shell")?.is_some_and(|at| at.value);
        let mut programs = BTreeMap::new();
        for hook in HOOKS {
            let words = section.texts(hook.name())?;
            if !words.is_empty() {
                programs.insert(hook, program(hook, words, in_shell)?);
            }
        }
        section.finish()?;
        Ok(Self { programs, timeout })
    }

    /// Does the work between the programs for it.
    ///
    /// # Errors
    /// Those of the work, and `hook.refused` if the program that runs before it fails. Then the work isn't begun.
    pub async fn around<T>(
        &self,
        operation: Operation,
        about: &About,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let done = match self.run(operation.before(), operation, about, None).await {
            Ok(()) => work.await,
            Err(cause) => Err(refused(operation, about, &cause)),
        };
        let (hook, failure) = match &done {
            Ok(_) => (operation.after(), None),
            Err(failure) => (Hook::OnFailure, Some(failure)),
        };
        if let Err(cause) = self.run(hook, operation, about, failure).await {
            tracing::warn!(database = about.database, hook = hook.name(), cause, "a hook failed");
        }
        done
    }

    /// Runs the program of one hook, if there is one.
    async fn run(
        &self,
        hook: Hook,
        operation: Operation,
        about: &About,
        failure: Option<&Failure>,
    ) -> Result<(), String> {
        let Some(words) = self.programs.get(&hook) else { return Ok(()) };
        let text = |of: fn(&Failure) -> &str| failure.map(of).unwrap_or_default().to_owned();
        let environment = [
            ("SEAWALL_HOOK", hook.name().to_owned()),
            ("SEAWALL_OPERATION", operation.name().to_owned()),
            ("SEAWALL_DATABASE", about.database.clone()),
            ("SEAWALL_SOURCE", about.source.clone()),
            ("SEAWALL_VAULT", about.vault.clone()),
            ("SEAWALL_TARGET", about.target.clone()),
            ("SEAWALL_ERROR_CODE", text(|failure| failure.code)),
            ("SEAWALL_ERROR_OBJECT", text(|failure| &failure.object)),
            ("SEAWALL_ERROR", text(|failure| &failure.cause)),
        ];
        let run = Run { words, environment: &environment, input: b"", limit: self.timeout };
        run_program(run).await.map_err(|failed| failed.to_string())
    }
}

/// The words to run. A shell gets one text; without a shell each text is a word.
fn program(hook: Hook, words: Vec<At<String>>, in_shell: bool) -> Result<Vec<String>, Location> {
    let wrong = |expected: &str, line| {
        let (expected, found) = (expected.to_owned(), "something else".to_owned());
        Problem::Value { key: hook.name().to_owned(), expected, found }.at(line)
    };
    let line = words.first().map_or(0, |word| word.line);
    if words.first().is_none_or(|word| word.value.is_empty()) || words.iter().any(|word| word.value.contains('\0')) {
        return Err(wrong("takes a program, or a list of a program and its arguments", line));
    }
    match (in_shell, words.len()) {
        (true, 1) => {
            let shell = ["/bin/sh".to_owned(), "-c".to_owned()].into_iter();
            Ok(shell.chain(words.into_iter().map(|word| word.value)).collect())
        }
        (true, _) => Err(wrong("takes one text where shell is true", line)),
        (false, _) => Ok(words.into_iter().map(|word| word.value).collect()),
    }
}

fn refused(operation: Operation, about: &About, cause: &str) -> Failure {
    let (before, name) = (operation.before().name(), operation.name());
    Failure::new(
        Kind::Refused,
        "hook.refused",
        &about.database,
        format!("the {name} was not begun, because the hook {before} failed: {cause}"),
        format!("look into what the program wrote to standard error, or remove {before} from the configuration"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hooks(text: &str) -> Result<Hooks, Location> {
        let mut fields = Fields::new("the top level", seawall_config::document::parse(text)?)?;
        let hooks = Hooks::take(&mut fields, &Hooks::default())?;
        fields.finish()?;
        Ok(hooks)
    }

    #[test]
    fn what_is_read_and_what_is_refused() {
        assert_eq!(hooks("{}"), Ok(Hooks::default()));
        let read =
            hooks("hooks: { before-backup: [/bin/a, 'hush b'], on-failure: /bin/c, timeout: 5s }").expect("hooks");
        assert_eq!(read.programs[&Hook::BeforeBackup], ["/bin/a", "hush b"]);
        assert_eq!(read.programs[&Hook::OnFailure], ["/bin/c"]);
        assert_eq!(read.timeout, Duration::from_secs(5));
        assert_eq!(format!("{read:?}"), "[\"before-backup\", \"on-failure\"]");
        let shell = hooks("hooks: { after-restore: 'a | b', shell: true }").expect("hooks");
        assert_eq!(shell.programs[&Hook::AfterRestore], ["/bin/sh", "-c", "a | b"]);
        assert_eq!(shell.timeout, TIMEOUT);
        for text in [
            "hooks: { before-backup: { a: hush } }",
            "hooks: { before-backup: [''] }",
            "hooks: { before-backup: [a, hush], shell: true }",
            "hooks: { before: hush }",
            "hooks: { before-backup: hush, timeout: 0s }",
            "hooks: [hush]",
        ] {
            let location = hooks(text).expect_err(text);
            assert!(!location.problem.to_string().contains("hush"), "{text}: {}", location.problem);
        }
    }

    #[tokio::test]
    async fn what_runs_around_an_operation() {
        let note = "printf '%s %s %s %s; ' \"$SEAWALL_HOOK\" \"$SEAWALL_DATABASE\" \"$SEAWALL_OPERATION\" \"$SEAWALL_ERROR_CODE\"";
        for (before, works, expected, code) in [
            ("true", true, "before-restore app restore ; work; after-restore app restore ; ", None),
            (
                "true",
                false,
                "before-restore app restore ; work; on-failure app restore stub.failed; ",
                Some("stub.failed"),
            ),
            ("false", true, "before-restore app restore ; on-failure app restore hook.refused; ", Some("hook.refused")),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("notes");
            let note = format!("{note} >> {}", file.display());
            let words = |script: &str| ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
            let programs = [
                (Hook::BeforeRestore, words(&format!("{note}; {before}"))),
                (Hook::AfterRestore, words(&format!("{note}; false"))),
                (Hook::OnFailure, words(&note)),
                (Hook::BeforeBackup, words("exit 1")),
            ];
            let hooks = Hooks { programs: programs.into_iter().collect(), timeout: TIMEOUT };
            let about = About { database: "app".to_owned(), ..About::default() };
            let done = hooks.around(Operation::Restore, &about, async {
                let mut known = notes_of(&file);
                known.push_str("work; ");
                rewrite(&file, &known);
                match works {
                    true => Ok(()),
                    false => Err(Failure::new(Kind::Unavailable, "stub.failed", "app", "it was told to", "nothing")),
                }
            });
            assert_eq!(done.await.map_err(|failure| failure.code).err(), code);
            assert_eq!(notes_of(&file), expected);
        }
    }

    #[expect(clippy::disallowed_methods, reason = "hooks leave notes in a file")]
    fn notes_of(file: &std::path::Path) -> String {
        std::fs::read_to_string(file).expect("notes")
    }

    #[expect(clippy::disallowed_methods, reason = "hooks leave notes in a file")]
    fn rewrite(file: &std::path::Path, text: &str) {
        std::fs::write(file, text).expect("written");
    }
}
