//! Follows the data file's name: is it still the file that is open? Opens the file that has the name now.

use super::standing::{self, Standing, standing};
use super::{Local, written};
use crate::environment::{self, EnvOptions, holders};
use crate::error::Error;
use crate::merge::apply::Tide;

/// The result of a look at an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether the data file is still the same.
    pub(crate) standing: Standing,
    /// Whether another process wrote since the last snapshot was taken.
    pub(crate) pending: bool,
    /// Whether a commit is under way that can't be read yet.
    pub(crate) coming: bool,
    /// The last transaction.
    pub(crate) last: u64,
}

impl Look {
    /// A look at a file whose transactions don't count.
    fn of(standing: Standing) -> Self {
        Self { standing, pending: false, coming: false, last: 0 }
    }
}

impl Local {
    /// The result of a look: whether the file is still the same, and whether another process wrote.
    pub(crate) fn look(&mut self) -> Result<Look, Error> {
        let found = environment::identity(&self.data);
        let last = match self.env.info() {
            Ok(info) => info.last_transaction,
            Err(Error::Cut { .. }) if found.is_none() => return Ok(Look::of(Standing::Gone)),
            Err(Error::Closed { .. }) if found.is_none() => return Ok(Look::of(Standing::Gone)),
            // An earlier attempt to open the file anew failed.
            Err(Error::Closed { .. }) => return Ok(Look::of(Standing::Rewound)),
            // The old file is given up for another one.
            Err(Error::Cut { .. }) if found != self.env.identity() => return Ok(Look::of(Standing::Replaced)),
            Err(Error::Cut { .. }) if self.env.holds_a_whole_one() => return Ok(Look::of(Standing::Rewound)),
            Err(error) => return Err(error),
        };
        let lock = holders::lock_standing(&self.data, self.options.no_subdir, self.env.lock_identity());
        let facts = standing::Facts { opened: self.env.identity(), found, lock, seen: self.seen, last };
        self.seen = last;
        // A commit is in the file for a moment before a read transaction can see it.
        let visible = last > self.synced.0 && self.env.read()?.id() > self.synced.0;
        Ok(Look { standing: standing(facts), pending: visible, coming: last > self.synced.0 && !visible, last })
    }

    /// Opens the same data file with the lock file that other processes use now. This process's own lock stays as it is.
    /// The caller opens the environment again, which takes the lock anew.
    pub(crate) fn open_beside(&mut self) -> Result<(), Error> {
        let options = EnvOptions { create: false, ..self.options.clone() };
        self.env = self.env.open_beside(&options)?;
        // What other processes wrote with another lock file may be anything.
        self.written = written(&self.data);
        (self.synced, self.captured, self.quiet, self.last, self.seen) = (Tide(0), Tide(0), Tide(0), None, 0);
        Ok(())
    }

