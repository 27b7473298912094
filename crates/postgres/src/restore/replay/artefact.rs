//! An artefact of `pg_dump`, as a set or as a file: opening it, and what its target lacks.

use std::sync::Arc;

use futures::TryStreamExt as _;
use futures::stream::BoxStream;
use seawall_archive::names::{ProofName, unfinished};
use seawall_archive::preflight::{Lack, Look};
use seawall_archive::{Artefact as Kept, Manifest, SetReader};
use serde::Deserialize as _;

use crate::catalog::globals::Globals;
use crate::catalog::records::{After, Needs};
use crate::client::{Connection, Host, Target, TextEncoding};
use crate::detail::{ItemDetail, SetDetail};
use crate::preflight::Request;
use crate::preflight::restorer::Destination;
use crate::quote::ident;
use crate::restore::replay::origin::Origin;
use crate::restore::set;
use crate::schema::toc::{self, Entry};
use crate::tools::{self, Tool};
use crate::{Error, Format, RestoreOptions, World, preflight};

/// One artefact of `pg_dump`.
pub(crate) struct Artefact<'a> {
    pub(super) origin: Origin,
    pub(crate) detail: SetDetail,
    pub(crate) needs: Needs,
    /// The program that makes a script of it; `None` for a script.
    pub(super) pg_restore: Option<Tool>,
    /// The objects of its table of contents; a script has none.
    pub(super) entries: Vec<Entry>,
    /// Whether names without a schema are meant in `public`. `pg_dump` writes schemas everywhere.
    pub(super) in_public: bool,
    /// Roles that the same restore makes first.
    pub(super) made: Vec<String>,
    pub(super) options: &'a RestoreOptions,
}

/// The most bytes of a table of contents that are read before a restore begins.
pub(super) const LARGEST_CONTENTS: usize = 256 << 20;

/// The refusal of an option that artefacts don't have.
fn in_parts(manifest: &Manifest, format: &str, cause: &str) -> Error {
    Error::Refused {
        code: "postgres.vendor-format",
        object: format!("set {}", manifest.id),
        cause: format!("it is what pg_dump wrote in its format {format}: {cause}"),
        next: "restore all of it with --to, or get what pg_dump wrote with -o, and use PostgreSQL's own tools"
            .to_owned(),
    }
}

impl<'a> Artefact<'a> {
    pub(crate) async fn open(
        reader: Arc<SetReader>,
        options: &'a RestoreOptions,
        world: &World,
    ) -> Result<Self, Error> {
        let manifest = reader.manifest();
        let corrupt = |cause: &str| set::corrupt(&reader, cause);
        let name = manifest.artefact.clone().unwrap_or_default();
        let format = name.parse().ok().filter(|format| *format != Format::Native);
        let format: Format = format.ok_or_else(|| corrupt("it is in a format that isn't known"))?;
        if !options.tables.is_empty() || options.data_only || options.database.is_some() {
            return Err(in_parts(manifest, &name, "it is restored as a whole"));
        }
        if format == Format::Plain && !options.owners {
            return Err(in_parts(manifest, &name, "its owners and grants can't be left out"));
        }
        let detail = SetDetail::deserialize(&manifest.detail).map_err(|error| corrupt(&error.to_string()))?;
        if detail.text_encoding().is_none() || detail.page() == 0 {
            return Err(corrupt(&format!("its rows have the encoding {}", detail.encoding)));
        }
        let items = set::items(&reader, None)?;
        let needs = set::document(&reader, &items, &ItemDetail::Needs).await?;
        let (Some(what), Some(needs)) = (reader.index().artefact(), needs) else {
            return Err(corrupt("it has no artefact, or nothing beside it"));
        };
        if matches!(what, Kept::Directory(_)) != (format == Format::Directory) {
            return Err(corrupt("its artefact is in another format than the manifest says"));
        }
        let (limits, environment) = (&options.limits, &world.environment);
        let pg_restore = match format {
            Format::Custom | Format::Directory => {
                Some(tools::find("pg_restore", detail.pg_dump, limits, environment).await?)
            }
            Format::Native | Format::Plain => None,
        };
        let origin = Origin::Set { reader, what };
        let mut artefact = Self {
            origin,
            detail,
            needs,
            pg_restore,
            entries: Vec::new(),
            in_public: false,
            made: Vec::new(),
            options,
        };
        artefact.entries = artefact.read_entries().await?;
        Ok(artefact)
    }

