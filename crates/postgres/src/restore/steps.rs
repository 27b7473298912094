//! The steps that make a database of a set, each noted in the journal.

use std::collections::BTreeSet;
use std::sync::Arc;

use seawall_archive::Frame;
use seawall_core::Progress;

use crate::build::Build;
use crate::build::refresh;
use crate::build::statistics::{self, Without};
use crate::catalog::rights::is_superuser;
use crate::client::tried::{Refused, is_about_the_statement};
use crate::client::{Connection, Target};
use crate::detail::ItemDetail;
use crate::journal::Journal;
use crate::load::Load;
use crate::load::large_objects;
use crate::load::order;
use crate::load::orphans;
use crate::load::restore_mode;
use crate::load::restore_mode::Mode;
use crate::load::routed;
use crate::load::routed::Named;
use crate::load::triggers::Triggers;
use crate::preflight::grantors;
use crate::quote::{literal, qualified};
use crate::restore::extensions::PLAINLY;
use crate::restore::scope::Scope;
use crate::restore::set::Set;
use crate::schema::allowed::{self, Group};
use crate::schema::checked;
use crate::schema::guard;
use crate::schema::replica;
use crate::schema::toc::{self, Entry, Section};
use crate::schema::{AS_BEFORE, diagnose, for_the_server};
use crate::{Error, World};

/// The note that tables of extensions are loaded in the order of their keys: a resume does the same, by any role.
const IN_ORDER: &str = "in order";

/// Sequences that are set with one statement.
const SEQUENCES: usize = 1000;

/// What is told of a restore that went well.
pub(crate) struct Told {
    /// See [`crate::Restored::without_statistics`].
    pub(crate) without_statistics: Vec<Without>,
    /// See [`crate::Restored::unfilled`].
    pub(crate) unfilled: Vec<(String, String)>,
    /// See [`crate::Restored::refused`].
    pub(crate) refused: Vec<Refused>,
}

impl Set {
    /// All steps that the journal doesn't have, but for the event triggers.
    pub(crate) async fn fill(
        &self,
        connection: &mut Connection,
        target: &Target,
        journal: &Journal,
        what: &Scope<'_>,
        world: &World,
        progress: Arc<dyn Progress>,
    ) -> Result<Told, Error> {
        let mut modes = restore_mode::begin(connection).await?;
        let filled = self.fill_within(connection, target, journal, what, world, progress, &mut modes).await;
        match &filled {
            Ok(_) => restore_mode::end(connection, &modes).await?,
            Err(_) if modes.is_empty() => {}
            Err(_) => restore_mode::end_failed(target, &self.detail.encoding).await,
        }
        filled
    }

