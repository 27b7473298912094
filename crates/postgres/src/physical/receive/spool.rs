//! Segments that a recovery asks for next, in a folder of the server that recovers.
//!
//! PostgreSQL calls its `restore_command` once for each segment, and waits for it. So the call that gets a segment out of the vault
//! gets some of the next ones too, several at a time, and the calls for these find them here. Nothing runs between the calls.
//!
//! - The folder is `pg_wal/seawall.ahead` of the data directory in which PostgreSQL runs the command: two recoveries share none. It
//!   belongs to the server's user, and no other user may enter it (0700). If others could enter it, because its mode was changed, it
//!   is emptied and closed again. A link in its place isn't followed.
//! - A file is the object of a segment as the vault gave it, with the digest of its content. It is checked when it is handed over, as
//!   the object would be. A file that isn't sound is deleted, and the vault is asked.
//! - Its name says which recovery it was got for: the vault, the line and the end. Another recovery in the same folder deletes it.
//! - Only whole segments are kept that the recovery gets as they are (`archive::log`, `ahead`). An absence is never kept.
//! - Each call deletes what isn't needed any more, and the call at the end of a recovery the folder.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use seawall_archive::log::{Line, Log, LogError, Lsn, Most, SegmentName};
use tokio::time::timeout;

/// The folder in `pg_wal`.
const FOLDER: &str = "seawall.ahead";

/// The most bytes of segments that are got ahead, before they are compressed, and of their objects.
const MOST_BYTES: u64 = 112 << 20;

/// Segments that are got at a time.
const AT_A_TIME: usize = 4;

/// After a segment that took longer, none is got ahead: the way to the vault is full with one.
const SLOW: Duration = Duration::from_secs(1);

/// How long getting ahead may take: this, and so many times as long as the segment that was asked for took, but no longer than `MOST`. The
/// recovery waits as long for the segment that it asked for.
const PATIENCE: Duration = Duration::from_millis(500);
const TIMES: u32 = 8;
const MOST: Duration = Duration::from_secs(2);

/// Which segments are got ahead, and for which recovery.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// The most segments.
    pub most: usize,
    /// The vault as the command names it.
    pub vault: &'a str,
    /// The configuration.
    pub config: Option<&'a Path>,
    /// The timeline that is recovered.
    pub line: Line,
    /// Where the recovery ends at the latest.
    pub until: Option<Lsn>,
}

/// The segments that were got ahead for one recovery.
#[derive(Debug)]
pub struct Spool {
    wal: PathBuf,
    recovery: String,
    most: usize,
    pub(super) line: Line,
    pub(super) until: Option<Lsn>,
}

/// The folder of segments, and `pg_wal`, which holds it.
struct Opened {
    wal: OwnedFd,
    folder: OwnedFd,
}

impl Spool {
    /// That of the server whose data directory is `data`, if the file that it asks for goes to its `pg_wal`: to `to`. Another program
    /// that runs the command asks for other segments next.
    pub fn of(data: &Path, to: &Path, order: &Order<'_>) -> Option<Self> {
        let wal = data.join("pg_wal");
        let place = seawall_host::folder_of(to);
        let is_its = std::fs::canonicalize(&wal).ok()? == std::fs::canonicalize(place).ok()?;
        let Order { most, vault, config, line, until } = *order;
        let recovery = blake3::hash(format!("{vault}\0{config:?}\0{line:?}\0{until:?}").as_bytes()).to_hex();
        let recovery = recovery.chars().take(16).collect();
        is_its.then_some(Self { wal, recovery, most, line, until })
    }

    fn file(&self, segment: SegmentName) -> String {
        format!("{segment}.{}", self.recovery)
    }

