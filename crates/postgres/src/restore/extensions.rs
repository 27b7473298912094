//! The first step of a restore, in one transaction: schemas, extensions, then everything else that comes before rows.
//!
//! Each extension is made after a savepoint. The server may refuse an extension to a role without a superuser's rights;
//! only the server knows whether a provider allows it. If nothing in the set needs a refused extension, it is left out
//! with the rows of its configuration, and named.

use std::collections::BTreeSet;

use crate::catalog::rights;
use crate::client::Connection;
use crate::client::tried::{Refused, is_about_the_statement};
use crate::detail::ItemDetail;
use crate::journal::Journal;
use crate::load::order;
use crate::load::restore_mode;
use crate::load::restore_mode::Mode;
use crate::preflight::grantors;
use crate::quote::literal;
use crate::restore::later::{self, Later};
use crate::restore::scope::Scope;
use crate::restore::set::Set;
use crate::restore::steps::run_noted;
use crate::schema::allowed::{self, with_dependents};
use crate::schema::diagnose;
use crate::schema::guard;
use crate::schema::replica;
use crate::schema::toc::{Entry, Section};
use crate::schema::{AS_BEFORE, for_the_server};
use crate::{Error, World};

/// The beginning of the note about statements that wait until the database has its name.
const WAITS: &str = "waits";

/// The note that the schema was made by a role that is no superuser.
pub(crate) const PLAINLY: &str = "without a superuser";

impl Set {
    /// Makes everything that comes before rows. `others` are made later, each by itself.
    #[expect(clippy::too_many_arguments, reason = "what a step is told")]
    pub(crate) async fn make_schema(
        &self,
        connection: &mut Connection,
        journal: &Journal,
        what: &Scope<'_>,
        others: &BTreeSet<u32>,
        superuser: bool,
        world: &World,
        modes: &mut Vec<Mode>,
    ) -> Result<Vec<Refused>, Error> {
        if journal.has("schema") {
            if let Some(later) = journal.said(WAITS) {
                let wrong = |error| Error::Internal(format!("what waits, in the journal: {error}"));
                let _ = what.later.set(serde_json::from_str(later).map_err(wrong)?);
            }
            return Ok(journal.left_out());
        }
        let in_order = !replica::may(connection).await?;
        let is_first = |entry: &Entry| entry.section == Section::Before && !entry.is_grant() && what.has(entry);
        let entries: Vec<&Entry> = self.schema.entries.iter().filter(|entry| is_first(entry)).collect();
        let extensions: Vec<&Entry> = entries.iter().copied().filter(|entry| entry.kind == "EXTENSION").collect();
        if connection.guard.is_some() {
            let is_early =
                |entry: &Entry| !extensions.is_empty() && matches!(entry.kind.as_str(), "SCHEMA" | "EXTENSION");
            let wanted = |entry: &Entry| is_first(entry) && !others.contains(&entry.id);
            let early = self.schema.script(|entry| wanted(entry) && is_early(entry), what.options, world).await?;
            guard::script(connection, &for_the_server(&early, connection.version), false).await?;
            *modes = restore_mode::begin(connection).await?;
            let script = self.schema.script(|entry| wanted(entry) && !is_early(entry), what.options, world).await?;
            return run_noted(connection, journal, "schema", &script).await.map(|()| Vec::new());
        }
        let is_schema = |entry: &Entry| is_first(entry) && entry.kind == "SCHEMA" && !others.contains(&entry.id);
        let mut left: BTreeSet<u32> = others.clone();
        let (mut done, mut refused) = (Vec::new(), Vec::new());
        connection.execute("BEGIN").await?;
        if !extensions.is_empty() {
            let script = self.schema.script(is_schema, what.options, world).await?;
            self.run_part(connection, &mut done, for_the_server(&script, connection.version)).await?;
            left.extend(self.schema.entries.iter().filter(|entry| is_schema(entry)).map(|entry| entry.id));
        }
        let all: Vec<&Entry> = self.schema.entries.iter().filter(|entry| what.has(entry)).collect();
        let mut waiting: Vec<&Entry> = Vec::new();
        for extension in extensions {
            if waiting.iter().any(|other| with_dependents(&all, other.id).contains(&extension.id)) {
                continue;
            }
            left.insert(extension.id);
            connection.execute("SAVEPOINT extension").await?;
            let Err(error) = connection.execute(&extension.statement).await else {
                done.push(extension.statement.clone().into_bytes());
                continue;
            };
            if what.may_wait && later::may_be_the_name(&error) {
                connection.execute("ROLLBACK TO SAVEPOINT extension").await?;
                waiting.push(extension);
                continue;
            }
            let its = with_dependents(&all, extension.id);
            let needing: Vec<String> = all
                .iter()
                .filter(|entry| entry.id != extension.id && its.contains(&entry.id) && !allowed::is_said(entry))
                .map(|entry| allowed::name(entry))
                .collect();
            if superuser || !needing.is_empty() || !is_about_the_statement(&error) {
                let why = match needing.is_empty() {
                    true => String::new(),
                    false => format!(", needed by {}", rights::shown(&needing)),
                };
                connection.execute("ROLLBACK").await?;
                return Err(error.about(format!("extension {}{why}", extension.tag)));
            }
            connection.execute("ROLLBACK TO SAVEPOINT extension").await?;
            left.extend(its);
            refused.push((format!("extension {}", extension.tag), error.cause()));
        }
        let mut later = Later::of(&all, &waiting);
        if !waiting.is_empty() {
            left.extend(&later.entries);
        }
        *modes = restore_mode::begin(connection).await?;
        let script =
            self.schema.script(|entry| is_first(entry) && !left.contains(&entry.id), what.options, world).await?;
        self.run_part(connection, &mut done, for_the_server(&script, connection.version)).await?;
        let mut end = String::new();
        if !waiting.is_empty() {
            later.relations.extend(self.missing(connection).await?);
            let text =
                serde_json::to_string(&later).map_err(|error| Error::Internal(format!("what waits: {error}")))?;
            end = format!("{};\n", journal.note(&format!("{WAITS} {text}")));
            let _ = what.later.set(later);
        }
        if in_order {
            let tables = self.others(what).map(|(schema, name)| (schema.to_owned(), name.to_owned())).collect();
            if let Err(error) = order::of(connection, &tables).await {
                connection.execute("ROLLBACK").await?;
                return Err(error);
            }
        }
        for (what, cause) in &refused {
            end.push_str(&format!("{};\n", journal.note_left_out(what, cause)));
        }
        if !superuser {
            end.push_str(&format!("{};\n", journal.note(PLAINLY)));
        }
        connection.execute(&format!("{end}{};\nCOMMIT", journal.note("schema"))).await?;
        connection.execute(AS_BEFORE).await?;
        Ok(refused)
    }

