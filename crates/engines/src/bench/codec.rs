//! How fast does this machine compress rows of the source?

use std::time::{Duration, Instant};

use bytes::Bytes;
use seawall_archive::{Codec, measuring};
use seawall_core::{Failure, Kind};

use super::{Figure, OfCodec};

/// Bytes of rows that are kept for it.
pub(super) const SAMPLE: usize = 64 << 20;

/// Rows that are compressed together, as a backup does.
const FRAME: usize = 1 << 20;

/// How long each core compresses at least.
const LONG: Duration = Duration::from_millis(500);

/// Compresses the rows on `jobs` cores for a while. `None` without rows.
pub(super) async fn measure(codec: Codec, rows: Vec<Bytes>, jobs: usize) -> Result<Option<OfCodec>, Failure> {
    if rows.iter().all(Bytes::is_empty) {
        return Ok(None);
    }
    let work = move || on_cores(codec, &rows, jobs.max(1));
    let failed = |cause: String| {
        Failure::new(
            Kind::Internal,
            "bench.codec",
            codec.to_string(),
            cause,
            "report this, with the codec and the machine",
        )
    };
    let done = tokio::task::spawn_blocking(work).await.map_err(|error| failed(error.to_string()))?;
    let (raw, stored, took) = done.map_err(|error| failed(error.to_string()))?;
    let per_mille = u64::try_from(u128::from(stored) * 1000 / u128::from(raw.max(1))).unwrap_or(u64::MAX);
    Ok(Some(OfCodec { name: codec.to_string(), figure: Figure::new(raw, took), per_mille }))
}

/// Bytes of rows, bytes that came of them, and the wall time. Each core has an encoder of its own, and its own order of the rows.
#[expect(clippy::disallowed_methods, reason = "the work of real cores is measured, and no test pauses it")]
fn on_cores(codec: Codec, rows: &[Bytes], cores: usize) -> std::io::Result<(u64, u64, Duration)> {
    let frames: Vec<&[u8]> = rows.iter().flat_map(|part| part.chunks(FRAME)).collect();
    let began = Instant::now();
    let on_core = |core: usize| {
        let (mut encode, _) = measuring::coder(codec)?;
        let (mut raw, mut stored, mut buffer) = (0u64, 0u64, Vec::new());
        // The whole sample at least once, so that the ratio is that of all of it.
        for (nth, frame) in frames.iter().cycle().skip(core * frames.len() / cores).enumerate() {
            if nth >= frames.len() && began.elapsed() >= LONG {
                break;
            }
            encode(frame, &mut buffer)?;
            (raw, stored) = (raw + frame.len() as u64, stored + buffer.len() as u64);
        }
        Ok::<_, std::io::Error>((raw, stored))
    };
    let sums = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|core| scope.spawn(move || on_core(core))).collect();
        let ended =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(std::io::Error::other("panicked"))));
        ended.collect::<std::io::Result<Vec<_>>>()
    })?;
    let (raw, stored) = sums.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    Ok((raw, stored, began.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rows_are_compressed_on_all_cores() {
        let rows = vec![Bytes::from(b"a row of rows\n".repeat(200_000))];
        let bytes = rows[0].len() as u64;
        let found = measure(Codec::Zstd { level: 1 }, rows, 2).await.expect("measured").expect("rows");
        assert!(found.figure.bytes >= 2 * bytes && found.per_mille < 100, "{found:?}");
        assert_eq!(found.name, "zstd:1");
        let nothing = measure(Codec::Lz4, vec![Bytes::new()], 2).await.expect("measured");
        assert_eq!(nothing, None);
        let none = measure(Codec::None, vec![Bytes::from_static(b"x")], 1).await.expect("measured").expect("rows");
        assert!(none.per_mille >= 1000, "{none:?}");
    }
}