    /// The same; extensions that the schema makes, and that know of restores, are told and come into `modes`.
    #[expect(clippy::too_many_arguments, reason = "what a step is told")]
    async fn fill_within(
        &self,
        connection: &mut Connection,
        target: &Target,
        journal: &Journal,
        what: &Scope<'_>,
        world: &World,
        progress: Arc<dyn Progress>,
        modes: &mut Vec<Mode>,
    ) -> Result<Told, Error> {
        let (options, jobs) = (what.options, what.options.limits.jobs.max(1));
        let made = !options.data_only;
        let mut refused = Vec::new();
        // What is tried by itself is left out of the other steps, so that the run that made the schema has decided it.
        let superuser = match journal.has("schema") {
            true => !journal.has(PLAINLY),
            false => connection.guard.is_some() || is_superuser(connection).await?,
        };
        let groups = self.groups(what, superuser);
        let others: BTreeSet<u32> = groups.iter().flat_map(|group| group.ids.iter().copied()).collect();
        if made {
            refused = self.make_schema(connection, journal, what, &others, superuser, world, modes).await?;
            let absent = self.without_place(connection, what, &refused).await?;
            refused.extend(
                absent.iter().map(|(schema, name)| {
                    (format!("content of {schema}.{name}"), "its extension isn't there".to_owned())
                }),
            );
            // Told once: it can't be another one for the same restore.
            let _ = what.absent.set(absent);
        }
        replica::without_those_of_extensions(connection).await?;
        if what.chosen.is_none() && !what.is_later {
            large_objects::make(&self.after.large_objects, connection, journal, options.owners).await?;
        }
        progress.begin("load", Some(self.reader.manifest().totals.raw));
        self.load_all(connection, target, journal, what, &*progress).await?;
        progress.finish();
        self.set_sequences(connection, what).await?;
        progress.begin("indexes", None);
        if made {
            let by_others = (&others, superuser);
            refused.extend(self.build(connection, target, journal, what, jobs, world, by_others).await?);
            refused.extend(self.make_tried(connection, journal, what, &groups, world).await?);
            checked::refuse_unproved(connection, &self.schema.entries, chosen_tables(what)).await?;
        } else {
            orphans::check(connection, self.tables(what)).await?;
        }
        let views = if what.chosen.is_none() { &self.after.refresh[..] } else { &[] };
        let views: Vec<_> = views.iter().filter(|view| what.is_now(&view.schema, &view.name)).cloned().collect();
        let unfilled = refresh::all(connection, &views, journal).await?;
        let chosen = to_analyze(what);
        let without_statistics =
            statistics::gather(connection, target, &self.detail.encoding, chosen.as_ref(), jobs).await?;
        progress.finish();
        Ok(Told { without_statistics, unfilled, refused })
    }

    /// What is tried by itself.
    pub(crate) fn groups(&self, what: &Scope<'_>, superuser: bool) -> Vec<Group> {
        let last = self.event_trigger_ids();
        let wanted =
            |entry: &&Entry| what.has(entry) && !last.contains(&entry.id) && (what.options.owners || !entry.is_grant());
        let entries: Vec<&Entry> = self.schema.entries.iter().filter(wanted).collect();
        allowed::groups(&entries, superuser)
    }

    /// The end of a restore: event triggers, which are live from then on, in one transaction with the end of the journal and
    /// the statement `whole`. They are a superuser's, and a provider may refuse them, or their owner.
    pub(crate) async fn end(
        &self,
        connection: &mut Connection,
        journal: Journal,
        (whole, last): (&str, &[u8]),
        what: &Scope<'_>,
        world: &World,
    ) -> Result<Vec<Refused>, Error> {
        if connection.guard.is_some() {
            journal.remove(connection, whole, b"").await?;
            guard::script(connection, last, false).await?;
            return guard::finish(connection, false).await.map(|()| Vec::new());
        }
        if last.is_empty() || is_superuser(connection).await? {
            let ended = journal.remove(connection, whole, last).await;
            return ended.map(|()| Vec::new()).map_err(|error| error.about("the event triggers"));
        }
        let without = crate::RestoreOptions { owners: false, ..what.options.clone() };
        let without = self.event_triggers(&Scope::new(&without, None), world, connection.version).await?;
        let mut refused = Vec::new();
        for (script, gives) in [(last, "owners of the event triggers"), (&without[..], "event triggers")] {
            match journal.remove(connection, whole, script).await {
                Err(error) if is_about_the_statement(&error) => {
                    connection.execute("ROLLBACK").await?;
                    refused = vec![(gives.to_owned(), error.cause())];
                }
                Ok(()) => return Ok(refused),
                Err(error) => return Err(error.about("the event triggers")),
            }
        }
        journal.remove(connection, whole, b"").await?;
        Ok(refused)
    }

