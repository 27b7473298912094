//! Maps results to the process's exit code.

use std::process::ExitCode;

use seawall_core::{Failure, Kind};

/// The exit codes of every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything was done.
    Done,
    /// Nothing was done, or something must not be relied on.
    Failed,
    /// The command, an argument or the configuration is wrong; nothing was tried.
    Usage,
    /// Some databases were done, others not.
    Partly,
    /// There was nothing to do, or the named thing doesn't exist.
    NotFound,
    /// Stopped by the user or the system before the end.
    Interrupted,
    /// The exit code of the program of `--exec`.
    Child(u8),
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Partly => 3,
            Self::NotFound => 4,
            Self::Interrupted => 130,
            Self::Child(code) => code,
        }
    }

    /// What Lightning Stream would say: it knows done and failed.
    pub(crate) fn as_original(self) -> Self {
        match self {
            Self::Usage | Self::Partly | Self::NotFound => Self::Failed,
            other => other,
        }
    }

    /// What a `restore_command` says: PostgreSQL takes 1 to 125 for a proof that the archive has no such file. The command gives
    /// that proof itself.
    pub(crate) fn as_restore_command(self) -> Self {
        match self {
            Self::Done | Self::Child(_) => self,
            // As a shell reports SIGTERM: PostgreSQL then ends quietly.
            Self::Interrupted => Self::Child(143),
            Self::Failed | Self::Usage | Self::Partly | Self::NotFound => Self::Child(126),
        }
    }

    /// The exit code for a failure of the whole command.
    pub(crate) fn of(kind: Kind) -> Self {
        match kind {
            Kind::Usage => Self::Usage,
            Kind::NotFound => Self::NotFound,
            Kind::Interrupted => Self::Interrupted,
            Kind::Refused | Kind::Conflict | Kind::Corrupt | Kind::Denied | Kind::Unavailable | Kind::Internal => {
                Self::Failed
            }
            _ => Self::Failed,
        }
    }

    /// What one result means: it failed if something must not be relied on, and is partly done if something was left out.
    pub(crate) fn judge(is_sound: bool, is_whole: bool) -> Self {
        match (is_sound, is_whole) {
            (false, _) => Self::Failed,
            (true, false) => Self::Partly,
            (true, true) => Self::Done,
        }
    }

    /// The worst of several results of which each counts for the whole.
    pub(crate) fn worst(exits: &[Self]) -> Self {
        Self::judge(!exits.contains(&Self::Failed), !exits.contains(&Self::Partly))
    }

    /// The exit code for several databases: if all results are alike, that of one; otherwise partly done. An
    /// interruption always wins.
    pub(crate) fn of_all<'f>(results: impl IntoIterator<Item = Result<(), &'f Failure>>) -> Self {
        let codes: Vec<Self> = results
            .into_iter()
            .map(|result| result.map_or_else(|failure| Self::of(failure.kind), |()| Self::Done))
            .collect();
        let all = |wanted: Self| codes.iter().all(|code| *code == wanted);
        if codes.is_empty() {
            Self::NotFound
        } else if codes.contains(&Self::Interrupted) {
            Self::Interrupted
        } else if all(Self::Done) {
            Self::Done
        } else if codes.contains(&Self::Done) {
            Self::Partly
        } else if all(Self::NotFound) {
            Self::NotFound
        } else if all(Self::Usage) {
            Self::Usage
        } else {
            Self::Failed
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: Kind) -> Failure {
        Failure::new(kind, "test.code", "object", "cause", "next")
    }

    #[test]
    fn each_kind_has_its_code() {
        for (kind, code) in [
            (Kind::Usage, 2),
            (Kind::NotFound, 4),
            (Kind::Refused, 1),
            (Kind::Conflict, 1),
            (Kind::Corrupt, 1),
            (Kind::Denied, 1),
            (Kind::Unavailable, 1),
            (Kind::Interrupted, 130),
            (Kind::Internal, 1),
        ] {
            assert_eq!(Exit::of(kind).code(), code, "{kind:?}");
        }
    }

    #[test]
    fn only_a_proof_is_an_absence_for_postgresql() {
        for (exit, code) in [
            (Exit::Done, 0),
            (Exit::Child(1), 1),
            (Exit::Failed, 126),
            (Exit::Usage, 126),
            (Exit::Partly, 126),
            (Exit::NotFound, 126),
            (Exit::Interrupted, 143),
        ] {
            assert_eq!(exit.as_restore_command().code(), code, "{exit:?}");
        }
    }

    #[test]
    fn several_results_make_one_code() {
        let away = failure(Kind::Unavailable);
        let gone = failure(Kind::NotFound);
        let stopped = failure(Kind::Interrupted);
        for (results, code) in [
            (vec![], 4),
            (vec![Ok(())], 0),
            (vec![Ok(()), Ok(())], 0),
            (vec![Ok(()), Err(&away)], 3),
            (vec![Err(&away), Err(&away)], 1),
            (vec![Err(&gone)], 4),
            (vec![Err(&gone), Err(&away)], 1),
            (vec![Ok(()), Err(&stopped)], 130),
        ] {
            assert_eq!(Exit::of_all(results.iter().copied()).code(), code, "{results:?}");
        }
    }
}
