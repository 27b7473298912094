//! Opens snapshots that show one state, by the best way that server and rights allow.
//!
//! A global lock is held only while the snapshots open. Nothing that it holds outlives this process: locks end with their
//! connection. If this machine vanishes, the server isn't told; so a session that holds a lock has a time limit of the server's. Each
//! wait has an end, because everybody else queues behind a lock that is waited for; and a pause as long follows it.

use std::time::Duration;

use futures::future::try_join_all;
use seawall_core::Moment;
use tokio::time::{Instant, sleep, timeout};

use crate::catalog::engines::Rows;
use crate::catalog::facts::Facts;
use crate::catalog::inventory::Table;
use crate::catalog::rights::Account;
use crate::client::{Connection, Purpose, Target};
use crate::detail::{Method, Position, Taken};
use crate::dump::{blocked, ladder, position};
use crate::{DumpOptions, Error, World};

/// How long one request for a lock waits, and so holds everybody else up.
const ONE_WAIT: Duration = Duration::from_secs(5);

/// The pause between two looks at a server that isn't ready for the lock.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a lock is held at most.
const HELD: Duration = Duration::from_secs(30);

/// When the server ends a silent session with a global lock by itself: behind our own limit.
const SILENT: Duration = Duration::from_secs(35);

/// The same for a session that keeps writers of tables without snapshots out, or changes of definitions: reading the definitions
/// of a large server takes minutes.
const SILENT_KEEPER: Duration = Duration::from_secs(3600);

/// How often a session that is only there for its lock says that it is there.
const SIGN: Duration = Duration::from_secs(600);

/// How often snapshots are opened anew, where no lock keeps transactions out between them.
const TRIES: u32 = 20;

/// After this time a transaction that MySQL has committed is in its set of GTIDs, and one that a replica has committed in its status.
const SETTLES: Duration = Duration::from_millis(100);

const SNAPSHOT: &str = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";

const SAVEPOINT: &str = "SAVEPOINT seawall";

/// A state that is held, by its connections.
pub(crate) struct Held {
    /// Each sees the state.
    pub(crate) snapshots: Vec<Connection>,
    /// Holds writers of tables without snapshots out until it is closed.
    pub(crate) keeper: Option<Connection>,
    /// MySQL: holds up changes of definitions until it is closed.
    pub(crate) guard: Option<Connection>,
    pub(crate) taken: Taken,
    pub(crate) moment: Moment,
}

/// What is needed to open snapshots.
pub(crate) struct Opening<'a> {
    pub(crate) target: &'a Target,
    pub(crate) facts: &'a Facts,
    pub(crate) account: &'a Account,
    pub(crate) databases: &'a [String],
    pub(crate) tables: &'a [Table],
    pub(crate) options: &'a DumpOptions,
    pub(crate) world: &'a World,
}

/// How a way ended.
enum Tried {
    Held(Box<Held>),
    /// The server refused it to us, or it can't work here: why.
    Refused(String),
}

/// A lock, with what takes it and what gives it back.
struct Lock {
    name: &'static str,
    take: Vec<String>,
    release: &'static str,
    /// Whether every statement that runs holds it up.
    waits_for_statements: bool,
    /// When the server ends its session, if that is silent.
    silent: Duration,
}