    /// The objects of its table of contents, which an archive begins with.
    async fn read_entries(&self) -> Result<Vec<Entry>, Error> {
        if self.pg_restore.is_none() {
            return Ok(Vec::new());
        }
        let (mut content, mut front, mut enough) = (self.content().await?, Vec::new(), 0);
        while let Some(piece) = content.try_next().await? {
            front.extend_from_slice(&piece);
            if front.len() < enough {
                continue;
            }
            match toc::front(&front) {
                Ok(Some(toc)) => return Ok(toc.entries),
                Ok(None) if front.len() < LARGEST_CONTENTS => enough = front.len().saturating_mul(2),
                Ok(None) => break,
                Err(cause) => {
                    // `pg_restore` may know more, and finds what is damaged.
                    tracing::warn!("what the target lacks is known only in part: the table of contents: {cause}");
                    return Ok(Vec::new());
                }
            }
        }
        match toc::front(&front) {
            Ok(Some(toc)) => Ok(toc.entries),
            _ => Err(self.origin.corrupt("its table of contents is cut off")),
        }
    }

    /// The artefact as one archive, or as a script.
    pub(super) async fn content(&self) -> Result<BoxStream<'static, Result<Vec<u8>, Error>>, Error> {
        self.origin.content().await
    }

    pub(crate) async fn lacks(
        &self,
        connection: &mut Connection,
        target: &Target,
        into: Destination,
    ) -> Result<Look, Error> {
        let (owners, none) = (self.options.owners, Globals::default());
        let after = After { properties: self.needs.properties.clone(), ..After::default() };
        let request = Request {
            detail: &self.detail,
            database: &target.database,
            into,
            entries: &self.entries,
            at_once: false,
            after: &after,
            known: &none,
            made: &self.made,
            owners,
            tries: self.options.without_superuser,
            whole: true,
        };
        let Look { mut lacks, doubts, later } = preflight::look(connection, &request).await?;
        lacks.extend(later.into_iter().map(|what| {
            let cause = format!(
                "the {what} is bound to the name of its database, and this format is restored under another name first"
            );
            Lack::new(
                cause,
                format!(
                    "CREATE DATABASE {}; (an empty one), and restore into that, without --clean",
                    ident(&target.database)
                ),
            )
        }));
        for lack in preflight::lacks_beside(connection, &self.needs, self.encoding(), owners).await? {
            if !lacks.contains(&lack) {
                lacks.push(lack);
            }
        }
        if matches!(target.host, Host::Socket(_)) {
            lacks.extend(preflight::room(connection, self.detail.size).await?);
        }
        Ok(Look { lacks, doubts, later: Vec::new() })
    }

    /// The encoding of its texts.
    pub(crate) fn encoding(&self) -> TextEncoding {
        self.detail.text_encoding().unwrap_or_default()
    }

    /// Its bytes, about.
    pub(crate) fn raw(&self) -> u64 {
        self.origin.raw()
    }

    /// The title of the restore's journal: no other restore has the same one.
    pub(super) fn title(&self) -> String {
        let owners = if self.options.owners { "" } else { " without owners" };
        format!("artefact of {}{owners}", self.origin.id())
    }

    /// The name of the database until it is whole and gets its own `name`.
    pub(crate) fn unfinished_name(&self, name: &str) -> String {
        if let Some(unfinished) = ProofName::unfinished(name) {
            return unfinished;
        }
        unfinished::name(&self.title(), name)
    }
}
