//! What a check says, and what all of them mean together.

use serde::Serialize;

use crate::exit::Exit;
use crate::table;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// Nothing to do.
    Fine,
    /// It works now, and will not, or not as promised.
    Warning,
    /// Something isn't protected, or couldn't be restored, now.
    Wrong,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Warning => "warning",
            Self::Wrong => "wrong",
        }
    }
}

/// What one check found about one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The check's name; stable.
    pub(super) check: &'static str,
    /// What was looked at.
    pub(super) object: String,
    pub(super) verdict: Verdict,
    /// What it means, in one sentence without a full stop.
    pub(super) meaning: String,
    /// The command or the step that mends it; empty where there is nothing to mend.
    pub(super) next: String,
}

impl Finding {
    pub(super) fn fine(check: &'static str, object: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self::new(check, object, Verdict::Fine, meaning, "")
    }

    pub(super) fn warning(
        check: &'static str,
        object: impl Into<String>,
        meaning: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self::new(check, object, Verdict::Warning, meaning, next)
    }

    pub(super) fn wrong(
        check: &'static str,
        object: impl Into<String>,
        meaning: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self::new(check, object, Verdict::Wrong, meaning, next)
    }

    fn new(
        check: &'static str,
        object: impl Into<String>,
        verdict: Verdict,
        meaning: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { check, object: object.into(), verdict, meaning: meaning.into(), next: next.into() }
    }
}

/// The exit code: the gravest finding decides.
pub(super) fn exit(findings: &[Finding]) -> Exit {
    match findings.iter().map(|finding| finding.verdict).max() {
        None | Some(Verdict::Fine) => Exit::Done,
        Some(Verdict::Warning) => Exit::Failed,
        Some(Verdict::Wrong) => Exit::Usage,
    }
}

/// For people: what is to be mended with its step, the gravest first, and then what was found to be fine.
pub(super) fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for verdict in [Verdict::Wrong, Verdict::Warning] {
        for finding in findings.iter().filter(|finding| finding.verdict == verdict) {
            let Finding { check, object, meaning, next, .. } = finding;
            text += &format!("{} [{check}] {}: {meaning}\n", verdict.name(), object.replace('\n', "\\n"));
            text += &format!("    next: {next}\n");
        }
    }
    for finding in findings.iter().filter(|finding| finding.verdict == Verdict::Fine) {
        text += &format!("fine [{}] {}: {}\n", finding.check, finding.object.replace('\n', "\\n"), finding.meaning);
    }
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let checks = table::count(findings.len(), "check");
    text + &format!("{checks}: {} wrong, {} to look after\n", count(Verdict::Wrong), count(Verdict::Warning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_decides_and_comes_first() {
        let fine = Finding::fine("process", "1", "it runs");
        let warning = Finding::warning("limits", "files", "few", "raise it");
        let wrong = Finding::wrong("source", "/a\nb", "it can't be read", "chmod");
        for (findings, expected) in [
            (vec![], Exit::Done),
            (vec![fine.clone()], Exit::Done),
            (vec![fine.clone(), warning.clone()], Exit::Failed),
            (vec![wrong.clone(), fine.clone(), warning.clone()], Exit::Usage),
        ] {
            assert_eq!(exit(&findings), expected);
        }
        assert_eq!(
            text(&[fine, warning, wrong]),
            "wrong [source] /a\\nb: it can't be read\n    next: chmod\n\
             warning [limits] files: few\n    next: raise it\n\
             fine [process] 1: it runs\n\
             3 checks: 1 wrong, 1 to look after\n"
        );
    }
}
