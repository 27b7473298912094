//! The steps that make a database of a set, each noted in the journal.

use std::collections::BTreeSet;
use std::sync::Arc;

use seawall_core::Progress;

use crate::build::Build;
use crate::client::quote::{literal, qualified};
use crate::client::{Connection, Target};
use crate::journal::Journal;
use crate::load::Load;
use crate::restore::What;
use crate::schema::Schema;
use crate::set::Set;
use crate::statistics::{self, Without};
use crate::toc::{self, Entry, Section};
use crate::{Error, World, large_objects, orphans};

/// Sequences that are set with one statement.
const SEQUENCES: usize = 1000;

impl Set {
    /// All steps that the journal doesn't have. Returns the tables that can't have statistics.
    pub(crate) async fn fill(
        &self,
        connection: &mut Connection,
        target: &Target,
        journal: &Journal,
        what: &What<'_>,
        world: &World,
        progress: Arc<dyn Progress>,
    ) -> Result<Vec<Without>, Error> {
        let (options, jobs) = (what.options, what.options.limits.jobs.max(1));
        let made = !options.data_only;
        if made && !journal.has("schema") {
            let first = |entry: &Entry| entry.section == Section::Before && !is_grant(entry) && what.has(entry);
            let script = self.schema.script(first, options, world).await?;
            Schema::run(connection, "schema", &script).await?;
        }
        if what.chosen.is_none() {
            large_objects::make(&self.after.large_objects, connection, journal, options.owners).await?;
        }
        progress.begin("load", Some(self.reader.manifest().totals.raw));
        let load = Load {
            target,
            encoding: &self.detail.encoding,
            reader: &self.reader,
            items: &self.items,
            wanted: self.items.iter().map(|item| self.is_loaded(item, what)).collect(),
            fresh: if made { self.of_the_schema() } else { Vec::new() },
            triggers: made,
            progress: &*progress,
        };
        load.run(journal, jobs).await?;
        progress.finish();
        self.set_sequences(connection, what).await?;
        progress.begin("indexes", None);
        if made {
            self.build(connection, target, journal, what, jobs, world).await?;
        } else {
            orphans::check(connection, self.tables(what)).await?;
        }
        let views = if what.chosen.is_none() { &self.after.refresh[..] } else { &[] };
        for view in views {
            let name = qualified(&view.schema, &view.name);
            let refresh = format!("REFRESH MATERIALIZED VIEW {name}");
            connection.execute(&refresh).await.map_err(|error| error.about(name))?;
        }
        let chosen = what.chosen.as_ref().map(|chosen| &chosen.tables);
        let without = statistics::gather(connection, target, &self.detail.encoding, chosen, jobs).await?;
        progress.finish();
        Ok(without)
    }

    async fn set_sequences(&self, connection: &mut Connection, what: &What<'_>) -> Result<(), Error> {
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
            what.chosen.is_none() || made.contains(&(sequence.schema.as_str(), sequence.name.as_str()))
        };
        let wanted: Vec<&crate::Sequence> = self.after.sequences.iter().filter(wanted).collect();
        for some in wanted.chunks(SEQUENCES) {
            let set = |sequence: &&crate::Sequence| {
                let name = literal(&qualified(&sequence.schema, &sequence.name));
                format!("SELECT setval({name}, {}, {});", sequence.last, sequence.called)
            };
            connection.execute(&some.iter().map(set).collect::<String>()).await?;
        }
        Ok(())
    }

    /// Indexes and constraints, then everything else that comes after the rows.
    async fn build(
        &self,
        connection: &mut Connection,
        target: &Target,
        journal: &Journal,
        what: &What<'_>,
        jobs: usize,
        world: &World,
    ) -> Result<(), Error> {
        let mut heavy = toc::heavy(&self.schema.entries);
        heavy.retain(|(entry, _)| what.has(entry));
        let build = Build::new(connection, target, &self.detail.encoding, heavy.clone(), journal).await?;
        build.run(connection, jobs).await?;
        if journal.has("rest") {
            return Ok(());
        }
        // Grants come last: an index on an expression is made with the rights of its table's owner.
        let made: BTreeSet<u32> = heavy.iter().map(|(entry, _)| entry.id).collect();
        let last = |entry: &Entry| {
            let is_last = is_grant(entry) || (entry.section == Section::After && !made.contains(&entry.id));
            is_last && what.has(entry)
        };
        let script = self.schema.script(last, what.options, world).await?;
        Schema::run(connection, "rest", &script).await
    }
}

/// Whether an entry says who may do what.
fn is_grant(entry: &Entry) -> bool {
    matches!(entry.kind.as_str(), "ACL" | "DEFAULT ACL")
}
