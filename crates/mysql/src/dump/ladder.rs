//! By which way do several snapshots show one state? Pure: facts of the server and of our rights become the ways that may work, the
//! best first.

use crate::catalog::facts::Facts;
use crate::catalog::grants::Rights;
use crate::detail::Method;

/// What our account may do on this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Powers {
    /// MariaDB with BACKUP STAGE.
    pub(crate) stages: bool,
    /// RELOAD, or MySQL's FLUSH_TABLES: the global read lock.
    pub(crate) flush: bool,
    /// MySQL 8.0 with BACKUP_ADMIN: LOCK INSTANCE FOR BACKUP, which holds up changes of definitions alone.
    pub(crate) instance: bool,
    /// LOCK TABLES on every database that is read.
    pub(crate) lock_tables: bool,
    /// Whether a position tells that nothing was committed: MariaDB with a binary log, MySQL with GTIDs or with a log that we may
    /// look at.
    pub(crate) position: bool,
}

impl Powers {
    /// What an account may do with these databases.
    pub(crate) fn of(facts: &Facts, rights: &Rights, databases: &[String]) -> Self {
        let reload = rights.everywhere("RELOAD");
        let sees_log = rights.everywhere(facts.status_privilege()) || rights.everywhere("SUPER");
        Self {
            stages: facts.has_stages() && reload,
            flush: reload || (!facts.mariadb && rights.everywhere("FLUSH_TABLES")),
            instance: facts.locks_instance() && rights.everywhere("BACKUP_ADMIN"),
            lock_tables: databases.iter().all(|database| rights.in_database("LOCK TABLES", database)),
            position: facts.binlog && (facts.mariadb || facts.gtid || sees_log),
        }
    }
}

/// The ways that may work, the best first. The last one always works.
pub(crate) fn ways(powers: Powers) -> Vec<Method> {
    let all = [
        (powers.stages, Method::BackupStage),
        (powers.flush, Method::GlobalLock),
        (powers.lock_tables, Method::TableLocks),
        (powers.position, Method::SamePosition),
        (true, Method::OneSnapshot),
    ];
    all.into_iter().filter(|(may, _)| *may).map(|(_, way)| way).collect()
}

/// What a set says of a way that isn't the best one of its server. `notes` of the ways that were refused come before.
pub(crate) fn note(way: Method, stages: bool) -> Option<&'static str> {
    match way {
        Method::BackupStage => None,
        Method::GlobalLock if !stages => None,
        Method::GlobalLock => Some("the global read lock was taken in place of BACKUP STAGE"),
        Method::TableLocks => {
            Some("without RELOAD: all tables were locked for reading while the snapshots were opened")
        }
        Method::SamePosition => {
            Some("without RELOAD and LOCK TABLES: the snapshots were opened until no transaction came between them")
        }
        Method::OneSnapshot => Some(
            "without RELOAD and LOCK TABLES, and without a position that stood still: one connection read everything",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::ServerFacts;
    use Method::{BackupStage, GlobalLock, OneSnapshot, SamePosition, TableLocks};

    #[test]
    fn the_ladder_of_each_server_and_level_of_rights() {
        let facts = |mariadb, version, binlog, gtid| Facts {
            server: ServerFacts { version, ..ServerFacts::default() },
            mariadb,
            binlog,
            gtid,
            ..Facts::default()
        };
        let maria = facts(true, 101_106, true, false);
        let old_maria = facts(true, 100_348, true, false);
        let silent_maria = facts(true, 110_402, false, false);
        let mysql = facts(false, 80_036, true, true);
        let old_mysql = facts(false, 50_744, true, false);
        let all = "GRANT ALL PRIVILEGES ON *.* TO `u`@`%`";
        for (server, grants, expected, instance) in [
            (&maria, &[all][..], &[BackupStage, GlobalLock, TableLocks, SamePosition, OneSnapshot][..], false),
            (&old_maria, &[all], &[GlobalLock, TableLocks, SamePosition, OneSnapshot], false),
            (&mysql, &[all], &[GlobalLock, TableLocks, SamePosition, OneSnapshot], true),
            (
                &maria,
                &["GRANT SELECT, RELOAD ON *.* TO `u`@`%`"],
                &[BackupStage, GlobalLock, SamePosition, OneSnapshot],
                false,
            ),
            (&mysql, &["GRANT FLUSH_TABLES ON *.* TO `u`@`%`"], &[GlobalLock, SamePosition, OneSnapshot], false),
            (&mysql, &["GRANT BACKUP_ADMIN ON *.* TO `u`@`%`"], &[SamePosition, OneSnapshot], true),
            (&maria, &["GRANT LOCK TABLES ON `a`.* TO `u`@`%`"], &[SamePosition, OneSnapshot], false),
            (
                &maria,
                &["GRANT LOCK TABLES ON `a`.* TO `u`@`%`", "GRANT LOCK TABLES ON `b`.* TO `u`@`%`"],
                &[TableLocks, SamePosition, OneSnapshot],
                false,
            ),
            (&silent_maria, &["GRANT SELECT ON *.* TO `u`@`%`"], &[OneSnapshot], false),
            (&old_mysql, &["GRANT SELECT ON *.* TO `u`@`%`"], &[OneSnapshot], false),
            (&old_mysql, &["GRANT REPLICATION CLIENT ON *.* TO `u`@`%`"], &[SamePosition, OneSnapshot], false),
        ] {
            let powers = Powers::of(server, &Rights::of(grants.iter().copied()), &["a".into(), "b".into()]);
            assert_eq!((ways(powers), powers.instance), (expected.to_vec(), instance), "{grants:?}");
        }
    }

    #[test]
    fn what_isnt_the_best_way_is_noted() {
        assert!(note(BackupStage, true).is_none() && note(GlobalLock, false).is_none());
        for (way, stages) in [(GlobalLock, true), (TableLocks, true), (SamePosition, false), (OneSnapshot, false)] {
            assert!(note(way, stages).is_some());
        }
    }
}