    /// What the set has and the server refused, when an earlier run has done all that can be done.
    pub(crate) async fn left(&self, connection: &mut Connection, what: &Scope<'_>) -> Result<Vec<Refused>, Error> {
        let there = "SELECT 'EXTENSION', extname FROM pg_catalog.pg_extension \
             UNION ALL SELECT 'EVENT TRIGGER', evtname FROM pg_catalog.pg_event_trigger \
             UNION ALL SELECT 'PUBLICATION', pubname FROM pg_catalog.pg_publication \
             UNION ALL SELECT 'SUBSCRIPTION', subname FROM pg_catalog.pg_subscription \
             WHERE subdbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())";
        let there = connection.query(there).await?;
        let is_gone = |entry: &&Entry| {
            matches!(entry.kind.as_str(), "EXTENSION" | "EVENT TRIGGER" | "PUBLICATION" | "SUBSCRIPTION")
                && what.has(entry)
                && !there.iter().any(|row| (row.text(0), row.text(1)) == (entry.kind.as_str(), entry.tag.as_str()))
        };
        let cause = "the server refused it in the run that was interrupted";
        let gone = self.schema.entries.iter().filter(is_gone);
        Ok(gone.map(|entry| (allowed::name(entry), cause.to_owned())).collect())
    }

    /// The script that makes event triggers: from then on they see all that is done, so that nothing of ours may follow.
    pub(crate) async fn event_triggers(&self, what: &Scope<'_>, world: &World, version: u32) -> Result<Vec<u8>, Error> {
        let ids = self.event_trigger_ids();
        let wanted = |entry: &Entry| ids.contains(&entry.id) && what.has(entry);
        if what.options.data_only || !self.schema.entries.iter().any(wanted) {
            return Ok(Vec::new());
        }
        let script = self.schema.script(wanted, what.options, world).await?;
        Ok(for_the_server(&script, version))
    }

    /// The entries of event triggers, and of what is said of them.
    fn event_trigger_ids(&self) -> BTreeSet<u32> {
        let entries = || self.schema.entries.iter();
        let mut ids: BTreeSet<u32> =
            entries().filter(|entry| entry.kind == "EVENT TRIGGER").map(|entry| entry.id).collect();
        let said = |entry: &&Entry| {
            matches!(entry.kind.as_str(), "COMMENT" | "SECURITY LABEL") && entry.tag.starts_with("EVENT TRIGGER ")
        };
        ids.extend(entries().filter(said).map(|entry| entry.id));
        ids
    }

    /// Loads all rows. Tables of extensions have keys and triggers from the start: these are off, and the keys are checked
    /// afterwards; or, for a role that may not turn them off, each table comes behind those that it refers to.
    async fn load_all(
        &self,
        connection: &mut Connection,
        target: &Target,
        journal: &Journal,
        what: &Scope<'_>,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        let (made, jobs) = (!what.options.data_only, what.options.limits.jobs.max(1));
        let wanted: Vec<bool> = self.items.iter().map(|item| self.is_loaded(item, what)).collect();
        let index = self.reader.index();
        let is_wanted = |frame: &&Frame| wanted.get(frame.item as usize).copied().unwrap_or(false);
        let frames = index.chunks.iter().flat_map(|chunk| &chunk.frames);
        progress.advance(frames.filter(|frame| !is_wanted(frame)).map(|frame| frame.raw).sum());
        let others: BTreeSet<Named> =
            self.others(what).map(|(schema, name)| (schema.to_owned(), name.to_owned())).collect();
        let quiet = !made || (!others.is_empty() && replica::may(connection).await?);
        let mut rounds = Vec::new();
        if made && (journal.has(IN_ORDER) || (!quiet && journal.chunks().is_empty())) {
            rounds = order::of(connection, &others).await?;
        }
        if !rounds.is_empty() && !journal.has(IN_ORDER) {
            connection.execute(&journal.note(IN_ORDER)).await?;
        }
        let in_rounds: BTreeSet<&Named> = rounds.iter().flat_map(|round| &round.tables).collect();
        let those = |tables: &dyn Fn(&Named) -> bool| -> Vec<bool> {
            let is_one = |item: &ItemDetail| match item {
                ItemDetail::Table { schema, name, .. } => tables(&(schema.clone(), name.clone())),
                _ => in_rounds.is_empty() || tables(&Named::default()),
            };
            self.items.iter().zip(&wanted).map(|(item, wanted)| *wanted && is_one(item)).collect()
        };
        let first = those(&|table| !in_rounds.contains(table));
        self.load(connection, target, journal, what, progress, (first, quiet)).await?.run(connection, jobs).await?;
        for (number, round) in (1..).zip(&rounds) {
            let (journal, some) =
                (journal.part(&format!("round {number}")), those(&|table| round.tables.contains(table)));
            let mut load = self.load(connection, target, &journal, what, progress, (some, quiet)).await?;
            load.alone = round.alone;
            load.run(connection, jobs).await?;
        }
        if made && quiet {
            orphans::check(connection, self.others(what)).await?;
        }
        Ok(())
    }

