//! Which timeline came from which, and where: the history file that PostgreSQL writes at a promotion.

use super::{Lsn, TimelineId};

/// The most bytes of a history file. PostgreSQL has a line for each promotion.
pub(super) const LARGEST: u64 = 4 << 20;

/// A timeline that a later one came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ancestor {
    /// The timeline.
    pub timeline: TimelineId,
    /// Where the next one left it: the first position that belongs to the next one.
    pub switch: Lsn,
}

/// The ancestors of a timeline, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The timeline itself.
    pub timeline: TimelineId,
    /// Its ancestors, the oldest first.
    pub ancestors: Vec<Ancestor>,
}

impl History {
    /// A timeline that came from no other one.
    pub fn first(timeline: TimelineId) -> Self {
        Self { timeline, ancestors: Vec::new() }
    }

    /// Reads the history file of `timeline`: lines of a timeline, a position and a reason. Empty lines and lines that
    /// begin with `#` mean nothing.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(timeline: TimelineId, bytes: &[u8]) -> Result<Self, String> {
        // The reason may be in any encoding.
        let text = String::from_utf8_lossy(bytes);
        let mut ancestors: Vec<Ancestor> = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let number = words.next().and_then(|word| word.parse().ok()).and_then(TimelineId::new);
            let switch = words.next().and_then(|word| word.parse().ok());
            let Some((timeline, switch)) = number.zip(switch) else {
                return Err(format!("a line of it isn't a timeline and a position: {line:?}"));
            };
            let ancestor = Ancestor { timeline, switch };
            if ancestors.last().is_some_and(|last| last.timeline >= timeline || last.switch > switch) {
                return Err("its timelines aren't in their order".to_owned());
            }
            ancestors.push(ancestor);
        }
        match ancestors.last() {
            Some(last) if last.timeline >= timeline => Err("it names a timeline that is later than its own".to_owned()),
            Some(_) => Ok(Self { timeline, ancestors }),
            None => Err("it names no timeline".to_owned()),
        }
    }

    /// Where a later timeline left `timeline`; `None` for the history's own timeline, and for a timeline that is no ancestor.
    pub fn switch_of(&self, timeline: TimelineId) -> Option<Lsn> {
        self.ancestors.iter().find(|ancestor| ancestor.timeline == timeline).map(|ancestor| ancestor.switch)
    }

    /// Where `timeline` left the one before it; `None` for a timeline that isn't on the way to this one.
    pub fn begin_of(&self, timeline: TimelineId) -> Option<Lsn> {
        let at = self.ancestors.iter().position(|ancestor| ancestor.timeline == timeline);
        let at = at.or_else(|| (timeline == self.timeline).then_some(self.ancestors.len()))?;
        let before = at.checked_sub(1).and_then(|before| self.ancestors.get(before));
        Some(before.map_or(Lsn::default(), |before| before.switch))
    }

    /// Whether this is its own timeline or one that it came from.
    pub fn includes(&self, timeline: TimelineId) -> bool {
        timeline == self.timeline || self.switch_of(timeline).is_some()
    }

    /// The timeline that follows `timeline` on the way to this one.
    pub fn child_of(&self, timeline: TimelineId) -> Option<TimelineId> {
        let at = self.ancestors.iter().position(|ancestor| ancestor.timeline == timeline)?;
        Some(self.ancestors.get(at + 1).map_or(self.timeline, |next| next.timeline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> TimelineId {
        TimelineId::new(number).expect("a timeline")
    }

    #[test]
    fn what_postgresql_writes() {
        let text = "1\t0/3000148\tno recovery target specified\n\n2\t0/5000000\tbefore 2026-11-27 10:00:00.1+00\n";
        let history = History::parse(id(4), text.as_bytes()).expect("a history");
        let position = |text: &str| text.parse::<Lsn>().expect("a position");
        assert_eq!(history.switch_of(id(1)), Some(position("0/3000148")));
        assert_eq!(history.switch_of(id(2)), Some(position("0/5000000")));
        assert_eq!((history.switch_of(id(3)), history.switch_of(id(4))), (None, None));
        assert_eq!([1, 2, 3, 4].map(|number| history.includes(id(number))), [true, true, false, true]);
        assert_eq!([1, 2, 4].map(|number| history.child_of(id(number))), [Some(id(2)), Some(id(4)), None]);
        assert!(History::parse(id(2), b"# a comment\n1 0/1 \xff\xfe\n").is_ok());
    }

    #[test]
    fn what_cannot_be() {
        for text in
            ["", "# nothing\n", "1\n", "x 0/1\n", "1 1\n", "0 0/1\n", "2 0/1\n1 0/2\n", "1 0/5\n2 0/4\n", "3 0/1\n"]
        {
            assert!(History::parse(id(3), text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
