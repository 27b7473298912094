//! `seawall verify`: reads every object back.

use std::sync::Arc;

use seawall_agent::ask;
use seawall_core::{Engine, Failure, Kind, Locks, Progress, StrongVerification, Verification};
use serde_json::{Value, json};

use super::verify_all;

use crate::arguments::VerifyArguments;
use crate::edge::Edge;
use crate::exit::Exit;
use crate::output::{Output, to_json};
use crate::progress::progress;
use crate::source::Source;
use crate::{runtime, table};

/// Runs the command.
pub(crate) fn run(arguments: &VerifyArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    if let Some(dump) = super::outside::look(&arguments.source, arguments.encryption_key_file.as_deref(), edge)? {
        return super::outside::verify(arguments, &dump, edge, json);
    }
    let source = Source::find(&arguments.source, &arguments.config, edge)?.past(&arguments.past)?;
    if arguments.restore {
        return super::prove::run(arguments, source, edge, json);
    }
    let opener = edge.opener(runtime::working())?;
    let progress = progress(edge, json);
    runtime::run(async {
        let each = source.each();
        if each.len() > 1 {
            return Ok(verify_all::output(&verify_all::each(arguments, &each, &opener, edge, json).await));
        }
        // A place that holds no database may hold several, each below its name.
        let below = async || match &source {
            Source::Vault(place) => verify_all::below(arguments, place, &opener, edge, json).await,
            _ => Ok(None),
        };
        let engine = match source.open(&opener).await {
            Ok(engine) => engine,
            // Above several encrypted vaults there is no marker.
            Err(failure) if failure.code == "vault.not-encrypted" => {
                return below().await?.map(|all| verify_all::output(&all)).ok_or(failure);
            }
            Err(failure) => return Err(failure),
        };
        let vault = engine.describe().vault;
        let found = match read(&*engine, arguments, progress).await {
            Ok(found) if !found.is_nothing() => found,
            Err(failure) if failure.kind != Kind::NotFound => return Err(failure),
            nothing => {
                if let Some(all) = below().await? {
                    return Ok(verify_all::output(&all));
                }
                return Err(nothing.err().unwrap_or_else(|| super::timeline::nothing(&vault)));
            }
        };
        let mut document = found.document();
        let locks = engine.history().locks().await?;
        if let Some(fields) = document.as_object_mut() {
            fields.insert("vault".into(), json!(vault));
            fields.insert("locks".into(), to_json(&locks));
        }
        let text = found.text(&vault) + &locks.as_ref().map(locked).unwrap_or_default();
        Ok(Output { text, failures: Vec::new(), json: document, exit: found.exit() })
    })
}

/// Reads everything back, as strictly as was asked for.
pub(super) async fn read(
    engine: &dyn Engine,
    arguments: &VerifyArguments,
    progress: Arc<dyn Progress>,
) -> Result<Found, Failure> {
    Ok(if arguments.strong {
        Found::Strong(ask::digests(engine)?.verify_strong(progress).await?)
    } else {
        Found::Plain(engine.history().verify(progress).await?)
    })
}

/// The findings of either way.
pub(super) enum Found {
    Plain(Verification),
    Strong(StrongVerification),
}

impl Found {
    fn verification(&self) -> &Verification {
        match self {
            Found::Plain(verification) => verification,
            Found::Strong(strong) => &strong.verification,
        }
    }

    fn is_nothing(&self) -> bool {
        let verification = self.verification();
        verification.objects == 0 && verification.findings.is_empty()
    }

    /// For programs.
    pub(super) fn document(&self) -> Value {
        match self {
            Found::Plain(verification) => to_json(verification),
            Found::Strong(strong) => to_json(strong),
        }
    }

    /// For people.
    pub(super) fn text(&self, vault: &str) -> String {
        render(vault, self.verification()) + &self.digests()
    }

    /// An unreliable object is a failure, and so is a vault from which nothing can be restored. An object that couldn't
    /// be compared makes the result partial.
    pub(super) fn exit(&self) -> Exit {
        let verification = self.verification();
        let is_sound = verification.findings.is_empty() && verification.newest.is_some();
        let is_whole = !matches!(self, Found::Strong(strong) if !strong.without_digest.is_empty());
        Exit::judge(is_sound, is_whole)
    }

    /// The lines about digests.
    fn digests(&self) -> String {
        let Found::Strong(strong) = self else { return String::new() };
        let compared = usize::try_from(strong.compared).unwrap_or(usize::MAX);
        let mut text = format!("{} compared with their BLAKE3\n", table::count(compared, "object"));
        for object in &strong.without_digest {
            text += &format!("{object}: none was kept beside it\n");
        }
        text
    }
}

