//! What a visitor may ask for, and what it is called. Pure, but for [`Order::carry_out`], which asks the process.

use std::sync::Arc;
use std::time::Duration;

use seawall_core::{Failure, Kind, parse_duration};
use seawall_engines::EngineConfig;

use super::page::cleaned;
use crate::control::Actions;
use crate::figures::{bytes, span};
use crate::fleet::Seen;

/// How long the process ships, or stops, before the page says that it takes too long.
const PATIENCE: Duration = Duration::from_secs(600);

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Sync,
    BackUp,
    Prove,
    Restore,
    Pin,
    Unpin,
    Silence,
    EndSilence,
    Start,
    Stop,
}

impl Deed {
    pub(super) const ALL: [Self; 10] = [
        Self::Sync,
        Self::BackUp,
        Self::Prove,
        Self::Restore,
        Self::Pin,
        Self::Unpin,
        Self::Silence,
        Self::EndSilence,
        Self::Start,
        Self::Stop,
    ];

    /// Its name in links and forms.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::BackUp => "backup",
            Self::Prove => "prove",
            Self::Restore => "restore",
            Self::Pin => "pin",
            Self::Unpin => "unpin",
            Self::Silence => "silence",
            Self::EndSilence => "end-silence",
            Self::Start => "start",
            Self::Stop => "stop",
        }
    }

    /// Its name on buttons.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Sync => "Sync",
            Self::BackUp => "Back up now",
            Self::Prove => "Prove now",
            Self::Restore => "Restore beside the original",
            Self::Pin => "Pin a point",
            Self::Unpin => "Remove a pin",
            Self::Silence => "Silence alarms",
            Self::EndSilence => "End the silence",
            Self::Start => "Start protection",
            Self::Stop => "Stop protection",
        }
    }

    /// What happens, in a sentence or two.
    pub(super) fn explained(self) -> &'static str {
        match self {
            Self::Sync => "Ships what is committed now, and waits until it is in the vault.",
            Self::BackUp => "Makes a complete backup of the server's database, or a base of the cluster, now.",
            Self::Prove => {
                "Restores the newest point into a folder that is thrown away, checks the result, and records it in the vault. \
                 That needs room for the whole database."
            }
            Self::Restore => {
                "Restores a new file or folder beside the original, which stays as it is. If the new one is there already, nothing \
                 is done. In a folder that is followed, the new one is protected too."
            }
            Self::Pin => "Keeps the point, and what its restore needs, until the pin is removed.",
            Self::Unpin => "Lets retention delete the point when it is old enough.",
            Self::Silence => "Alarms of this database aren't told for this time. The page shows them all the same.",
            Self::EndSilence => "Alarms of this database are told again.",
            Self::Start => "Starts the protection that was stopped, or ended.",
            Self::Stop => {
                "Ships what is committed, and protects nothing after that until somebody starts the protection again, or the process \
                 starts again."
            }
        }
    }

    /// Whether it needs a moment.
    pub(super) fn takes_moment(self) -> bool {
        matches!(self, Self::Restore | Self::Pin | Self::Unpin)
    }

    /// Whether it needs a time.
    pub(super) fn takes_span(self) -> bool {
        self == Self::Silence
    }

    /// Whether it can be asked for with this database.
    pub(super) fn suits(self, member: &Seen, is_silenced: bool) -> bool {
        let engine = &member.config.engine;
        match self {
            Self::Sync => !matches!(engine, EngineConfig::Server(_)),
            Self::Restore => member.config.path().is_some(),
            Self::BackUp => matches!(engine, EngineConfig::Server(_) | EngineConfig::Cluster(_)),
            Self::Pin | Self::Unpin => !matches!(engine, EngineConfig::Lmdb(_)),
            Self::Prove => true,
            Self::Silence => true,
            Self::EndSilence => is_silenced,
            Self::Start => !member.running && !member.coming,
            Self::Stop => member.running,
        }
    }

    /// The deed with a name.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|deed| deed.word() == word)
    }
}

/// What a visitor asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) deed: Deed,
    /// The database's name.
    pub(super) name: String,
    /// The moment, if the deed needs one.
    pub(super) at: String,
    /// The time, if the deed needs one.
    pub(super) span: Option<Duration>,
}

