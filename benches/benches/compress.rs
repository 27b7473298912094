//! The compress stage of a backup alone, on one core: frames of 1 MiB, as a set has them.
//!
//! `python3 benches/compress.py` makes the text, and runs this beside the peer. To run it alone: `cargo bench -p
//! seawall-benches --bench compress -- FILE`. Prints a line of JSON for each codec: megabytes of text per second of
//! CPU, both ways, and the compression ratio.

#![allow(clippy::disallowed_methods, reason = "tests and benches are an edge")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench reports by printing and panicking")]

use std::hint::black_box;

use seawall_archive::Codec;
use seawall_archive::measuring::coder;

const FRAME: usize = 1 << 20;
const ROUNDS: u32 = 3;
const LEAST: usize = 200_000_000;

/// Seconds of CPU that this thread has used.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn measure(codec: Codec, text: &[u8]) {
    let (mut encode, mut decode) = coder(codec).unwrap();
    let (mut there, mut back) = (f64::MAX, f64::MAX);
    let mut frames: Vec<Vec<u8>> = text.chunks(FRAME).map(|_| Vec::new()).collect();
    let mut raw = Vec::new();
    for _ in 0..ROUNDS {
        let began = cpu();
        for (frame, stored) in text.chunks(FRAME).zip(&mut frames) {
            encode(black_box(frame), stored).unwrap();
        }
        there = there.min(cpu() - began);
        let began = cpu();
        for (frame, stored) in text.chunks(FRAME).zip(&frames) {
            decode(black_box(stored), frame.len(), &mut raw).unwrap();
        }
        back = back.min(cpu() - began);
    }
    for (frame, stored) in text.chunks(FRAME).zip(&frames) {
        decode(stored, frame.len(), &mut raw).unwrap();
        assert!(raw == frame, "{codec}: another text came back");
    }
    let (size, stored) = (text.len() as f64, frames.iter().map(Vec::len).sum::<usize>() as f64);
    println!(
        "{{\"codec\": \"{codec}\", \"compress_mb_s\": {:.0}, \"decode_mb_s\": {:.0}, \"ratio\": {:.3}}}",
        size / 1e6 / there,
        size / 1e6 / back,
        size / stored
    );
}

fn main() {
    // cargo adds --bench.
    let Some(file) = std::env::args().skip(1).find(|argument| !argument.starts_with("--")) else {
        println!("give a file of text: -- FILE");
        return;
    };
    let mut text = std::fs::read(file).unwrap();
    // The kernel counts CPU in milliseconds.
    text = text.repeat(LEAST.div_ceil(text.len().max(1)));
    for codec in ["zstd:1", "gzip:1", "lz4", "none"] {
        measure(codec.parse().unwrap(), &text);
    }
}
