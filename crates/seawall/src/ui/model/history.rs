//! The timeline of a database, as rows that a person moves along.

use seawall_core::{Failure, Hole, Moment, Span, Timeline};

/// The timeline of a database.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::ui) struct History {
    /// The number of its newest request.
    pub(in crate::ui) id: u64,
    /// The database's key and name.
    pub(in crate::ui) key: String,
    pub(in crate::ui) name: String,
    /// When the vault was asked.
    pub(in crate::ui) asked: Moment,
    /// When it answered, and what.
    pub(in crate::ui) answer: Option<(Moment, Result<Timeline, Failure>)>,
    /// The row that is chosen.
    pub(in crate::ui) chosen: usize,
}

/// A row: a stretch that can be restored, or one that can't.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ui) enum Stretch<'a> {
    Span(&'a Span),
    Hole(&'a Hole),
}

impl History {
    /// A timeline that was just asked for.
    pub(super) fn new(id: u64, key: String, name: String, asked: Moment) -> Self {
        Self { id, key, name, asked, answer: None, chosen: 0 }
    }

    /// Takes the answer. The newest row is chosen.
    pub(super) fn hear(&mut self, answer: Result<Timeline, Failure>, now: Moment) {
        self.answer = Some((now, answer));
        self.chosen = self.stretches().len().saturating_sub(1);
    }

    /// The rows, oldest first.
    pub(in crate::ui) fn stretches(&self) -> Vec<Stretch<'_>> {
        let Some((_, Ok(timeline))) = &self.answer else { return Vec::new() };
        let spans = timeline.spans.iter().map(|span| ((span.from.moment, span.to.moment), Stretch::Span(span)));
        let holes = timeline.holes.iter().map(|hole| {
            let from = hole.from.as_ref().map_or(hole.to.moment, |point| point.moment);
            ((from, hole.to.moment), Stretch::Hole(hole))
        });
        let mut rows: Vec<_> = spans.chain(holes).collect();
        rows.sort_by_key(|(moments, _)| *moments);
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// What `--at` takes to restore the newest point of the chosen row: of a hole the last point before it.
    pub(in crate::ui) fn at(&self) -> Option<String> {
        match self.stretches().get(self.chosen)? {
            Stretch::Span(span) => Some(span.to.position.clone()),
            Stretch::Hole(hole) => hole.from.as_ref().map(|point| point.position.clone()),
        }
    }
}
