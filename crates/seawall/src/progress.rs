//! Progress on standard error: a bar on a terminal, lines of JSON for programs that ask for them, otherwise nothing.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use seawall_core::{NoProgress, Progress, is_visible};
use serde_json::json;
use tokio::time::Instant;

use crate::edge::Edge;
use crate::table;

/// The line of a stage with a known size, and of a stage without one.
const MEASURED: &str = "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
const OPEN: &str = "{msg} {spinner} {binary_bytes} {binary_bytes_per_sec}";

/// How often the lines of tables change.
const PACE: Duration = Duration::from_millis(250);

/// Tables that are named at once.
const NAMED: usize = 3;

/// Work without a report for this long isn't shown as under way.
const QUIET: Duration = Duration::from_secs(10);

/// The longest name that is shown whole.
const LONGEST: usize = 40;

/// How progress is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ProgressForm {
    /// A bar, on a terminal alone.
    Bar,
    /// A line of JSON for the begin and the end of a stage, and each second between.
    Json,
    /// Nothing.
    None,
}

/// Shows progress on standard error: as was asked for, otherwise where a person reads it.
pub(crate) fn progress(edge: &Edge, json: bool) -> Arc<dyn Progress> {
    match edge.progress {
        Some(ProgressForm::Json) => Arc::new(Lines::new(|line| {
            // A reader that is gone ends nothing.
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        })),
        Some(ProgressForm::Bar) if edge.terminal => Arc::new(Bar::default()),
        None if edge.terminal && !json => Arc::new(Bar::default()),
        Some(ProgressForm::Bar | ProgressForm::None) | None => Arc::new(NoProgress),
    }
}

/// How often a line is written within a stage.
const LINE: Duration = Duration::from_secs(1);

/// Writes lines of JSON.
struct Lines<Write> {
    write: Write,
    stage: Mutex<Option<Told>>,
}

/// A stage, and what was told of it.
struct Told {
    stage: String,
    done: u64,
    total: Option<u64>,
    begun: Instant,
    last: Instant,
}

impl<Write: Fn(String) + Send + Sync> Lines<Write> {
    fn new(write: Write) -> Self {
        Self { write, stage: Mutex::new(None) }
    }

    fn end(&self, ended: Option<Told>) {
        if let Some(ended) = ended {
            (self.write)(line("end", &ended, Instant::now()));
        }
    }
}

impl<Write: Fn(String) + Send + Sync> Progress for Lines<Write> {
    fn begin(&self, stage: &str, total: Option<u64>) {
        let now = Instant::now();
        let next = Told { stage: stage.to_owned(), done: 0, total, begun: now, last: now };
        let begun = line("begin", &next, now);
        let ended = self.stage.lock().unwrap_or_else(PoisonError::into_inner).replace(next);
        self.end(ended);
        (self.write)(begun);
    }

    fn advance(&self, bytes: u64) {
        let now = Instant::now();
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(told) = stage.as_mut() else { return };
        told.done = told.done.saturating_add(bytes);
        if now.saturating_duration_since(told.last) >= LINE {
            told.last = now;
            (self.write)(line("bytes", told, now));
        }
    }

    fn finish(&self) {
        let ended = self.stage.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.end(ended);
    }
}

/// One line: `event` is `begin`, `bytes` or `end`.
fn line(event: &str, told: &Told, now: Instant) -> String {
    let millis = u64::try_from(now.saturating_duration_since(told.begun).as_millis()).unwrap_or(u64::MAX);
    let rate = told.done.saturating_mul(1000).checked_div(millis);
    let left = told.total.map(|total| total.saturating_sub(told.done));
    let left_ms = left.zip(rate.filter(|rate| *rate > 0)).map(|(left, rate)| left.saturating_mul(1000) / rate);
    json!({
        "progress": event,
        "stage": told.stage,
        "done_bytes": told.done,
        "total_bytes": told.total,
        "bytes_per_second": rate,
        "elapsed_ms": millis,
        "left_ms": left_ms,
    })
    .to_string()
}

/// A table, or another part of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    done: u64,
    total: Option<u64>,
    begun: Instant,
    last: Instant,
}

/// One bar per stage, gone when the stage is over, with a line for each of the largest tables under way.
#[derive(Debug, Default)]
struct Bar {
    stage: Mutex<Stage>,
}

#[derive(Debug, Default)]
struct Stage {
    bar: Option<ProgressBar>,
    /// Whether its size is known.
    measured: bool,
    parts: BTreeMap<String, Part>,
    /// When the lines of parts were made the last time.
    told: Option<Instant>,
}

impl Bar {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, next: Stage) {
        if let Some(ended) = std::mem::replace(&mut *self.stage(), next).bar {
            ended.finish_and_clear();
        }
    }
}