/// Until when the store itself keeps what a restore of the newest point reads.
fn locked(locks: &Locks) -> String {
    let Locks { versions, lock_s, mode, objects, locked, until } = locks;
    let objects = table::count(usize::try_from(*objects).unwrap_or(usize::MAX), "object");
    let held = match (until, locked) {
        (Some(until), _) => format!("the {objects} of the newest point can't be changed before {until}"),
        (None, 0) => format!("none of the {objects} of the newest point is locked"),
        (None, locked) => format!("{locked} of the {objects} of the newest point are locked"),
    };
    let each = match (lock_s, mode) {
        (Some(seconds), Some(mode)) => {
            let span = table::span(seconds.saturating_mul(1000));
            format!("; each new object is locked for {span} ({mode})")
        }
        _ => String::new(),
    };
    let kept = if *versions == Some(true) { "; the bucket keeps earlier versions" } else { "" };
    format!("{held}{each}{kept}\n")
}

pub(super) fn render(vault: &str, verification: &Verification) -> String {
    let Verification { newest, objects, bytes, findings, doubts, .. } = verification;
    let doubts: String = doubts.iter().map(|doubt| format!("can't be told: {doubt}\n")).collect();
    let read = format!(
        "{} ({}) read",
        table::count(usize::try_from(*objects).unwrap_or(usize::MAX), "object"),
        table::bytes(*bytes)
    );
    let newest = newest
        .as_ref()
        .map_or("no point can be restored".to_owned(), |point| format!("newest point {}", table::point(point)));
    if findings.is_empty() {
        return format!("{vault}: {read}, nothing wrong, {newest}\n{doubts}");
    }
    let row =
        |finding: &seawall_core::Finding| vec![finding.code.to_owned(), finding.object.clone(), finding.cause.clone()];
    let rows = findings.iter().map(row).collect();
    let table = table::table(&["code", "object", "what is wrong"], rows, &[]);
    format!("{table}\n{vault}: {read}, {} wrong, {newest}\n{doubts}", table::count(findings.len(), "thing"))
}

#[cfg(test)]
mod tests {
    use seawall_core::{Finding, Moment, Point};

    use super::*;

    #[test]
    fn findings_are_listed_and_fail() {
        let newest = Some(Point { position: "01".into(), moment: Moment::from_millis(0) });
        let mut verification = Verification {
            at: Moment::from_millis(0),
            newest,
            objects: 2,
            bytes: 10,
            findings: Vec::new(),
            doubts: Vec::new(),
        };
        assert_eq!(Found::Plain(verification.clone()).exit(), Exit::Done);
        assert_eq!(
            render("file:///v", &verification),
            "file:///v: 2 objects (10 B) read, nothing wrong, newest point 1970-01-01T00:00:00.000Z (01)\n"
        );
        verification.findings.push(Finding { code: "ltx.checksum", object: "a".into(), cause: "it differs".into() });
        assert_eq!(Found::Plain(verification.clone()).exit(), Exit::Failed);
        let text = render("file:///v", &verification);
        assert!(text.contains("ltx.checksum  a       it differs"), "{text}");
        assert!(text.contains("1 thing wrong"), "{text}");
    }

    #[test]
    fn locks_are_told() {
        let locks = |locked, until: Option<i64>, lock_s: Option<u64>| Locks {
            versions: Some(true),
            lock_s,
            mode: lock_s.map(|_| "compliance".to_owned()),
            objects: 3,
            locked,
            until: until.map(Moment::from_millis),
        };
        for (found, expected) in [
            (
                locks(3, Some(0), Some(86_400)),
                "the 3 objects of the newest point can't be changed before 1970-01-01T00:00:00.000Z; each new object is \
                 locked for 1 d 0 h (compliance); the bucket keeps earlier versions\n",
            ),
            (
                locks(2, None, None),
                "2 of the 3 objects of the newest point are locked; the bucket keeps earlier versions\n",
            ),
            (
                locks(0, None, None),
                "none of the 3 objects of the newest point is locked; the bucket keeps earlier versions\n",
            ),
        ] {
            assert_eq!(locked(&found), expected);
        }
    }

    #[test]
    fn what_has_no_digest_was_not_compared() {
        let newest = Some(Point { position: "01".into(), moment: Moment::from_millis(0) });
        let at = Moment::from_millis(0);
        let verification = Verification { at, newest, objects: 2, bytes: 10, findings: Vec::new(), doubts: Vec::new() };
        let mut strong = StrongVerification { verification, compared: 2, without_digest: Vec::new() };
        assert_eq!(Found::Strong(strong.clone()).exit(), Exit::Done);
        (strong.compared, strong.without_digest) = (1, vec!["a.ltx".to_owned()]);
        let found = Found::Strong(strong);
        assert_eq!(found.exit(), Exit::Partly);
        assert_eq!(found.digests(), "1 object compared with their BLAKE3\na.ltx: none was kept beside it\n");
    }
}
