//! Faults that users of Litestream and dbbackup met, and the tests that show that Seawall doesn't have them.
//!
//! The sources are Litestream's tracker (`#n`), its tests, and trials of v0.5.18. Each line is a scenario with its
//! tests; they are in this crate, in `crates/*/tests` and beside the code. This test checks that every one of them
//! exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Scenarios by their subject, each with tests.
const SCENARIOS: &[(&str, &[&str])] = &[
    // What we found in v0.5.18.
    (
        "local state is lost while it runs, and TXIDs begin anew below the replica's",
        &["the_state_directory_deleted_while_running", "the_machine_may_lose_the_state_folder"],
    ),
    ("local state of either program is gone", &["litestreams_local_state_may_be_gone_and_so_may_ours"]),
    ("the newest object says nothing of the WAL, as after the VFS", &["a_newest_capture_that_says_nothing_of_the_wal"]),
    ("a WAL that is shorter than what was captured", &["a_wal_that_was_cut_behind_the_captured_place"]),
    (
        "the same page at the same place in another WAL",
        &["does_the_wal_go_on", "skipping_the_checksum_chain_is_caught"],
    ),
    (
        "a level is made across a gap",
        &[
            "what_a_merge_must_not_cross",
            "a_gap_before_a_merged_object_is_told",
            "validation_notices_what_is_missing_from_the_vault",
        ],
    ),
    ("a database is let go after its file was deleted", &["databases_come_go_and_get_other_names"]),
    (
        "the file is replaced while it is open (#1209)",
        &["a_database_that_is_replaced_goes_on_with_a_new_base", "a_replaced_database_goes_on_with_a_base"],
    ),
    ("a page that decompresses to another length", &["every_crafted_defect_is_refused_and_every_oddity_accepted"]),
    (
        "a complete copy holds a page that is newer than it is (#1164)",
        &["the_application_acts_at_every_step", "a_large_base_and_a_large_transaction_are_streamed"],
    ),
    (
        "a registered database gets no defaults and is forgotten",
        &[
            "a_registered_database_gets_the_defaults",
            "a_registered_database_survives_a_restart",
            "what_was_registered_under_litestreams_name_survives_a_restart",
        ],
    ),
    // WAL and checkpoints.
    (
        "the WAL is checkpointed or cut while nobody looks (#752, #753)",
        &["in_turns_with_commits_while_neither_runs", "a_wal_restarted_behind_our_back_is_a_hole"],
    ),
    ("the WAL is written over to the same size (#1037, #1083)", &["trusting_size_and_mtime_is_caught"]),
    (
        "what stands behind the captured end is read with it (#997, #1490)",
        &["frames_that_were_never_published", "does_the_wal_go_on", "the_application_acts_at_every_step"],
    ),
    (
        "databases with the same file name share their metrics",
        &["databases_with_one_file_name_have_lines_of_their_own"],
    ),
    (
        "an idle database feeds on itself (#896, #994)",
        &["nothing_new_makes_no_object", "a_running_protection_merges_and_then_rests"],
    ),
    ("the position is the WAL's header (#900)", &["does_the_wal_go_on", "a_generation_that_ended_without_a_successor"]),
    ("the application checkpoints with RESTART and TRUNCATE", &["the_applications_checkpoints_lose_nothing"]),
    ("a reader that never ends (#724, #1332)", &["a_reader_that_never_ends_holds_up_nobody_else"]),
    (
        "each checkpoint makes a complete copy, and the disk fills (#927)",
        &["a_reader_that_never_ends_holds_up_nobody_else"],
    ),
    (
        "a commit slips in between the last capture and the checkpoint (#1220, #1281, #1292, #1309, #1337, #1419)",
        &["forgetting_the_barrier_is_caught", "the_application_acts_at_every_step"],
    ),
    ("SQLite's own restart of a WAL (#1432, #1436)", &["the_sqlite_that_is_built_in_restarts_a_wal_safely"]),
    ("writers wait for the checkpoint's disk", &["writers_do_not_wait_for_a_disk_that_stands_still"]),
    (
        "a first copy under load (#1164)",
        &["a_large_base_and_a_large_transaction_are_streamed", "at_every_call_of_a_first_base"],
    ),
    ("the WAL is rewound by a power cut", &["seeds_that_are_new", "does_the_wal_go_on"]),
    (
        "the shared memory as a hint (#1087, #1185)",
        &["frames_that_were_never_published", "side_files_removed_while_running"],
    ),
    ("the WAL grows without bound (#1536)", &["the_wal_stays_bounded_and_the_database_gets_nothing_of_ours"]),
    // Pages and shapes.
    ("VACUUM shrinks the database (#881)", &["after_thousands_of_commits_a_vacuum_and_a_shrink"]),
    ("it grows by pages that were never in the WAL (#1165, #1198, #1199, #1323)", &["page_sizes_and_shapes"]),
    (
        "more than 1 GiB, at every page size",
        &[
            "we_replicate_past_the_lock_page_with_large_pages_and_litestream_restores",
            "we_replicate_past_the_lock_page_with_pages_of_4096_and_litestream_restores",
            "litestream_replicates_past_the_lock_page_and_we_restore",
            "the_lock_page_is_left_out",
            "every_page_size_and_litestream_agrees",
        ],
    ),
    ("the page size changes", &["a_page_size_that_changes", "another_page_size_begins_with_a_base"]),
    ("the journal mode is another one for a while", &["a_journal_mode_of_its_own_for_a_while"]),
    ("the database doesn't exist yet", &["a_database_that_does_not_exist_yet_is_protected_once_it_does"]),
    ("files that may not be read", &["a_database_that_may_not_be_read_is_named_and_nothing_is_written"]),
    // Replicas and stores.
    (
        "an upload fails and leaves a gap (#1151, #1155)",
        &["at_every_call_of_a_small_capture", "at_every_call_that_fails"],
    ),
    ("level 0 is never deleted (#771, #784, #976, #980, #1104)", &["a_vault_comes_to_rest_and_stays_small"]),
    ("objects that overlap (#847, #857)", &["overlaps_are_taken_as_they_are", "stretches_and_plans_agree"]),
    (
        "two instances on one replica (#422)",
        &[
            "two_hosts_with_one_bucket_on_s3",
            "two_hosts_that_write_to_one_prefix",
            "the_loser_of_a_race_stops",
            "a_rolling_deployment_hands_over_without_losing_a_commit_on_s3",
            "one_that_is_gone_is_followed_when_its_lease_has_run_out",
        ],
    ),
    (
        "an older database is restored and then replicated (#781, #783)",
        &["where_the_history_ends", "a_vault_that_lost_objects_never_sees_a_txid_twice"],
    ),
    (
        "servers with ways of their own (#894, #912, #918, #940, #941, #943, #947, #948, #1059, #1424)",
        &["hosts", "quirks"],
    ),
    (
        "certificates that only AWS_CA_BUNDLE vouches for",
        &["a_bundle_of_certificates_is_trusted_from_the_first_capture_to_the_restore_on_s3"],
    ),
    ("a connection breaks in the middle of a restore (#1077)", &["reads_go_on_where_a_connection_broke"]),
    ("one request for each file to find a moment (#930)", &["a_moment_is_found_by_a_few_requests_of_many"]),
    ("an upload in parts breaks anywhere", &["an_upload_in_parts_is_whole_whichever_requests_broke"]),
    ("storms of 408, 429 and 503", &["which_errors_are_worth_another_attempt", "the_sum_of_all_attempts_is_bounded"]),
    ("a moment behind what level 0 keeps (#1038, #1056, #1084)", &["of_every_policy_are_kept"]),
    (
        "retention takes what a restore is reading (#1270, #1307, #1325, #1450)",
        &["what_was_planned_with_is_merged_and_deleted_meanwhile", "any_object_may_vanish_once"],
    ),
    (
        "credentials that may not delete (#604, #891)",
        &["credentials_that_may_not_delete", "credentials_that_may_not_delete_on_s3"],
    ),
    (
        "objects that are cut or flipped (#1431)",
        &["a_file_cut_anywhere_is_refused", "a_file_with_any_bit_flipped_is_refused"],
    ),
    ("the newest object was cut by the store", &["the_newest_object_was_cut_by_the_store"]),
    (
        "a follower stalls, or resumes (#1385, #1515)",
        &[
            "compacted_captures_are_bridged",
            "a_base_is_bridged_where_nothing_else_is_left",
            "a_standby_is_killed_again_and_again_while_it_is_read",
        ],
    ),
    // Resources.
    (
        "the disk is full (#1310)",
        &[
            "a_full_disk_at_every_write",
            "a_full_disk_under_the_state_record_holds_nothing_up_and_the_status_stays_true",
        ],
    ),
    (
        "no descriptor is left, or the disk doesn't answer: EMFILE, EIO, EACCES pass",
        &[
            "a_shortage_that_passes_costs_no_base",
            "a_process_without_descriptors_holds_the_wal_and_goes_on_when_it_has_some",
            "at_every_call_that_fails",
        ],
    ),
    (
        "the WAL is damaged under a silent database",
        &[
            "a_page_that_was_overwritten_in_the_wal_is_told_and_protection_goes_on",
            "a_frame_that_was_overwritten_in_the_wal_is_told",
            "a_wal_that_was_cut_under_its_users_is_told",
        ],
    ),
    (
        "large databases take the memory (#1477, #1479, #1483, #1486, #1497)",
        &["what_grows_with_the_database_is_16_bytes_a_page"],
    ),
    (
        "hundreds of databases start at once (#1051)",
        &[
            "a_start_never_waits_for_copies",
            "a_storm_of_a_thousand_new_databases_is_protected",
            "there_is_room_for_a_few_and_not_for_everything",
        ],
    ),
    // From start to end.
    (
        "a stop hangs (#399, #592, #934)",
        &[
            "a_graceful_stop_is_bounded",
            "a_second_signal_ends_at_once",
            "with_the_store_away_the_second_signal_ends_at_once_on_s3",
        ],
    ),
    (
        "the last commit of a program that ends at once (#436)",
        &["the_childs_last_commit_is_shipped_and_its_code_is_ours"],
    ),
    (
        "keys that nobody knows (#1403)",
        &["an_unknown_key_is_told_with_the_nearest_known_one", "unknown_keys_are_warnings_with_line_and_nearest_key"],
    ),
    ("the configuration's variable (#1404)", &["which_file_and_which_path"]),
    ("encryption that is asked for and not done (#790)", &["what_litestream_knows_and_we_do_not_is_said"]),
    ("the clock steps back", &["a_clock_set_back_keeps_moments_in_order"]),
    (
        "what 0.3 left (#1442)",
        &[
            "every_state_that_it_restores_we_restore",
            "going_over_from_it_begins_anew_in_the_same_place",
            "what_0_3_left_of_more_than_4_gib",
            "offsets_go_beyond_4_gib",
        ],
    ),
    // Of its long tests.
    ("kill -9 at random under load", &["kill_9_with_the_vault_on_s3", "the_writer_is_killed_too"]),
    ("everything at once, for a while", &["several_databases_in_a_folder", "several_databases_on_s3"]),
    (
        "either program restores what the other wrote",
        &["every_single_transaction", "from_every_level_on_s3", "in_turns_on_s3"],
    ),
];