impl Progress for Bar {
    fn begin(&self, stage: &str, total: Option<u64>) {
        let (bar, template) = match total {
            Some(total) => (ProgressBar::new(total), MEASURED),
            None => (ProgressBar::new_spinner(), OPEN),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(printable(stage));
        bar.enable_steady_tick(Duration::from_millis(100));
        self.replace(Stage { bar: Some(bar), measured: total.is_some(), ..Stage::default() });
    }

    fn advance(&self, bytes: u64) {
        if let Some(bar) = &self.stage().bar {
            bar.inc(bytes);
        }
    }

    fn part(&self, name: &str, total: Option<u64>, bytes: u64) {
        let (mut stage, now) = (self.stage(), Instant::now());
        let part = Part { done: 0, total, begun: now, last: now };
        let part = stage.parts.entry(name.to_owned()).or_insert(part);
        (part.done, part.total, part.last) = (part.done.saturating_add(bytes), total, now);
        if stage.told.is_some_and(|told| now.saturating_duration_since(told) < PACE) {
            return;
        }
        stage.parts.retain(|_, part| now.saturating_duration_since(part.last) < QUIET);
        let Some(bar) = &stage.bar else { return };
        let template = if stage.measured { MEASURED } else { OPEN };
        if stage.told.is_none()
            && let Ok(style) = ProgressStyle::with_template(&format!("{template}\n{{prefix}}"))
        {
            bar.set_style(style);
        }
        bar.set_prefix(lines(&stage.parts, now));
        stage.told = Some(now);
    }

    fn finish(&self) {
        self.replace(Stage::default());
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.replace(Stage::default());
    }
}

/// A line for each of the largest parts that aren't done.
fn lines(parts: &BTreeMap<String, Part>, now: Instant) -> String {
    let left = |part: &Part| part.total.map_or(part.done, |total| total.saturating_sub(part.done));
    let mut shown: Vec<(&String, &Part)> = parts.iter().filter(|(_, part)| left(part) > 0).collect();
    shown.sort_by_key(|(_, part)| std::cmp::Reverse(left(part)));
    let line = |(name, part): &(&String, &Part)| {
        let millis = u64::try_from(now.saturating_duration_since(part.begun).as_millis()).unwrap_or(u64::MAX);
        let rate = part.done.saturating_mul(1000) / millis.max(1);
        let pace = match millis {
            0 => String::new(),
            _ => format!(", {}/s", table::bytes(rate)),
        };
        let (of, time) = match part.total {
            Some(total) if rate > 0 && millis > 0 => {
                let time = left(part).saturating_mul(1000) / rate;
                (format!(" of about {}", table::bytes(total)), format!(", {} left", table::span(time)))
            }
            Some(total) => (format!(" of about {}", table::bytes(total)), String::new()),
            None => (String::new(), String::new()),
        };
        format!("  {}: {}{of}{pace}{time}", printable(name), table::bytes(part.done))
    };
    shown.iter().take(NAMED).map(line).collect::<Vec<_>>().join("\n")
}

/// A name without control characters: a table's name may contain codes that move the cursor.
fn printable(name: &str) -> String {
    let plain = |c: char| if is_visible(c) { c } else { '?' };
    let mut text: String = name.chars().take(LONGEST).map(plain).collect();
    if name.chars().count() > LONGEST {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stage_is_told_at_its_ends_and_each_second() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&told);
        let lines = Lines::new(move |line: String| to.lock().expect("whole").push(line));
        lines.advance(5);
        lines.begin("files", Some(4000));
        for _ in 0..4 {
            tokio::time::advance(Duration::from_millis(500)).await;
            lines.advance(500);
        }
        lines.begin("log", None);
        lines.finish();
        lines.finish();
        let told: Vec<serde_json::Value> =
            told.lock().expect("whole").iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let short = |told: &serde_json::Value| {
            format!("{} {} {}", told["progress"], told["stage"], told["done_bytes"]).replace('"', "")
        };
        let all: Vec<String> = told.iter().map(short).collect();
        let expected =
            ["begin files 0", "bytes files 1000", "bytes files 2000", "end files 2000", "begin log 0", "end log 0"];
        assert_eq!(all, expected);
        let (rate, left) = (&told[2]["bytes_per_second"], &told[2]["left_ms"]);
        assert_eq!((rate, left, &told[4]["total_bytes"]), (&json!(1000), &json!(2000), &json!(null)));
    }

    #[test]
    fn the_largest_tables_under_way_are_named() {
        let begun = Instant::now();
        let now = begun + Duration::from_secs(2);
        let part = |done, total| Part { done, total, begun, last: now };
        let parts = BTreeMap::from(
            [
                ("public.done", part(10, Some(10))),
                ("public.small", part(1 << 20, Some(2 << 20))),
                ("public.big", part(20 << 20, Some(120 << 20))),
                ("public.mid\n\u{1b}[2J", part(4 << 20, Some(8 << 20))),
                ("public.tiny", part(1, Some(2))),
            ]
            .map(|(name, part)| (name.to_owned(), part)),
        );
        assert_eq!(
            lines(&parts, now),
            "  public.big: 20.0 MiB of about 120.0 MiB, 10.0 MiB/s, 10.0 s left\n  \
             public.mid??[2J: 4.0 MiB of about 8.0 MiB, 2.0 MiB/s, 2.0 s left\n  \
             public.small: 1.0 MiB of about 2.0 MiB, 512.0 KiB/s, 2.0 s left"
        );
        let unknown = BTreeMap::from([("t".to_owned(), part(2048, None))]);
        assert_eq!(lines(&unknown, now), "  t: 2.0 KiB, 1.0 KiB/s");
        let at_once = BTreeMap::from([("t".to_owned(), Part { begun: now, ..part(1024, Some(2048)) })]);
        assert_eq!(lines(&at_once, now), "  t: 1.0 KiB of about 2.0 KiB");
        assert_eq!(lines(&BTreeMap::new(), now), "");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(printable(&"é".repeat(41)), "é".repeat(40) + "…");
        assert_eq!(printable(&"x".repeat(40)), "x".repeat(40));
    }
}