    /// The object of a segment, if it was got ahead.
    pub(super) fn take(&self, segment: SegmentName) -> Option<Bytes> {
        let opened = self.open(false).ok()??;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&opened.folder, self.file(segment), flags, Mode::empty()).ok()?;
        let found = fstat(&file).ok()?;
        let is_ours = FileType::from_raw_mode(found.st_mode).is_file() && found.st_uid == user();
        let size = u64::try_from(found.st_size).ok().filter(|size| is_ours && *size <= MOST_BYTES)?;
        let mut bytes = Vec::with_capacity(usize::try_from(size).ok()?);
        File::from(file).take(size).read_to_end(&mut bytes).ok()?;
        Some(bytes.into())
    }

    /// Deletes a segment's file: it was handed over, or isn't sound.
    pub(super) fn forget(&self, segment: SegmentName) {
        if let Ok(Some(opened)) = self.open(false) {
            let _ = unlinkat(&opened.folder, self.file(segment), AtFlags::empty());
        }
    }

    /// Deletes everything. Returns whether there was a folder to delete.
    pub(super) fn clear(&self) -> bool {
        let Ok(Some(opened)) = self.open(false) else { return false };
        let _ = opened.keep(&[]);
        unlinkat(&opened.wal, FOLDER, AtFlags::REMOVEDIR).is_ok()
    }

    /// Gets the segments that follow `segment`, which took `took`. What fails or takes too long isn't kept: the vault is asked for
    /// it again when its turn comes, and then tells why.
    pub(super) async fn fill(&self, log: &Log, segment: SegmentName, took: Duration) {
        let size = u64::from(log.cluster().segment_size.bytes());
        let fits = usize::try_from(MOST_BYTES / size).unwrap_or(0);
        let most = Most { segments: self.most.min(fits), bytes: MOST_BYTES };
        if most.segments == 0 || took > SLOW {
            return;
        }
        let getting = async {
            let following = log.following(segment, (self.line, self.until), most).await?;
            if following.is_empty() {
                return Ok(());
            }
            let failed = |error: io::Error| LogError::io(&self.wal.join(FOLDER), &error);
            let opened = self.open(true).map_err(failed)?.ok_or_else(|| failed(Errno::NOENT.into()))?;
            let names: Vec<String> = following.iter().map(|segment| self.file(*segment)).collect();
            let there = opened.keep(&names).map_err(failed)?;
            let missing = following.into_iter().zip(names).filter(|(_, name)| !there.contains(name));
            let gets = futures::stream::iter(missing.collect::<Vec<_>>()).map(|(segment, name)| {
                let opened = &opened;
                async move {
                    let bytes = log.stored(segment).await?;
                    opened.put(&name, &bytes).map_err(failed)
                }
            });
            let mut gets = gets.buffer_unordered(AT_A_TIME);
            while let Some(got) = gets.next().await {
                got?;
            }
            Ok::<_, LogError>(())
        };
        // Whatever happened: the segment that was asked for is there.
        let _ = timeout((PATIENCE + took * TIMES).min(MOST), getting).await;
    }

    /// Opens the folder; `None` if there is none and it isn't to be made.
    fn open(&self, make: bool) -> io::Result<Option<Opened>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let wal = openat(CWD, &self.wal, flags, Mode::empty())?;
        if make {
            match mkdirat(&wal, FOLDER, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let folder = match openat(&wal, FOLDER, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened?,
        };
        let found = fstat(&folder)?;
        if found.st_uid != user() {
            return Err(io::Error::other("it belongs to another user"));
        }
        let opened = Opened { wal, folder };
        if found.st_mode & 0o077 != 0 {
            // Others could enter it, and put files there.
            fchmod(&opened.folder, Mode::RWXU)?;
            opened.keep(&[])?;
        }
        Ok(Some(opened))
    }
}

impl Opened {
    /// Deletes all files but these, and returns those of these that are there.
    fn keep(&self, names: &[String]) -> io::Result<Vec<String>> {
        let mut there = Vec::new();
        for entry in Dir::read_from(self.folder.as_fd())? {
            let entry = entry?;
            let name = entry.file_name();
            match names.iter().find(|kept| kept.as_bytes() == name.to_bytes()) {
                Some(kept) => there.push(kept.clone()),
                None if matches!(name.to_bytes(), b"." | b"..") => {}
                None => drop(unlinkat(&self.folder, name, AtFlags::empty())),
            }
        }
        Ok(there)
    }

    /// Writes a file, which appears when it is complete. It isn't made durable: its digest tells whether it is whole.
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let partial = format!("{name}.{}", std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.folder, &partial, flags, Mode::RUSR | Mode::WUSR)?;
        let written = File::from(file).write_all(bytes);
        let put = written.and_then(|()| Ok(renameat(&self.folder, &partial, &self.folder, name)?));
        if put.is_err() {
            let _ = unlinkat(&self.folder, &partial, AtFlags::empty());
        }
        put
    }
}

