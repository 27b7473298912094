//! What a server is told that recovers: lines of `postgresql.auto.conf`, and the command that fetches its log. Pure.

use seawall_core::Moment;

use super::super::base::{BaseManifest, NEEDED};
use super::choose::{Choice, Target};

/// Settings of the source that a server which recovers must not have. A standby's settings make no standby of it, don't delay it,
/// and don't delete files of the source's archive. Nothing confirms its commits as the source's standbys do.
/// Its subscriptions would confirm at the publisher what only the copy got.
const OTHERS: [&str; 7] = [
    "primary_conninfo = ''",
    "primary_slot_name = ''",
    "recovery_end_command = ''",
    "archive_cleanup_command = ''",
    "recovery_min_apply_delay = 0",
    "synchronous_standby_names = ''",
    "max_logical_replication_workers = 0",
];

/// Around the lines that only the recovery needs. A standby that is made of the server later would take them for its own.
const BEGIN: &str = "# BEGIN of what seawall restore wrote for the recovery";
const END: &str = "# END of what seawall restore wrote for the recovery";

/// The settings between these, and their values without them: none of the source's comes to life when they go.
const OF_RECOVERY: [(&str, &str); 10] = [
    ("restore_command", ""),
    ("recovery_target_timeline", "latest"),
    ("recovery_target_action", "pause"),
    ("recovery_target_inclusive", "on"),
    ("recovery_prefetch", "try"),
    ("recovery_target", ""),
    ("recovery_target_time", ""),
    ("recovery_target_lsn", ""),
    ("recovery_target_xid", ""),
    ("recovery_target_name", ""),
];

/// The statements that end what a restore set for the recovery alone.
pub fn resets() -> String {
    OF_RECOVERY.map(|(name, _)| format!("ALTER SYSTEM RESET {name};")).join(" ")
}

/// A `postgresql.auto.conf` without what restores wrote for their recoveries alone.
pub(super) fn without_recovery(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, block)) = rest.split_once(BEGIN) {
        // A block without an end isn't ours any more.
        let Some((_, behind)) = block.split_once(END) else { break };
        kept.push_str(before);
        rest = behind.strip_prefix('\n').unwrap_or(behind);
    }
    kept + rest
}