impl Opening<'_> {
    /// Opens snapshots, as many as there are jobs; one where only one can be had.
    pub(crate) async fn open(&self, scout: &mut Connection) -> Result<Held, Error> {
        let powers = ladder::Powers::of(self.facts, &self.account.rights, self.databases);
        let mut notes = Vec::new();
        let guard = if powers.instance { self.guard(scout, &mut notes).await? } else { None };
        for way in ladder::ways(powers) {
            match self.attempt(scout, way, guard.as_ref().map(|own| own.connection_id)).await? {
                Tried::Held(mut held) => {
                    notes.extend(ladder::note(way, self.facts.has_stages()).map(str::to_owned));
                    notes.append(&mut held.taken.notes);
                    held.taken.notes = notes;
                    held.guard = guard;
                    return Ok(*held);
                }
                Tried::Refused(why) => {
                    tracing::warn!("{why}");
                    notes.push(why);
                }
            }
        }
        Err(Error::Internal("no way to open a snapshot was left".to_owned()))
    }

    /// Holds up changes of definitions, where the server allows it to us.
    async fn guard(&self, scout: &mut Connection, notes: &mut Vec<String>) -> Result<Option<Connection>, Error> {
        let lock = Lock {
            name: "the lock of the instance for a backup",
            take: vec!["LOCK INSTANCE FOR BACKUP".to_owned()],
            release: "UNLOCK INSTANCE",
            waits_for_statements: false,
            silent: SILENT_KEEPER,
        };
        match self.take(scout, &lock, &[]).await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if position::is_refusal(&error) => {
                notes.push(format!("{} was refused: {}", lock.name, error.cause()));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The lock of a way, if it has one.
    fn lock(&self, way: Method) -> Option<Lock> {
        let take = |statements: &[&str]| statements.iter().map(|sql| (*sql).to_owned()).collect();
        match way {
            Method::BackupStage => Some(Lock {
                name: "BACKUP STAGE",
                take: take(&["BACKUP STAGE START", "BACKUP STAGE BLOCK_DDL", "BACKUP STAGE BLOCK_COMMIT"]),
                release: "BACKUP STAGE END",
                waits_for_statements: false,
                silent: SILENT,
            }),
            Method::GlobalLock => Some(Lock {
                name: "the global read lock",
                take: take(&["FLUSH TABLES WITH READ LOCK"]),
                release: "UNLOCK TABLES",
                waits_for_statements: true,
                silent: SILENT,
            }),
            Method::TableLocks => Some(Lock {
                name: "the read lock of all tables",
                take: read_locks(self.tables.iter().filter(|table| table.rows() != Rows::Elsewhere))
                    .into_iter()
                    .collect(),
                release: "UNLOCK TABLES",
                waits_for_statements: false,
                silent: SILENT,
            }),
            Method::SamePosition | Method::OneSnapshot => None,
        }
    }

    async fn attempt(&self, scout: &mut Connection, way: Method, guard: Option<u32>) -> Result<Tried, Error> {
        let count = if way == Method::OneSnapshot { 1 } else { self.options.limits.jobs.max(1) };
        // A connection takes longer to open than a snapshot.
        let connections = (0..count).map(|_| Connection::open_for(self.target, Purpose::Rows));
        let mut snapshots = try_join_all(connections).await?;
        let Some(lock) = self.lock(way) else { return self.without_lock(scout, way, snapshots).await };
        let mut keeper = match self.current().next() {
            Some(_) => Some(Connection::open_for(self.target, Purpose::Rows).await?),
            None => None,
        };
        let mut ours: Vec<u32> = snapshots.iter().chain(&keeper).map(|own| own.connection_id).collect();
        ours.extend(guard);
        ours.push(scout.connection_id);
        let mut holder = match self.take(scout, &lock, &ours).await {
            Ok(holder) => holder,
            Err(error) if position::is_refusal(&error) => {
                return Ok(Tried::Refused(format!("{} was refused: {}", lock.name, error.cause())));
            }
            Err(error) => return Err(error),
        };
        let opening = async {
            let moment = self.world.clock.now();
            try_join_all(snapshots.iter_mut().map(begin)).await?;
            let mut taken = self.taken(way, snapshots.len());
            if let Some(kept) = &mut keeper {
                self.keep(kept, &mut taken).await?;
            }
            taken.position = match self.facts.mariadb {
                true => None,
                false => known(position::now(scout, self.facts).await?),
            };
            self.follow(scout, &mut taken, true).await?;
            Ok::<_, Error>((moment, taken))
        };
        let opened = timeout(HELD, opening).await;
        let (moment, mut taken) = opened.map_err(|_| self.too_slow(&lock))??;
        // If the server has ended the session, transactions may have come between the snapshots: then this fails.
        let released = timeout(HELD, holder.execute(lock.release)).await;
        released.map_err(|_| self.too_slow(&lock))??;
        holder.close().await;
        if self.facts.mariadb {
            taken.position = self.of_snapshots(scout, &mut snapshots).await?;
        }
        if !taken.not_consistent.is_empty() {
            keeper = None;
        }
        Ok(Tried::Held(Box::new(Held { snapshots, keeper, guard: None, taken, moment })))
    }

    /// Records how far a replica has followed. While a lock keeps it from going on, it tells a transaction shortly behind its commit.
    async fn follow(&self, scout: &mut Connection, taken: &mut Taken, is_locked: bool) -> Result<(), Error> {
        let Some(mut sources) = position::sources(scout, self.facts).await? else {
            taken.notes.extend(position::hidden(scout, self.facts).await?);
            return Ok(());
        };
        while is_locked && !sources.is_empty() {
            sleep(SETTLES).await;
            let now = position::sources(scout, self.facts).await?.unwrap_or_default();
            if now == sources {
                break;
            }
            sources = now;
        }
        if !is_locked && !sources.is_empty() {
            taken.notes.push("the primary's position is about that of the snapshots".to_owned());
        }
        taken.sources = sources;
        Ok(())
    }

    /// Tables without snapshots.
    fn current(&self) -> impl Iterator<Item = &Table> {
        self.tables.iter().filter(|table| table.rows() == Rows::Current)
    }

    fn taken(&self, method: Method, snapshots: usize) -> Taken {
        let snapshots = u32::try_from(snapshots).unwrap_or(u32::MAX);
        Taken { method, snapshots, position: None, sources: Vec::new(), not_consistent: Vec::new(), notes: Vec::new() }
    }

    /// Holds writers of tables without snapshots out, or names these tables.
    async fn keep(&self, keeper: &mut Connection, taken: &mut Taken) -> Result<(), Error> {
        let Some(sql) = read_locks(self.current()) else { return Ok(()) };
        wait_at_most(keeper, ONE_WAIT, SILENT_KEEPER).await?;
        let why = match keeper.execute(&sql).await {
            Ok(_) => return Ok(()),
            Err(error) if position::is_refusal(&error) || error.number() == Some(1205) => error.cause(),
            Err(error) => return Err(error),
        };
        taken.not_consistent = self.current().map(|table| table.name.clone()).collect();
        taken.notes.push(format!("tables without snapshots couldn't be locked: {why}"));
        Ok(())
    }

    /// Takes a lock, in several short waits.
    async fn take(&self, scout: &mut Connection, lock: &Lock, ours: &[u32]) -> Result<Connection, Error> {
        let began = Instant::now();
        loop {
            let left = self.options.lock_wait.saturating_sub(began.elapsed());
            if lock.waits_for_statements {
                let sessions = blocked::sessions(scout).await?;
                if let Some(session) = blocked::longest(&sessions, ours, blocked::LONG) {
                    if left.is_zero() {
                        return Err(blocked::failure(&self.target.to_string(), lock.name, Some(session)));
                    }
                    sleep(PAUSE.min(left)).await;
                    continue;
                }
            }
            let mut holder = Connection::open(self.target).await?;
            wait_at_most(&mut holder, ONE_WAIT.min(left), lock.silent).await?;
            match run(&mut holder, &lock.take).await {
                Ok(()) => return Ok(holder),
                Err(error) if error.number() == Some(1205) => {
                    // It may hold a part of the lock: its end releases that.
                    let mut with_it = ours.to_vec();
                    with_it.push(holder.connection_id);
                    with_it.push(scout.connection_id);
                    holder.close().await;
                    if began.elapsed() >= self.options.lock_wait {
                        let by = blocked::holder(scout, &with_it).await;
                        return Err(blocked::failure(&self.target.to_string(), lock.name, by.as_ref()));
                    }
                    // What queued behind our request goes on meanwhile.
                    sleep(ONE_WAIT.min(self.options.lock_wait.saturating_sub(began.elapsed())).max(PAUSE)).await;
                }
                Err(error) => return Err(error.about(lock.name)),
            }
        }
    }

    /// Opens snapshots while nothing keeps transactions out, until none came between them.
    async fn without_lock(
        &self,
        scout: &mut Connection,
        way: Method,
        mut snapshots: Vec<Connection>,
    ) -> Result<Tried, Error> {
        let tries = if way == Method::OneSnapshot { 1 } else { TRIES };
        for _ in 0..tries {
            let moment = self.world.clock.now();
            let before = position::now(scout, self.facts).await?;
            try_join_all(snapshots.iter_mut().map(begin)).await?;
            let position = match self.facts.mariadb {
                true => self.of_snapshots(scout, &mut snapshots).await?,
                false => {
                    sleep(SETTLES).await;
                    let after = position::now(scout, self.facts).await?;
                    known(before.clone()).filter(|_| before == after)
                }
            };
            if position.is_some() || way == Method::OneSnapshot {
                let mut taken = self.taken(way, snapshots.len());
                taken.not_consistent = self.current().map(|table| table.name.clone()).collect();
                taken.position = position;
                self.follow(scout, &mut taken, false).await?;
                return Ok(Tried::Held(Box::new(Held { snapshots, keeper: None, guard: None, taken, moment })));
            }
            for snapshot in &mut snapshots {
                snapshot.execute("ROLLBACK").await?;
            }
            sleep(SETTLES).await;
        }
        Ok(Tried::Refused(format!("transactions came between the snapshots {tries} times")))
    }

    /// MariaDB: where all of the snapshots are in the binary log, if that is one place.
    async fn of_snapshots(
        &self,
        scout: &mut Connection,
        snapshots: &mut [Connection],
    ) -> Result<Option<Position>, Error> {
        let mut places = Vec::with_capacity(snapshots.len());
        for snapshot in snapshots {
            places.push(position::of_snapshot(snapshot).await?);
        }
        let first = places.first().cloned().flatten();
        let Some(binlog) = first.filter(|first| places.iter().all(|place| place.as_ref() == Some(first))) else {
            return Ok(None);
        };
        let gtid = position::gtid_at(scout, &binlog).await?;
        Ok(Some(Position { binlog: Some(binlog), gtid }))
    }

    fn too_slow(&self, lock: &Lock) -> Error {
        Error::Blocked {
            object: self.target.to_string(),
            cause: format!(
                "the snapshots weren't open {} s after {} was taken; it was given back",
                HELD.as_secs(),
                lock.name
            ),
            next: "start again when the server has less to do, or with fewer --jobs".to_owned(),
        }
    }
}

/// A position that says something.
fn known(position: Position) -> Option<Position> {
    (position.binlog.is_some() || position.gtid.is_some()).then_some(position)
}

/// The statement that holds writers of tables out, if there are some. Pure.
fn read_locks<'a>(tables: impl Iterator<Item = &'a Table>) -> Option<String> {
    let locks: Vec<String> = tables.map(|table| format!("{} READ", table.sql())).collect();
    (!locks.is_empty()).then(|| format!("LOCK TABLES {}", locks.join(", ")))
}

