//! Where alarms begin, and how severe they are: the section `alarms` of a configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use seawall_config::{Fields, Location};
use seawall_core::{Severity, parse_duration};

/// Every alarm, with its key in a configuration.
pub const CODES: [&str; 24] = [
    "alarm.backup-overdue",
    "alarm.chain",
    "alarm.clock",
    "alarm.commits-wait",
    "alarm.credentials",
    "alarm.disk",
    "alarm.error",
    "alarm.failing",
    "alarm.folder",
    "alarm.halted",
    "alarm.hole",
    "alarm.lag",
    "alarm.locks-not-renewed",
    "alarm.proof-age",
    "alarm.proof-failed",
    "alarm.proof-unknown",
    "alarm.retention",
    "alarm.slot-unbounded",
    "alarm.stopped",
    "alarm.unsafe",
    "alarm.vault-behind",
    "alarm.vault-differs",
    "alarm.vault-set-back",
    "alarm.vault-weak",
];

/// Where alarms begin, and how severe they are. `None` switches an alarm off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// For how long a change may wait.
    pub lag: Option<Duration>,
    /// How late a backup of a schedule may be.
    pub backup_overdue: Option<Duration>,
    /// For how long one of several vaults may be behind.
    pub vault_behind: Option<Duration>,
    /// How often each of several vaults is looked at; `None`: only at a start.
    pub vault_look: Option<Duration>,
    /// How late a proof of a schedule may be.
    pub proof_age: Option<Duration>,
    /// For how long a new hole is told.
    pub hole: Option<Duration>,
    /// How long before their end credentials are told.
    pub credentials: Option<Duration>,
    /// How many bytes are to be free on the disk of the state directory.
    pub state_free: u64,
    /// Other severities than the alarms' own; `None` switches the alarm off.
    pub severity: BTreeMap<&'static str, Option<Severity>>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            lag: Some(Duration::from_secs(5 * 60)),
            backup_overdue: Some(Duration::from_secs(3600)),
            vault_behind: Some(Duration::from_secs(3600)),
            vault_look: Some(Duration::from_secs(3600)),
            proof_age: Some(Duration::from_secs(86_400)),
            hole: Some(Duration::from_secs(86_400)),
            credentials: Some(Duration::from_secs(3 * 86_400)),
            state_free: 100 << 20,
            severity: BTreeMap::new(),
        }
    }
}

impl Limits {
    /// The severity of an alarm that has this one by itself; `None` if it is switched off.
    pub(super) fn severity(&self, code: &str, own: Severity) -> Option<Severity> {
        self.severity.get(code).copied().unwrap_or(Some(own))
    }

    /// Takes the section `alarms` of a mapping; whatever it doesn't say is as in `common`.
    ///
    /// # Errors
    /// When a key is unknown, or a value isn't one that its key takes.
    pub fn take(fields: &mut Fields, common: &Self) -> Result<Self, Location> {
        let mut limits = common.clone();
        let Some(mut section) = fields.section("alarms")? else { return Ok(limits) };
        for (key, target) in [
            ("lag", &mut limits.lag),
            ("backup-overdue", &mut limits.backup_overdue),
            ("vault-behind", &mut limits.vault_behind),
            ("vault-look", &mut limits.vault_look),
            ("proof-age", &mut limits.proof_age),
            ("hole", &mut limits.hole),
            ("credentials", &mut limits.credentials),
        ] {
            if let Some(at) = section.parsed(key, "a time above zero with its unit, or off", or_off)? {
                *target = at.value;
            }
        }
        if let Some(at) = section.size("state-free")? {
            limits.state_free = at.value;
        }
        if let Some(mut severities) = section.section("severity")? {
            for code in CODES {
                if let Some(at) = severities.parsed(code, "warning, critical or off", severity)? {
                    limits.severity.insert(code, at.value);
                }
            }
            severities.finish()?;
        }
        section.finish()?;
        Ok(limits)
    }
}

fn or_off(text: &str) -> Option<Option<Duration>> {
    if text == "off" { Some(None) } else { parse_duration(text).filter(|span| !span.is_zero()).map(Some) }
}

fn severity(text: &str) -> Option<Option<Severity>> {
    if text == "off" {
        return Some(None);
    }
    [Severity::Warning, Severity::Critical].into_iter().find(|severity| severity.name() == text).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(text: &str, common: &Limits) -> Result<Limits, String> {
        let tree = seawall_config::document::parse(text).expect("a document");
        let mut fields = Fields::new("the top level", tree).expect("a mapping");
        let limits = Limits::take(&mut fields, common).map_err(|error| error.problem.to_string())?;
        fields.finish().map_err(|error| error.problem.to_string())?;
        Ok(limits)
    }

    #[test]
    fn a_database_says_only_what_differs() {
        let default = Limits::default();
        assert_eq!(take("{}", &default), Ok(default.clone()));
        let all = take(
            "alarms: { lag: 10s, vault-behind: 8d, proof-age: 2h, state-free: 1GB, severity: { alarm.lag: warning, alarm.disk: off } }",
            &default,
        )
        .expect("limits");
        assert_eq!((all.lag, all.backup_overdue), (Some(Duration::from_secs(10)), default.backup_overdue));
        assert_eq!(all.vault_behind, Some(Duration::from_secs(8 * 86_400)));
        assert_eq!(all.proof_age, Some(Duration::from_secs(7200)));
        let own = take("alarms: { lag: off, severity: { alarm.lag: critical } }", &all).expect("limits");
        assert_eq!((own.lag, own.vault_behind, own.state_free), (None, all.vault_behind, all.state_free));
        for (code, expected) in
            [("alarm.lag", Some(Severity::Critical)), ("alarm.disk", None), ("alarm.clock", Some(Severity::Warning))]
        {
            assert_eq!(own.severity(code, Severity::Warning), expected, "{code}");
        }
    }

    #[test]
    fn what_is_refused() {
        for text in [
            "alarms: { lagg: 5m }",
            "alarms: { lag: 5 }",
            "alarms: { lag: 0s }",
            "alarms: { lag: never }",
            "alarms: { state-free: many }",
            "alarms: { severity: { alarm.lagg: warning } }",
            "alarms: { severity: { alarm.lag: loud } }",
            "alarms: { severity: warning }",
            "alarms: off",
        ] {
            assert!(take(text, &Limits::default()).is_err(), "{text}");
        }
    }
}
