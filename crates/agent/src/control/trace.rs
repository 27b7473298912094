//! How lag and size of a database went since the process began: few samples, taken whenever its status is asked for.
//!
//! Nothing is sampled by a timer (I6): an open page, a scrape of the metrics and notifications ask. When the samples are full, neighbours
//! are joined, and later ones stand for twice the time. So a trace always begins with the first status.

use seawall_core::{Moment, Status};

/// Samples that are kept of a database, 16 bytes each.
const MOST: usize = 40;

/// For how many seconds a sample stands at first.
const FIRST: u32 = 10;

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// When it begins, in seconds since 1970.
    second: u32,
    /// The largest lag in milliseconds.
    lag_ms: u32,
    /// The last size; `u64::MAX` if it isn't known.
    bytes: u64,
}

impl Sample {
    fn of(status: &Status) -> Self {
        Self {
            second: u32::try_from(status.at.as_millis() / 1000).unwrap_or(0),
            lag_ms: u32::try_from(status.lag_ms).unwrap_or(u32::MAX),
            bytes: status.source_bytes.unwrap_or(u64::MAX),
        }
    }

    /// When it begins.
    pub(crate) fn at(&self) -> Moment {
        Moment::from_millis(i64::from(self.second) * 1000)
    }

    /// The largest lag in its time, in milliseconds.
    pub(crate) fn lag_ms(&self) -> u64 {
        self.lag_ms.into()
    }

    /// The last size in its time, if it was known.
    pub(crate) fn bytes(&self) -> Option<u64> {
        (self.bytes != u64::MAX).then_some(self.bytes)
    }

    /// Takes a later sample in.
    fn take(&mut self, later: Self) {
        self.lag_ms = self.lag_ms.max(later.lag_ms);
        if later.bytes != u64::MAX {
            self.bytes = later.bytes;
        }
    }
}

/// The samples of a database, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trace {
    samples: Vec<Sample>,
    /// For how many seconds a sample stands.
    every: u32,
}

impl Default for Trace {
    fn default() -> Self {
        Self { samples: Vec::new(), every: FIRST }
    }
}

impl Trace {
    /// Notes a status.
    pub(crate) fn note(&mut self, status: &Status) {
        let sample = Sample::of(status);
        match self.samples.last_mut() {
            // The clock was set back.
            Some(last) if sample.second < last.second => *self = Self::default(),
            Some(last) if sample.second - last.second < self.every => return last.take(sample),
            _ => {}
        }
        self.samples.push(sample);
        if self.samples.len() > MOST {
            self.thin();
        }
    }

    /// Joins neighbours.
    fn thin(&mut self) {
        self.every = self.every.saturating_mul(2);
        let joined = self.samples.chunks(2).filter_map(|pair| {
            let (first, others) = pair.split_first()?;
            let mut first = *first;
            others.iter().for_each(|later| first.take(*later));
            Some(first)
        });
        self.samples = joined.collect();
    }

    /// The samples, the oldest first.
    pub(crate) fn samples(&self) -> &[Sample] {
        &self.samples
    }
}

#[cfg(test)]
mod tests {
    use seawall_core::{Description, Phase};

    use super::*;

    fn status(second: i64, lag_ms: u64, source_bytes: Option<u64>) -> Status {
        let described = Description { name: "app".into(), engine: "sqlite", source: None, vault: "v".into() };
        let at = Moment::from_millis(second * 1000);
        Status { lag_ms, source_bytes, ..Status::new(described, Phase::Protecting, at) }
    }

    fn plain(trace: &Trace) -> Vec<(i64, u64, Option<u64>)> {
        trace.samples().iter().map(|one| (one.at().as_millis() / 1000, one.lag_ms(), one.bytes())).collect()
    }

    #[test]
    fn what_is_noted() {
        let mut trace = Trace::default();
        for (second, lag, bytes) in [(100, 5, None), (103, 9, Some(70)), (109, 1, None), (110, 2, Some(80))] {
            trace.note(&status(second, lag, bytes));
        }
        assert_eq!(plain(&trace), [(100, 9, Some(70)), (110, 2, Some(80))]);
        trace.note(&status(90, 3, None));
        assert_eq!(plain(&trace), [(90, 3, None)], "the clock was set back");
    }

    #[test]
    fn a_long_time_is_few_samples_from_its_beginning() {
        let mut trace = Trace::default();
        for second in 0..100_000 {
            trace.note(&status(second, if second == 77_777 { 500 } else { 0 }, Some(second as u64)));
            assert!(trace.samples().len() <= MOST);
        }
        let samples = plain(&trace);
        assert!(samples.len() >= MOST / 2, "{}", samples.len());
        assert_eq!(samples[0].0, 0);
        assert_eq!(samples.iter().map(|sample| sample.1).max(), Some(500), "a peak is never lost");
        assert_eq!(samples.last().and_then(|sample| sample.2), Some(99_999));
    }
}