    /// The load of the `wanted` items, as the target's tables want it.
    async fn load<'a>(
        &'a self,
        connection: &mut Connection,
        target: &'a Target,
        journal: &'a Journal,
        what: &Scope<'_>,
        progress: &'a dyn Progress,
        (wanted, quiet): (Vec<bool>, bool),
    ) -> Result<Load<'a>, Error> {
        let made = !what.options.data_only;
        let roots = routed::roots(connection, &self.detail.locale.encoding).await?;
        let of_the_schema = self.of_the_schema();
        let (mut into, mut fresh) = (Vec::new(), Vec::new());
        for (item, is_made) in self.items.iter().zip(of_the_schema) {
            let table = match item {
                ItemDetail::Table { schema, name, .. } => Some((schema.clone(), name.clone())),
                _ => None,
            };
            let root = table.as_ref().and_then(|table| roots.get(table)).cloned();
            // Rows of its siblings come into a table whose rows go through a parent, so that it is never emptied.
            fresh.push(made && is_made && root.is_none());
            into.push(root.or(table));
        }
        let triggers = match made {
            true => Triggers::default(),
            false => {
                let tables = into.iter().zip(&wanted).filter(|(_, wanted)| **wanted);
                Triggers::read(connection, &tables.filter_map(|(into, _)| into.clone()).collect()).await?
            }
        };
        let (encoding, page) = (self.detail.encoding.as_str(), self.detail.page());
        let (reader, items) = (&self.reader, &self.items[..]);
        let (alone, found) = (false, !made);
        Ok(Load {
            target,
            encoding,
            reader,
            items,
            wanted,
            fresh,
            into,
            found,
            quiet,
            alone,
            triggers,
            page,
            journal,
            progress,
        })
    }

    /// The tables whose rows are loaded, and that the schema doesn't make: those of extensions.
    pub(crate) fn others<'a>(&'a self, what: &'a Scope<'_>) -> impl Iterator<Item = (&'a str, &'a str)> {
        let tables = self.items.iter().zip(self.of_the_schema()).filter(|(_, is_made)| !is_made);
        tables.filter_map(|(item, _)| match item {
            ItemDetail::Table { schema, name, .. } if self.is_loaded(item, what) => {
                Some((schema.as_str(), name.as_str()))
            }
            _ => None,
        })
    }

    async fn set_sequences(&self, connection: &mut Connection, what: &Scope<'_>) -> Result<(), Error> {
        let is_sequence = |entry: &&Entry| entry.kind == "SEQUENCE" && what.has(entry);
        let made: BTreeSet<(&str, &str)> = self
            .schema
            .entries
            .iter()
            .filter(is_sequence)
            .map(|entry| (entry.schema.as_str(), entry.tag.as_str()))
            .collect();
        // Those of extensions have no entry, and come with everything.
        let wanted = |sequence: &&crate::Sequence| {
            let (schema, name) = (sequence.schema.as_str(), sequence.name.as_str());
            (what.chosen.is_none() || made.contains(&(schema, name)))
                && what.is_now(schema, name)
                && !what.is_absent(schema, name)
        };
        let wanted: Vec<&crate::Sequence> = self.after.sequences.iter().filter(wanted).collect();
        for some in wanted.chunks(SEQUENCES) {
            let set = |sequence: &&crate::Sequence| {
                let name = literal(&qualified(&sequence.schema, &sequence.name));
                format!("SELECT pg_catalog.setval({name}, {}, {});", sequence.last, sequence.called)
            };
            connection.execute(&some.iter().map(set).collect::<String>()).await?;
        }
        Ok(())
    }

    /// Indexes and constraints, then everything else that comes after the rows, but for `others`.
    #[expect(clippy::too_many_arguments, reason = "what a step is told")]
    async fn build(
        &self,
        connection: &mut Connection,
        target: &Target,
        journal: &Journal,
        what: &Scope<'_>,
        jobs: usize,
        world: &World,
        (others, superuser): (&BTreeSet<u32>, bool),
    ) -> Result<Vec<Refused>, Error> {
        let mut heavy = toc::heavy(&self.schema.entries);
        heavy.retain(|(entry, _)| what.has(entry));
        let (entries, chosen) = (&self.schema.entries[..], chosen_tables(what));
        let build =
            Build::new(connection, target, &self.detail.encoding, heavy.clone(), entries, chosen, journal).await?;
        build.run(connection, jobs).await?;
        if journal.has("rest") {
            return Ok(Vec::new());
        }
        // Grants come last: an index on an expression is made with the rights of its table's owner.
        let mut made: BTreeSet<u32> = heavy.iter().map(|(entry, _)| entry.id).collect();
        made.extend(self.event_trigger_ids());
        made.extend(others);
        let last = |entry: &Entry| {
            (entry.is_grant() || entry.section == Section::After) && !made.contains(&entry.id) && what.has(entry)
        };
        let mut script = self.schema.script(last, what.options, world).await?;
        if !superuser {
            script = grantors::by_set_role(script);
        }
        connection.not_granted = None;
        run_noted(connection, journal, "rest", &script).await?;
        let Some(cause) = connection.not_granted.take() else { return Ok(Vec::new()) };
        connection.execute(&journal.note_left_out("grants", &cause)).await?;
        Ok(vec![("grants".to_owned(), cause)])
    }
}