impl Order {
    /// Reads the fields of a form for the database `name`. `typed` is what the visitor typed to confirm it.
    ///
    /// # Errors
    /// When the name wasn't typed, or a field is wrong.
    pub(super) fn read(deed: Deed, name: &str, typed: &str, at: &str, span: &str) -> Result<Self, Failure> {
        // The page writes characters out that a reader wouldn't see, so a person types what it shows.
        if typed.trim() != cleaned(name).trim() {
            let cause = "the name that was typed isn't the database's, so nothing was done";
            let next = "go back, and type the name exactly as it is shown";
            return Err(Failure::new(Kind::Usage, "agent.not-confirmed", name, cause, next));
        }
        let at = at.trim();
        if deed.takes_moment() && at.is_empty() {
            let next = "give one such as latest, 2026-11-21T10:00:00Z, or a position of the timeline";
            return Err(Failure::new(Kind::Usage, "usage.when", name, "no moment is given", next));
        }
        let span = match deed.takes_span() {
            false => None,
            true => Some(parse_duration(span.trim()).ok_or_else(|| {
                let cause = format!("\"{}\" is no time", span.trim());
                Failure::new(Kind::Usage, "usage.silence", name, cause, "give one such as 2h or 3d")
            })?),
        };
        let at = if deed.takes_moment() { at.to_owned() } else { String::new() };
        Ok(Self { deed, name: name.to_owned(), at, span })
    }

    /// Does it. What was done, for people.
    pub(super) async fn carry_out(self, actions: Arc<Actions>) -> Result<String, Failure> {
        let Self { deed, name, at, span: time } = self;
        Ok(match deed {
            Deed::Sync => {
                let synced = actions.sync(&name, true, Some(PATIENCE)).await?;
                let is_new = synced.status == "synced";
                format!("Everything that was committed is in the vault{}.", if is_new { "" } else { " already" })
            }
            Deed::BackUp => {
                actions.back_up(&name).await?;
                "The backup is in the vault.".to_owned()
            }
            Deed::Prove => {
                let proof = actions.prove(&name).await?;
                let point = proof.point.map(|point| point.position).unwrap_or_default();
                let (size, time, level) = (bytes(proof.restored_bytes), span(proof.restore_ms), proof.level.name());
                format!("The point {point} was restored, {size} in {time}, and checked: level {level}.")
            }
            Deed::Restore => {
                let restored = actions.restore_beside(&name, &at).await?;
                let (output, size) = (restored.output.display(), bytes(restored.bytes));
                format!(
                    "{output} holds the point {}, {size}, in {}.",
                    restored.point.position,
                    span(restored.duration_ms)
                )
            }
            Deed::Pin => format!("The point {} is pinned.", actions.pin(&name, &at, true).await?),
            Deed::Unpin => format!("The point {} isn't pinned any more.", actions.pin(&name, &at, false).await?),
            Deed::Silence | Deed::EndSilence => match actions.silence(&name, time).await?.silenced_until {
                Some(until) => format!("Its alarms are silenced until {until}."),
                None => "Its alarms are told again.".to_owned(),
            },
            Deed::Start => {
                let started = actions.start(&name).await?.status == "started";
                format!("It is protected{}.", if started { "" } else { " already" })
            }
            Deed::Stop => {
                let stopped = actions.stop(&name, Some(PATIENCE)).await?.status == "stopped";
                format!("Its protection is stopped{}.", if stopped { "" } else { " already" })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for deed in Deed::ALL {
            assert_eq!(Deed::parse(deed.word()), Some(deed));
        }
        assert_eq!(Deed::parse("delete"), None);
    }

    #[test]
    fn what_a_form_must_say() {
        for (deed, typed, at, span, expected) in [
            (Deed::Sync, "app", "", "", Ok(("", None))),
            (Deed::Sync, " app ", "latest", "2h", Ok(("", None))),
            (Deed::Sync, "App", "", "", Err("agent.not-confirmed")),
            (Deed::Sync, "", "", "", Err("agent.not-confirmed")),
            (Deed::Restore, "app", " latest ", "", Ok(("latest", None))),
            (Deed::Restore, "app", " ", "", Err("usage.when")),
            (Deed::Silence, "app", "", "2h", Ok(("", Some(7200)))),
            (Deed::Silence, "app", "", "for ever", Err("usage.silence")),
            (Deed::EndSilence, "app", "", "", Ok(("", None))),
        ] {
            let read = Order::read(deed, "app", typed, at, span);
            let read = read.as_ref().map(|order| (order.at.as_str(), order.span.map(|span| span.as_secs())));
            assert_eq!(read.map_err(|failure| failure.code), expected, "{deed:?} {typed}");
        }
    }
}
