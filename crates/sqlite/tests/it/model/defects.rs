//! A test of the model: with an engine that has one deliberate defect, the model fails within some seeds.
//! `between_steps.rs` detects a forgotten barrier.

use seawall_sqlite::probe::Defect;

use super::{Host, run_on};

/// How many seeds may let a defect pass before one sees it. About one in ten does, so nearly always the first few decide.
const SEEDS: u64 = 120;

/// Runs seeds with a defect until one of them fails.
fn is_caught(defect: Defect) {
    for seed in 1..=SEEDS {
        let passes = |defect| {
            let run = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
                runtime.expect("a runtime").block_on(run_on(Host::with_defect(seed, defect)));
            };
            std::panic::catch_unwind(run).is_ok()
        };
        if !passes(Some(defect)) {
            assert!(passes(None), "seed {seed} fails without {defect:?} too");
            return;
        }
    }
    panic!("{SEEDS} seeds did not see {defect:?}");
}

#[test]
fn acknowledging_before_the_upload_is_confirmed_is_caught() {
    is_caught(Defect::AcknowledgesFirst);
}

#[test]
fn skipping_the_checksum_chain_is_caught() {
    is_caught(Defect::SkipsTheChain);
}

#[test]
fn trusting_size_and_mtime_is_caught() {
    is_caught(Defect::TrustsSizeAndMtime);
}
