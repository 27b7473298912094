//! Random operations against the engine, and a record of every state of the database. Every TXID in the vault restores
//! to a recorded state, in the order of the states, and every point that was reported as protected can be restored.
//!
//! An application commits, rolls back, checkpoints, vacuums, changes its page size, loses its power, is replaced. The
//! engine starts, stops, is killed, loses its state directory. The store fails in every way that it can, and the clock
//! jumps. Objects are deleted, cut and replaced during a running process. The application also acts while the engine is
//! between two of its steps. One seed decides all of it; time is simulated.

mod application;
mod defects;
mod history;
mod host;

pub(crate) use history::look;
use host::Host;

/// Steps of one run.
const STEPS: usize = 90;

/// Runs the model with a seed from its beginning to its last comparison.
async fn run(seed: u64) {
    run_on(Host::new(seed)).await;
}

async fn run_on(mut host: Host) {
    for _ in 0..STEPS {
        host.step().await;
    }
    host.finish().await;
}

macro_rules! seeds {
    ($($name:ident = $seed:expr),*) => {
        $(#[tokio::test(start_paused = true)]
        async fn $name() {
            run($seed).await;
        })*
    };
}

seeds! { seed_1 = 1, seed_2 = 2, seed_3 = 3, seed_4 = 4, seed_5 = 5, seed_6 = 6, seed_7 = 7, seed_8 = 8, seed_251 = 251 }

macro_rules! harmed {
    ($($name:ident = $seed:expr),*) => {
        $(#[tokio::test(start_paused = true)]
        async fn $name() {
            run_on(Host::with_a_vandal($seed)).await;
        })*
    };
}

harmed! { harmed_1 = 1, harmed_2 = 2, harmed_4 = 4 }

/// A new random seed, or the seed in `SEAWALL_SEED`; `SEAWALL_SEEDS` runs as many, one after the other.
#[tokio::test(start_paused = true)]
async fn seeds_that_are_new() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let first = number("SEAWALL_SEED").unwrap_or_else(seawall_testing::fresh_seed);
    for seed in (first..).take(number("SEAWALL_SEEDS").unwrap_or(1) as usize) {
        eprintln!("SEAWALL_SEED={seed}");
        run(seed).await;
        // Each takes several times as long as a plain one: they run where a search was asked for.
        if number("SEAWALL_SEEDS").is_some() {
            run_on(Host::with_a_vandal(seed)).await;
        }
    }
}