/// How a value stands in a configuration file.
fn value(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// A word of a command of the shell.
pub(crate) fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A moment as the setting takes it: PostgreSQL reads it before it knows names of time zones.
fn time(moment: Moment) -> String {
    let text = moment.to_string();
    format!("{}+00", text.trim_end_matches('Z').replace('T', " "))
}

/// The lines that are appended. `command` is the whole `restore_command`.
pub(crate) fn lines(target: &Target, choice: &Choice, command: &str) -> String {
    let mut lines = vec![
        "# Written by seawall restore. Of a name that is here twice, the last value counts.".to_owned(),
        // Its log would come into the archive of the server that it is a copy of.
        "archive_mode = 'off'".to_owned(),
    ];
    lines.extend(OTHERS.map(str::to_owned));
    lines.extend(OF_RECOVERY.iter().map(|(name, without)| format!("{name} = {}", value(without))));
    lines.extend([
        BEGIN.to_owned(),
        format!("restore_command = {}", value(command)),
        format!("recovery_target_timeline = '{}'", choice.reach.timeline),
        "recovery_target_action = 'promote'".to_owned(),
        "recovery_target_inclusive = 'on'".to_owned(),
        // The server would ask for a segment that lies behind the target, and end where a hole begins.
        "recovery_prefetch = 'off'".to_owned(),
    ]);
    let (name, reached) = match target {
        Target::Latest => ("", String::new()),
        Target::Moment(moment) => ("recovery_target_time", time(*moment)),
        // No record begins there: the server gets no more, and ends there by itself.
        Target::Lsn(lsn) if *lsn >= choice.reach.lsn => ("", String::new()),
        Target::Lsn(lsn) => ("recovery_target_lsn", lsn.to_string()),
        Target::Xid(xid) => ("recovery_target_xid", xid.to_string()),
        Target::Name(name) => ("recovery_target_name", name.clone()),
        Target::Base(_) => ("recovery_target", "immediate".to_owned()),
    };
    // Those of the source, if it was recovered itself, would be a second target.
    let all = [
        "recovery_target",
        "recovery_target_time",
        "recovery_target_lsn",
        "recovery_target_xid",
        "recovery_target_name",
    ];
    lines.extend(all.iter().filter(|one| **one != name).map(|one| format!("{one} = ''")));
    if !name.is_empty() {
        lines.push(format!("{name} = {}", value(&reached)));
    }
    lines.push(END.to_owned());
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Settings with which a server can replay the log, where its own configuration isn't in the base.
pub(super) fn replayable(manifest: &BaseManifest) -> impl Iterator<Item = String> {
    let needed = manifest.settings.iter().filter(|(name, value)| is_setting(name, value));
    needed.map(|(name, value)| format!("{name}={value}")).chain(sizes(manifest))
}

/// How much log a server keeps, which its segments bound from below (`src/backend/access/transam/xlog.c`).
pub(in super::super) fn sizes(manifest: &BaseManifest) -> [String; 2] {
    const LEAST: u64 = 1 << 10;
    let segment = manifest.segment.div_ceil(1 << 20).max(1);
    [
        format!("min_wal_size={}MB", segment.saturating_mul(2).max(80)),
        format!("max_wal_size={}MB", segment.saturating_mul(4).max(LEAST)),
    ]
}

/// Whether these may be given to a program: they come from a vault.
fn is_setting(name: &str, value: &str) -> bool {
    NEEDED.contains(&name) && !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use seawall_archive::SetId;

    use super::super::choose::Reach;
    use super::*;
    use seawall_archive::log::Lsn;

    #[test]
    fn every_target_is_the_only_one() {
        let moment = Moment::from_millis(1_700_000_000_123);
        let id = SetId::new(moment, 1);
        let choice =
            Choice { id, reach: Reach { timeline: 3, lsn: Lsn::new(0x300_0000), until: moment, is_end: true } };
        for (target, line) in [
            (Target::Moment(moment), "recovery_target_time = '2023-11-14 22:13:20.123+00'\n"),
            (Target::Lsn(Lsn::new(0x200_0028)), "recovery_target_lsn = '0/2000028'\n"),
            (Target::Xid(745), "recovery_target_xid = '745'\n"),
            (Target::Name("it's \\ it".into()), "recovery_target_name = 'it''s \\\\ it'\n"),
            (Target::Base(id), "recovery_target = 'immediate'\n"),
        ] {
            let lines = lines(&target, &choice, "x '%f'");
            assert!(lines.contains(line) && lines.contains("restore_command = 'x ''%f'''\n"), "{lines}");
            let (_, block) = lines.split_once(BEGIN).expect("a block");
            let set = block.lines().filter(|line| line.starts_with("recovery_target") && !line.ends_with("''"));
            assert_eq!(set.count(), 4, "{lines}");
            assert!(lines.contains("recovery_target_timeline = '3'\n") && lines.contains("archive_mode = 'off'\n"));
            assert!(lines.contains("recovery_prefetch = 'off'\n"), "{lines}");
            assert!(lines.contains("\nmax_logical_replication_workers = 0\n"), "{lines}");
        }
    }

    #[test]
    fn behind_the_recovery_nothing_of_it_is_left_and_nothing_of_the_source_comes_back() {
        let (until, lsn) = (Moment::from_millis(1_700_000_000_123), Lsn::new(0x300_0000));
        let choice = Choice { id: SetId::new(until, 1), reach: Reach { timeline: 1, lsn, until, is_end: true } };
        let first = lines(&Target::Xid(745), &choice, "x");
        let second = lines(&Target::Moment(until), &choice, "y");
        let source = "restore_command = 'cp'\nwork_mem = '5MB'\n";
        let left = without_recovery(&format!("{source}{first}{second}unix_socket_directories = '/x'\n"));
        let last = |name: &str| {
            let mut of_name = left.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
            of_name.next_back().map(str::to_owned)
        };
        for (name, without) in OF_RECOVERY {
            assert_eq!(last(name), Some(value(without)), "{name}");
            assert!(resets().contains(&format!("ALTER SYSTEM RESET {name};")), "{name}");
        }
        let others = [("archive_mode", "'off'"), ("work_mem", "'5MB'"), ("unix_socket_directories", "'/x'")];
        for (name, expected) in others {
            assert_eq!(last(name).as_deref(), Some(expected), "{name}");
        }
        assert!(!left.contains(BEGIN) && !left.contains(END), "{left}");
        // What is changed by hand stays.
        for text in ["a = 1\n", &format!("a = 1\n{BEGIN}\nb = 2\n"), END, ""] {
            assert_eq!(without_recovery(text), text);
        }
    }

    #[test]
    fn the_end_of_the_log_is_no_target() {
        let (until, lsn) = (Moment::from_millis(1_700_000_000_123), Lsn::new(0x300_0000));
        let choice = Choice { id: SetId::new(until, 1), reach: Reach { timeline: 1, lsn, until, is_end: true } };
        for (target, expected) in [(0x2ff_ffff, "'0/2FFFFFF'\n"), (0x300_0000, "''\n")] {
            let lines = lines(&Target::Lsn(Lsn::new(target)), &choice, "x");
            assert!(lines.contains(&format!("recovery_target_lsn = {expected}")), "{lines}");
        }
    }

    #[test]
    fn only_known_settings_come_out_of_a_vault() {
        let mut manifest = crate::physical::base::manifest::tests::sample(100, 1000, 2000);
        manifest.segment = 64 << 20;
        for (name, value) in [("max_logical_replication_workers", "4"), ("max_worker_processes", "8 -c x=y")] {
            manifest.settings.insert(name.to_owned(), value.to_owned());
        }
        let all: Vec<String> = replayable(&manifest).collect();
        assert_eq!(all, ["max_connections=100", "min_wal_size=128MB", "max_wal_size=1024MB"]);
    }

    #[test]
    fn words_of_the_shell() {
        for (text, expected) in [("a b", "'a b'"), ("it's", "'it'\\''s'"), ("$(x)", "'$(x)'")] {
            assert_eq!(word(text), expected);
        }
    }
}