    /// Runs a part of the step's transaction.
    async fn run_part(
        &self,
        connection: &mut Connection,
        done: &mut Vec<Vec<u8>>,
        script: Vec<u8>,
    ) -> Result<(), Error> {
        let ran = connection.run(&script).await.map(|asks| asks.is_some());
        match ran {
            Err(error) => Err(diagnose::find(connection, done, &script, error).await),
            Ok(true) => Err(Error::Internal("a schema asks for rows".to_owned())),
            Ok(false) => {
                done.push(script);
                Ok(())
            }
        }
    }

    /// Tables and sequences of extensions that were left out, because their rows and values have no place. While some
    /// extensions wait, this includes every extension that isn't there yet.
    pub(crate) async fn without_place(
        &self,
        connection: &mut Connection,
        what: &Scope<'_>,
        refused: &[Refused],
    ) -> Result<BTreeSet<(String, String)>, Error> {
        let some_wait = what.later.get().is_some();
        let is_refused = refused.iter().any(|(what, _)| what.starts_with("extension "));
        if some_wait && !what.is_later || !some_wait && !is_refused {
            return Ok(BTreeSet::new());
        }
        let missing = self.missing(connection).await?;
        Ok(missing.into_iter().filter(|(schema, name)| what.is_now(schema, name)).collect())
    }

    /// Tables and sequences of the set that have no entry, because they are extensions', and that aren't there.
    async fn missing(&self, connection: &mut Connection) -> Result<BTreeSet<(String, String)>, Error> {
        let has_entry = |schema: &str, name: &str| {
            self.schema.entries.iter().any(|entry| {
                matches!(entry.kind.as_str(), "TABLE" | "SEQUENCE")
                    && (entry.schema.as_str(), entry.tag.as_str()) == (schema, name)
            })
        };
        let tables = self.items.iter().filter_map(|item| match item {
            ItemDetail::Table { schema, name, .. } => Some((schema.as_str(), name.as_str())),
            _ => None,
        });
        let sequences = self.after.sequences.iter().map(|sequence| (sequence.schema.as_str(), sequence.name.as_str()));
        let wanted: BTreeSet<(&str, &str)> =
            tables.chain(sequences).filter(|(schema, name)| !has_entry(schema, name)).collect();
        if wanted.is_empty() {
            return Ok(BTreeSet::new());
        }
        let names: Vec<String> =
            wanted.iter().map(|(schema, name)| format!("({}, {})", literal(schema), literal(name))).collect();
        let sql = format!(
            "SELECT w.schema, w.name FROM (VALUES {}) w(schema, name) WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class c \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = w.schema AND c.relname = w.name)",
            names.join(", ")
        );
        let rows = connection.query(&sql).await?;
        Ok(rows.iter().map(|row| (row.text(0).to_owned(), row.text(1).to_owned())).collect())
    }