/// The same for servers: faults of dbbackup with PostgreSQL, found in trials or in its change log, and situations that
/// an operator must survive.
const SERVERS: &[(&str, &[&str])] = &[
    (
        "types, keys, indexes, owners and grants that a dump leaves out, and says nothing",
        &["everything_comes_back_in_version_15", "everything_comes_back_in_version_18"],
    ),
    ("tables of several moments in one dump", &["sums_agree_when_a_backup_is_taken_under_load"]),
    (
        "a restore of nothing that is called a success",
        &["what_differs_is_named", "postgres_whatever_is_wrong_has_its_exit_code_and_names_the_next_step"],
    ),
    (
        "a fresh backup that doesn't verify, and digests that aren't the file's",
        &["postgres_there_and_back_by_the_command_line", "everything_of_version_15_comes_back_in_18"],
    ),
    ("partitioned tables, generated columns", &["everything_comes_back_in_version_15"]),
    ("a schema with a blank in its name", &["a_dropped_table_comes_back_beside_the_others"]),
    ("`\\restrict` sent to the server", &["words_for_psql_go_and_what_looks_like_them_stays"]),
    (
        "a table that is left out because an estimate says that it is empty",
        &["every_place_is_in_one_piece_and_the_last_is_open", "what_is_small_or_no_heap_is_read_whole"],
    ),
    ("a socket's folder as host", &["urls_and_how_they_are_shown"]),
    ("an upload that failed, and exit code 0", &["a_full_store_at_any_call_fails_and_nothing_counts"]),
    ("memory that grows with tables and rows", &["rows_that_no_buffer_holds_come_back", "buffers_fit_the_limit"]),
    ("passwords in arguments and messages", &["postgres_whatever_is_wrong_has_its_exit_code_and_names_the_next_step"]),
    ("values that are read in another way", &["settings_of_the_role_change_no_value"]),
    ("killed while backing up", &["postgres_backups_that_were_killed_leave_nothing_that_counts"]),
    (
        "killed, or cut off, while restoring",
        &[
            "postgres_restores_that_were_killed_go_on",
            "a_restore_that_was_interrupted_anywhere_goes_on_and_does_each_step_once",
        ],
    ),
    ("a server that dies", &["a_server_that_dies_while_it_is_read_leaves_nothing_that_counts"]),
    ("a full disk under the target", &["a_full_disk_under_the_target_is_told_and_the_restore_goes_on_behind_it"]),
    (
        "tables that are dropped, altered or truncated meanwhile, and an ALTER that waits",
        &[
            "a_table_that_is_truncated_and_filled_never_reads_as_empty",
            "a_table_that_is_altered_has_rows_that_fit",
            "tables_that_come_and_go_are_whole_or_not_there",
        ],
    ),
    (
        "chunks that are flipped, cut, missing or exchanged, and bombs",
        &[
            "postgres_what_a_store_has_lost_or_changed_is_found_and_refused",
            "exchanged_chunks_are_found",
            "a_frame_makes_no_more_than_it_may",
        ],
    ),
    ("a target of an older version", &["an_older_server_is_refused_before_anything_is_done"]),
    ("roles that the target lacks", &["what_the_target_lacks_is_named_with_the_command_that_mends_it"]),
    ("a role with too few rights", &["the_least_privileged_role_is_enough_and_less_is_refused_with_the_grant"]),
    ("an empty database", &["an_empty_database_comes_back_empty"]),
];

/// The names of all test functions below a folder.
fn tests_below(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            tests_below(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let mut after_attribute = false;
            for line in fs::read_to_string(&path).unwrap().lines().map(str::trim) {
                let line = line.strip_prefix("async ").unwrap_or(line);
                match line.strip_prefix("fn ").and_then(|rest| rest.split('(').next()) {
                    Some(name) if after_attribute => drop(found.insert(name.to_owned())),
                    _ => {}
                }
                let attribute = line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                after_attribute = attribute || after_attribute && line.starts_with("#[");
            }
        }
    }
}

#[test]
fn every_scenario_has_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeSet::new();
    for folder in ["tests/it", "crates"] {
        tests_below(&root.join(folder), &mut found);
    }
    let all = || SCENARIOS.iter().chain(SERVERS);
    let missing: Vec<_> = all().flat_map(|(_, tests)| tests.iter()).filter(|test| !found.contains(**test)).collect();
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
    assert!(all().all(|(_, tests)| !tests.is_empty()));
}