/// Runs a script of `pg_restore` in one transaction with its note. Its bytes have the encoding that it says itself.
pub(crate) async fn run_noted(
    connection: &mut Connection,
    journal: &Journal,
    step: &str,
    script: &[u8],
) -> Result<(), Error> {
    let script = for_the_server(script, connection.version);
    if connection.guard.is_some() {
        guard::script(connection, &script, false).await?;
        connection.execute(&journal.note(step)).await?;
        return connection.execute(AS_BEFORE).await;
    }
    let mut all = b"BEGIN;\n".to_vec();
    all.extend_from_slice(&script);
    all.extend_from_slice(format!("\n;\n{};\nCOMMIT", journal.note(step)).as_bytes());
    let ran = connection.run(&all).await.map(|asks| asks.is_some());
    match ran {
        Err(error) => return Err(diagnose::find(connection, &[], &script, error).await),
        Ok(true) => return Err(Error::Internal("a schema asks for rows".to_owned())),
        Ok(false) => {}
    }
    connection.execute(AS_BEFORE).await
}

/// The tables that are restored; `None` for everything.
fn chosen_tables<'a>(what: &'a Scope<'_>) -> Option<&'a BTreeSet<Named>> {
    what.chosen.as_ref().map(|chosen| &chosen.tables)
}

/// The tables that get statistics now; `None` for all that are there.
fn to_analyze(what: &Scope<'_>) -> Option<BTreeSet<Named>> {
    let is_there = |(schema, name): &&Named| what.is_now(schema, name) && !what.is_absent(schema, name);
    let all = match (&what.chosen, what.later.get()) {
        (_, Some(later)) if what.is_later => &later.relations,
        (Some(chosen), _) => &chosen.tables,
        (None, _) => return None,
    };
    Some(all.iter().filter(is_there).cloned().collect())
}
