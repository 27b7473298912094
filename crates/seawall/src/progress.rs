//! Progress on a terminal; silence anywhere else.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use seawall_core::{NoProgress, Progress};

use crate::edge::Edge;

/// Shows progress on standard error where a person reads it.
pub(crate) fn progress(edge: &Edge, json: bool) -> Arc<dyn Progress> {
    if edge.terminal && !json { Arc::new(Bar::default()) } else { Arc::new(NoProgress) }
}

/// One bar per stage, gone when the stage is over.
#[derive(Debug, Default)]
struct Bar {
    stage: Mutex<Option<ProgressBar>>,
}

impl Bar {
    fn replace(&self, next: Option<ProgressBar>) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ended) = std::mem::replace(&mut *stage, next) {
            ended.finish_and_clear();
        }
    }
}

impl Progress for Bar {
    fn begin(&self, stage: &str, total: Option<u64>) {
        let (bar, template) = match total {
            Some(total) => (
                ProgressBar::new(total),
                "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}",
            ),
            None => (ProgressBar::new_spinner(), "{msg} {spinner} {binary_bytes} {binary_bytes_per_sec}"),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(stage.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        self.replace(Some(bar));
    }

    fn advance(&self, bytes: u64) {
        if let Some(bar) = &*self.stage.lock().unwrap_or_else(PoisonError::into_inner) {
            bar.inc(bytes);
        }
    }

    fn finish(&self) {
        self.replace(None);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.replace(None);
    }
}
