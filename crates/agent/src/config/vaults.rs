//! `vaults`: several places for one database, each a URL or a mapping with settings of its own.

use std::path::Path;
use std::sync::Arc;

use seawall_engines::BesideConfig;
use seawall_engines::sqlite::Upkeep;
use seawall_vault::VaultUrl;

use super::document::{Node, Value};
use super::error::{Location, Problem};
use super::fields::{At, Fields};
use super::place::{self, Precedence};
use super::upkeep;

/// One item of the list.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    text: At<String>,
    /// The item's own settings, with the lines where they stand.
    own: Vec<(usize, place::Settings)>,
    retention: Option<Arc<Upkeep>>,
}

/// Takes the list; `None` where there is none.
pub(crate) fn take(fields: &mut Fields, here: &Path, common: &Upkeep) -> Result<Option<Vec<Listed>>, Location> {
    let missing = fields.missing("vaults");
    let Some(At { value: nodes, .. }) = fields.list("vaults")? else { return Ok(None) };
    if nodes.is_empty() {
        return Err(missing);
    }
    let listed: Vec<Listed> = nodes.into_iter().map(|node| read(node, here, common)).collect::<Result<_, _>>()?;
    if let Some(first) = listed.first().filter(|first| first.retention.is_some()) {
        let cause = "retention of the first of vaults: it has that of the database; say it there".to_owned();
        return Err(Problem::Contradiction(cause).at(first.text.line));
    }
    Ok(Some(listed))
}

fn read(node: Node, here: &Path, common: &Upkeep) -> Result<Listed, Location> {
    if let Value::Text(text) = &node.value {
        return Ok(Listed { text: At { line: node.line, value: text.clone() }, own: Vec::new(), retention: None });
    }
    let mut fields = Fields::new("vaults", node)?;
    let missing = fields.missing("url");
    let text = fields.text("url")?.ok_or(missing)?;
    let url = place::read_place(&text.value, here).map_err(|failure| place::problem(failure).at(text.line))?;
    let sections = place::sections(&mut fields)?;
    let own = sections.into_iter().map(|section| section.for_place(&url, here)).collect::<Result<_, _>>()?;
    let retention = upkeep::read_own_retention(&mut fields, common)?.map(Arc::new);
    fields.finish()?;
    Ok(Listed { text, own, retention })
}

/// The places of one database: the first, and those beside it. With `name`, below each of the listed ones.
pub(crate) fn places(
    listed: &[Listed],
    name: Option<&str>,
    all: &place::Settings,
    here: &Path,
) -> Result<Option<(VaultUrl, Vec<BesideConfig>)>, Location> {
    let mut places = Vec::new();
    for one in listed {
        places.push(BesideConfig { url: one.url(name, all, here)?, retention: one.retention.clone() });
    }
    let mut places = places.into_iter();
    Ok(places.next().map(|first| (first.url, places.collect())))
}

impl Listed {
    fn url(&self, name: Option<&str>, all: &place::Settings, here: &Path) -> Result<VaultUrl, Location> {
        let At { line, value } = &self.text;
        let at_vault = |failure| place::problem(failure).at(*line);
        let text = name.map_or_else(|| value.clone(), |name| place::below(value, name));
        let mut url = place::read_place(&text, here).map_err(at_vault)?;
        for (line, own) in &self.own {
            url = place::with_settings(url, own, Precedence::Setting)
                .map_err(|failure| place::problem(failure).at(*line))?;
        }
        place::with_settings(url, all, Precedence::Url).map_err(at_vault)
    }
}