    /// Opens the file that has the data's name now, and forgets everything about the old file or the old content. If
    /// that fails, the environment is closed until a later call succeeds.
    pub(crate) fn open_again(&mut self) -> Result<(), Error> {
        let options = EnvOptions { create: false, ..self.options.clone() };
        // Otherwise this process's own lock would refuse the opening.
        self._lock = None;
        // The old content's page size, DBIs and last transaction are in liblmdb's memory and in the lock file. liblmdb
        // forgets them once no process has the lock file open.
        self.env.close();
        let path = self.env.path().to_owned();
        let open = if self.alone { Self::open_alone } else { Self::open };
        let codec = self.codec;
        *self = Self { codec, options: self.options.clone(), ..open(&path, &options, self.settings.clone())? };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;
    use crate::local::Settings;
    use crate::schema::Schema;
    use crate::schema::flags::Flags;

    /// liblmdb keeps the number of the last transaction in the lock file, and takes the meta page by it. So a session
    /// that goes on with the open environment would see the copy as it was one commit before.
    #[test]
    fn a_copy_that_is_written_over_the_file_is_seen_with_its_last_commit() {
        for later in 1..=2_u8 {
            let folder = tempfile::tempdir().expect("a folder");
            let schema = Schema { native: false, dupsort_hack: false, padding: false, create_flags: BTreeMap::new() };
            let options = EnvOptions { create: true, map_size: Some(1 << 20), ..EnvOptions::default() };
            let mut local = Local::open(folder.path(), &options, Settings::new(schema)).expect("opened");
            let put = |local: &Local, key: &[u8], value: &[u8]| {
                let mut txn = local.env().write().expect("a transaction");
                let dbi = txn.create(b"d", Flags::default()).expect("made");
                txn.put(dbi, key, value).expect("put");
                txn.commit().expect("committed");
            };
            put(&local, b"first", b"1");
            put(&local, b"last", b"2");
            let copy = fs::read(local.data()).expect("read");
            for n in 0..later {
                put(&local, &[n], &[n; 9000]);
            }
            assert_eq!(local.look().expect("a look").standing, Standing::Same);
            fs::write(local.data(), &copy).expect("written over");
            assert_eq!(local.look().expect("a look").standing, Standing::Rewound);
            local.open_again().expect("opened again");
            let mut txn = local.env().read().expect("a transaction");
            let dbi = txn.open(b"d").expect("opened").expect("there");
            assert_eq!(txn.stat(dbi).expect("facts").entries, 2, "{later} commits later");
        }
    }

    /// The names of both lock files are gone, and another process holds the new one of Seawall. Without its lock this process
    /// must not go on.
    #[test]
    fn an_environment_whose_lock_another_process_took_is_closed() {
        let folder = tempfile::tempdir().expect("a folder");
        let schema = Schema { native: false, dupsort_hack: false, padding: false, create_flags: BTreeMap::new() };
        let options = EnvOptions { create: true, map_size: Some(1 << 20), ..EnvOptions::default() };
        let mut local = Local::open_alone(folder.path(), &options, Settings::new(schema)).expect("opened");
        let own = folder.path().join("data.mdb-seawall.lock");
        for lock in [&own, &folder.path().join("lock.mdb")] {
            fs::remove_file(lock).expect("removed");
        }
        let other = fs::File::create(&own).expect("made");
        assert!(seawall_host::lock(&other).expect("locked"));
        assert_eq!(local.look().expect("a look").standing, Standing::Unlocked);
        let went_on = local.open_beside().and_then(|()| local.open_again());
        assert!(matches!(went_on, Err(Error::Locked { .. })), "{went_on:?}");
        assert!(matches!(local.info(), Err(Error::Closed { .. })));
        assert_eq!(local.look().expect("a look").standing, Standing::Rewound);
        drop(other);
        local.open_again().expect("opened");
        assert_eq!(local.look().expect("a look").standing, Standing::Same);
    }

    /// The file is closed while it can't be opened, and opened once it can.
    #[test]
    fn an_environment_that_cannot_be_opened_again_is_opened_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let schema = Schema { native: false, dupsort_hack: false, padding: false, create_flags: BTreeMap::new() };
        let options = EnvOptions { create: true, map_size: Some(1 << 20), ..EnvOptions::default() };
        let mut local = Local::open_alone(folder.path(), &options, Settings::new(schema)).expect("opened");
        let whole = fs::read(local.data()).expect("read");
        fs::write(local.data(), b"").expect("emptied");
        assert!(matches!(local.open_again(), Err(Error::Missing { .. })));
        assert_eq!(fs::metadata(local.data()).expect("there").len(), 0, "nothing was written to it");
        assert!(matches!(local.info(), Err(Error::Closed { .. })));
        assert!(matches!(local.env().read().map(drop), Err(Error::Closed { .. })));
        assert_eq!(local.look().expect("a look").standing, Standing::Rewound);
        fs::write(local.data(), whole).expect("written");
        local.open_again().expect("opened");
        assert_eq!(local.look().expect("a look").standing, Standing::Same);
    }
}