async fn begin(connection: &mut Connection) -> Result<(), Error> {
    connection.execute(SNAPSHOT).await?;
    connection.execute(SAVEPOINT).await?;
    Ok(())
}

async fn run(connection: &mut Connection, statements: &[String]) -> Result<(), Error> {
    for sql in statements {
        connection.execute(sql).await?;
    }
    Ok(())
}

/// Sets how long a connection waits for locks, and when the server ends it if it is silent: whole seconds, at least one.
async fn wait_at_most(connection: &mut Connection, time: Duration, silent: Duration) -> Result<(), Error> {
    let (time, silent) = (time.as_secs().max(1), silent.as_secs().max(1));
    let sql = format!("SET SESSION lock_wait_timeout = {time}, SESSION wait_timeout = {silent}");
    connection.execute(&sql).await?;
    Ok(())
}

/// Keeps a session that is only there for its lock from being silent. Returns when the session has ended.
pub(crate) async fn stay(session: &mut Connection) {
    while session.execute("DO 0").await.is_ok() {
        sleep(SIGN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::TableName;

    #[test]
    fn tables_are_locked_by_quoted_names() {
        let table =
            |name: &str| Table { name: TableName { database: "a`b".into(), name: name.into() }, ..Table::default() };
        let sql = read_locks([table("x"), table("y z")].iter());
        assert_eq!(sql.as_deref(), Some("LOCK TABLES `a``b`.`x` READ, `a``b`.`y z` READ"));
        assert_eq!(read_locks([].iter()), None);
    }
}