/// The user of this process, which is the server's.
fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "these tests look at files")]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::sync::Arc;

    use seawall_archive::log::{Cluster, SegmentSize, SystemId, TimelineId};
    use seawall_vault::memory::MemoryStore;
    use seawall_vault::{Policy, Vault};

    use super::*;

    const SIZE: u64 = 1 << 20;

    fn segment(number: u64) -> SegmentName {
        let size = SegmentSize::new(1 << 20).expect("a size");
        SegmentName::of(TimelineId::new(1).expect("one"), Lsn::new(number * SIZE), size)
    }

    fn order(most: usize) -> Order<'static> {
        Order { most, vault: "/v", config: None, line: Line::Latest, until: None }
    }

    fn data() -> tempfile::TempDir {
        let data = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(data.path().join("pg_wal")).expect("made");
        data
    }

    fn spool(data: &Path, order: &Order<'_>) -> Spool {
        Spool::of(data, &data.join("pg_wal/RECOVERYXLOG"), order).expect("its server's")
    }

    fn files(data: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(data.join("pg_wal").join(FOLDER)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// A log with these segments.
    async fn log(numbers: &[u64]) -> Log {
        let vault = Vault::new(Arc::new(MemoryStore::new()), Policy::default());
        let size = SegmentSize::new(1 << 20).expect("a size");
        let log = Log::claim(&vault, Cluster { system: SystemId::new(7), segment_size: size }).await.expect("a log");
        for number in numbers {
            log.put_whole(segment(*number), Bytes::from(vec![7; 1 << 20])).await.expect("stored");
        }
        log
    }

    #[tokio::test]
    async fn what_follows_is_got_once_and_what_is_left_goes() {
        let (data, log) = (data(), log(&[1, 2, 3, 4, 5, 7]).await);
        let mine = spool(data.path(), &order(3));
        assert!(mine.take(segment(2)).is_none());
        mine.fill(&log, segment(1), Duration::ZERO).await;
        assert_eq!(files(data.path()), [2, 3, 4].map(|number| mine.file(segment(number))));
        let mode = std::fs::metadata(data.path().join("pg_wal").join(FOLDER)).expect("a folder").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(mine.take(segment(3)), Some(log.stored(segment(3)).await.expect("an object")));
        // Another recovery doesn't find them, and deletes them.
        let other = spool(data.path(), &Order { until: Some(Lsn::new(5 * SIZE)), ..order(9) });
        assert!(other.take(segment(2)).is_none());
        other.fill(&log, segment(2), Duration::ZERO).await;
        assert_eq!(files(data.path()), [3, 4].map(|number| other.file(segment(number))));
        // What a killed process left goes too.
        std::fs::write(data.path().join("pg_wal").join(FOLDER).join("left"), "x").expect("written");
        mine.fill(&log, segment(3), Duration::ZERO).await;
        assert_eq!(files(data.path()), [4, 5].map(|number| mine.file(segment(number))));
        mine.forget(segment(4));
        assert_eq!(files(data.path()), [mine.file(segment(5))]);
        mine.clear();
        assert!(!data.path().join("pg_wal").join(FOLDER).exists());
        // Nothing follows, none is wanted, or the way is slow: no folder is made.
        mine.fill(&log, segment(7), Duration::ZERO).await;
        spool(data.path(), &order(0)).fill(&log, segment(1), Duration::ZERO).await;
        mine.fill(&log, segment(1), SLOW * 2).await;
        assert!(!data.path().join("pg_wal").join(FOLDER).exists());
    }

    #[tokio::test]
    async fn a_folder_of_others_is_not_used() {
        let (data, log) = (data(), log(&[1, 2, 3]).await);
        let (mine, place) = (spool(data.path(), &order(3)), data.path().join("pg_wal").join(FOLDER));
        let elsewhere = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(elsewhere.path(), Permissions::from_mode(0o700)).expect("set");
        std::fs::write(elsewhere.path().join(mine.file(segment(2))), "planted").expect("written");
        symlink(elsewhere.path(), &place).expect("a link");
        mine.fill(&log, segment(1), Duration::ZERO).await;
        assert!(mine.take(segment(2)).is_none());
        mine.clear();
        assert_eq!(
            std::fs::read_dir(elsewhere.path()).expect("a folder").count(),
            1,
            "nothing is written or deleted there"
        );
        std::fs::remove_file(&place).expect("removed");
        // Others may enter it.
        std::fs::create_dir(&place).expect("made");
        std::fs::set_permissions(&place, Permissions::from_mode(0o755)).expect("set");
        std::fs::write(place.join(mine.file(segment(2))), "planted").expect("written");
        mine.fill(&log, segment(1), Duration::ZERO).await;
        let mode = || std::fs::metadata(&place).expect("a folder").permissions().mode() & 0o777;
        assert_eq!((mine.take(segment(2)), mode()), (Some(log.stored(segment(2)).await.expect("an object")), 0o700));
        std::fs::set_permissions(&place, Permissions::from_mode(0o770)).expect("set");
        assert!(mine.take(segment(2)).is_none() && files(data.path()).is_empty() && mode() == 0o700);
        assert!(mine.clear() && !mine.clear());
        mine.fill(&log, segment(1), Duration::ZERO).await;
        // A link or a folder in the place of a file.
        for number in [2, 3] {
            std::fs::remove_file(place.join(mine.file(segment(number)))).expect("removed");
        }
        symlink(elsewhere.path().join(mine.file(segment(2))), place.join(mine.file(segment(2)))).expect("a link");
        std::fs::create_dir(place.join(mine.file(segment(3)))).expect("made");
        assert!(mine.take(segment(2)).is_none() && mine.take(segment(3)).is_none());
    }

    #[test]
    fn only_what_goes_to_the_servers_own_folder_is_of_its_recovery() {
        let (data, elsewhere) = (data(), tempfile::tempdir().expect("a folder"));
        assert!(Spool::of(data.path(), &elsewhere.path().join("x"), &order(1)).is_none());
        assert!(Spool::of(elsewhere.path(), &elsewhere.path().join("x"), &order(1)).is_none());
        let mine = spool(data.path(), &order(1));
        for other in [
            Order { vault: "/w", ..order(1) },
            Order { config: Some(Path::new("/c")), ..order(1) },
            Order { line: Line::Of(TimelineId::new(1).expect("one")), ..order(1) },
            Order { until: Some(Lsn::new(0)), ..order(1) },
        ] {
            assert_ne!(spool(data.path(), &other).recovery, mine.recovery, "{other:?}");
        }
    }
}