    /// Makes the statements that may be refused, each in a transaction of its own. Returns the refused ones.
    pub(crate) async fn make_tried(
        &self,
        connection: &mut Connection,
        journal: &Journal,
        what: &Scope<'_>,
        groups: &[allowed::Group],
        world: &World,
    ) -> Result<Vec<Refused>, Error> {
        let mut all = Vec::new();
        for group in groups {
            let step = format!("tried {}", group.ids.first().copied().unwrap_or_default());
            if journal.has(&step) {
                continue;
            }
            let refused = self.make_group(connection, journal, what, group, &step, world).await?;
            all.extend(refused);
        }
        connection.execute(AS_BEFORE).await?;
        Ok(all)
    }

    async fn make_group(
        &self,
        connection: &mut Connection,
        journal: &Journal,
        what: &Scope<'_>,
        group: &allowed::Group,
        step: &str,
        world: &World,
    ) -> Result<Option<Refused>, Error> {
        let without = crate::RestoreOptions { owners: false, ..what.options.clone() };
        let ways = match group.owned && what.options.owners {
            true => &[what.options, &without][..],
            false => &[what.options],
        };
        let mut refused: Option<Refused> = None;
        for options in ways {
            let wanted = |entry: &Entry| group.ids.contains(&entry.id) && what.has(entry);
            let script = grantors::by_set_role(self.schema.script(wanted, options, world).await?);
            let script = for_the_server(&script, connection.version);
            let note = refused
                .as_ref()
                .map_or(String::new(), |(what, cause)| journal.note_left_out(&format!("owner of {what}"), cause) + ";");
            let mut sql = b"BEGIN;\n".to_vec();
            sql.extend_from_slice(&script);
            sql.extend_from_slice(format!("\n;\n{note}{};\nCOMMIT", journal.note(step)).as_bytes());
            connection.not_granted = None;
            let done = connection.run(&sql).await.map(drop);
            match done {
                Ok(()) => {
                    let quietly = connection.not_granted.take().map(|cause| (group.what.clone(), cause));
                    if let Some((what, cause)) = &quietly {
                        connection.execute(&journal.note_left_out(what, cause)).await?;
                    }
                    return Ok(refused.map(|(what, cause)| (format!("owner of {what}"), cause)).or(quietly));
                }
                Err(error) if is_about_the_statement(&error) => {
                    connection.execute("ROLLBACK").await?;
                    if self.is_said_already(connection, group).await? {
                        return Ok(None);
                    }
                    refused.get_or_insert((group.what.clone(), error.cause()));
                }
                Err(error) => return Err(error.about(&*group.what)),
            }
        }
        if let Some((what, cause)) = &refused {
            let note = journal.note_left_out(what, cause);
            connection.execute(&format!("BEGIN; {note}; {}; COMMIT", journal.note(step))).await?;
        }
        Ok(refused)
    }

    /// Whether a group is a comment on an extension that repeats the extension's own comment, or whose extension was
    /// left out.
    pub(crate) async fn is_said_already(
        &self,
        connection: &mut Connection,
        group: &allowed::Group,
    ) -> Result<bool, Error> {
        let entry = self.schema.entries.iter().find(|entry| group.ids.contains(&entry.id));
        let Some((entry, name)) = entry
            .filter(|entry| entry.kind == "COMMENT")
            .and_then(|entry| Some((entry, entry.tag.strip_prefix("EXTENSION ")?)))
        else {
            return Ok(false);
        };
        let name = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name);
        let sql = format!(
            "SELECT pg_catalog.obj_description(oid, 'pg_extension') FROM pg_catalog.pg_extension WHERE extname = {}",
            literal(name)
        );
        let rows = connection.query(&sql).await?;
        let Some(row) = rows.first() else { return Ok(true) };
        Ok(entry.statement.trim_end().ends_with(&format!(" IS '{}';", row.text(0).replace('\'', "''"))))
    }
}
