//! Codes that are raised, but not here.

use std::path::Path;

/// Raised through the program by another test of this crate: its file and name.
const BY_OTHERS: &[(&str, &str)] = &[
    ("usage.secret", "init.rs::nothing_is_written_unasked_or_over_a_file"),
    ("copy.ahead", "cli_copy.rs::places_that_are_refused"),
    ("copy.differs", "cli_copy.rs::places_that_are_refused"),
    ("copy.in-use", "cli_copy.rs::places_that_are_refused"),
    ("proof.beyond", "truth/records.rs::a_proof_whose_objects_are_gone_is_no_proof_of_what_is_left"),
    ("proof.too-long", "proofs.rs::a_proof_of_sqlite_is_recorded_in_the_vault"),
    ("command.manual", "supervised.rs::every_command_is_in_the_completions_and_the_manual"),
    ("command.no-answer", "init.rs::nothing_is_written_unasked_or_over_a_file"),
    ("command.not-written", "init.rs::nothing_is_written_unasked_or_over_a_file"),
    ("command.nothing-found", "init.rs::nothing_is_written_unasked_or_over_a_file"),
    ("command.output", "cli_errors.rs::an_output_that_cannot_be_written_is_told"),
    ("command.timeout", "lmdb.rs::a_process_with_a_time_and_a_number"),
    ("config.encryption", "encryption_servers.rs::an_lmdb_environment_that_only_sends_needs_no_key_of_the_owner"),
    ("config.unsupported", "litestream_yml_is_used_as_it_is.rs::what_litestream_knows_and_we_do_not_is_said"),
    ("agent.listen", "web_prefix.rs::a_page_that_cannot_begin_says_why"),
    ("agent.lease-held", "lease.rs::a_killed_holder_is_followed_after_its_lease"),
    ("agent.no-leases", "vault_probe.rs::a_webdav_server_for_a_single_writer_says_so_in_status_and_refuses_leases"),
    ("agent.unprotected", "agent_folders.rs::what_cannot_be_protected_of_a_folder_is_told"),
    ("agent.unread", "agent_folders.rs::what_cannot_be_protected_of_a_folder_is_told"),
    ("agent.nothing-found", "truth/sources.rs::nothing_is_claimed_where_nothing_is_protected"),
    ("agent.not-confirmed", "web_actions.rs::nothing_is_done_for_anyone_else"),
    ("agent.page-form", "web_actions.rs::nothing_is_done_for_anyone_else"),
    ("agent.request", "agent_socket.rs::litestreams_requests_get_litestreams_answers"),
    ("hook.refused", "cli_restore.rs::hooks_run_around_a_restore_and_can_refuse_it"),
    ("alarm.clock", "truth/clocks.rs::a_clock_that_jumped_ahead_is_told_and_gives_no_moments"),
    (
        "alarm.commits-wait",
        "continuous.rs::commits_that_wait_too_long_are_told_and_go_on_by_the_statement_that_is_told",
    ),
    ("alarm.backup-overdue", "alarms_raised.rs::mysql_a_backup_that_hangs_and_is_late"),
    ("alarm.chain", "alarms_raised.rs::mysql_a_chain_that_lacks_a_link_and_retention_that_fails"),
    ("alarm.error", "alarms_raised.rs::an_error_with_which_protection_goes_on"),
    ("alarm.halted", "alarms_raised.rs::protection_that_stopped_because_another_process_protects"),
    ("alarm.lag", "alarms_raised.rs::changes_that_wait_for_a_vault_that_is_away"),
    ("alarm.retention", "alarms_raised.rs::mysql_a_chain_that_lacks_a_link_and_retention_that_fails"),
    ("alarm.vault-behind", "alarms_raised.rs::one_of_two_vaults_that_is_away"),
    ("alarm.vault-weak", "alarms_raised.rs::a_store_without_conditional_writes"),
    ("alarm.credentials", "alarms.rs::credentials_that_end_soon_are_told_on_s3"),
    (
        "alarm.failing",
        "truth/withdrawn.rs::credentials_that_are_withdrawn_under_a_process_are_told_and_work_again_on_s3",
    ),
    (
        "sqlite.no-room",
        "truth/sources.rs::databases_beyond_the_limit_of_open_files_are_told_and_leave_the_others_alone",
    ),
    ("vault.unsure", "several_histories.rs::a_foreign_vault_with_a_newer_time_is_never_taken_for_the_database"),
    ("alarm.vault-set-back", "several_running.rs::a_vault_that_is_set_back_while_seawall_runs_gets_what_it_lost"),
    ("alarm.hole", "alarms.rs::a_hole_is_told_also_after_a_restart_and_credentials_before_they_end"),
    ("alarm.proof-age", "proofs.rs::a_database_is_proved_by_itself_and_a_proof_that_fails_is_an_alarm"),
    ("alarm.proof-failed", "fleet.rs::a_folder_of_many_vaults"),
    ("alarm.proof-unknown", "proofs.rs::a_database_is_proved_by_itself_and_a_proof_that_fails_is_an_alarm"),
    ("alarm.slot-unbounded", "continuous.rs::a_cluster_of_a_configuration_is_protected_to_the_last_commit"),
    ("alarm.stopped", "alarms.rs::an_alarm_fails_a_check_until_it_is_silenced_or_over"),
    ("alarm.unsafe", "truth/records.rs::a_record_of_another_databases_proof_is_told_where_it_reaches_further"),
    ("alarm.locks-not-renewed", "renewed_locks.rs::a_process_whose_locks_are_not_renewed_says_so_on_s3"),
    ("alarm.vault-differs", "several_vaults.rs::objects_of_another_database_in_one_vault_never_get_into_the_others"),
    ("sqlite.clock", "truth/clocks.rs::a_clock_that_jumped_ahead_is_told_and_gives_no_moments"),
    ("sqlite.digest", "corruption.rs::a_sound_object_that_is_not_what_was_written"),
    ("sqlite.lost", "truth/overwritten.rs::a_vault_that_was_emptied_between_two_runs_is_told_and_begun_anew"),
    ("sqlite.may-not-delete", "cli_maintain.rs::credentials_that_may_not_delete_on_s3"),
    ("sqlite.may-not-list", "limited.rs::sqlite_goes_on_without_the_rights_to_list_and_to_delete_on_s3"),
    ("sqlite.mixed", "truth/mixed.rs::a_standby_never_becomes_a_mixture"),
    ("sqlite.not-running", "agent_services.rs::an_assistant_needs_the_token"),
    (
        "sqlite.deleted-wal",
        "truth/overwritten.rs::a_wal_that_was_deleted_while_it_was_used_is_told_until_the_application_is_restarted",
    ),
    ("sqlite.several-names", "truth/sources.rs::a_file_with_a_second_name_is_told_and_nothing_is_claimed_of_it"),
    ("sqlite.too-many-files", "shortage.rs::a_process_without_descriptors_holds_the_wal_and_goes_on_when_it_has_some"),
    ("sqlite.two-writers", "truth/rolled_back.rs::a_second_host_with_a_copy_of_the_state_is_caught_on_s3"),
    ("sqlite.unreachable", "view.rs::a_query_answers_as_a_restore_of_the_same_point_does"),
    ("sqlite.vanished", "truth/sources.rs::a_link_that_is_switched_is_a_replaced_file"),
    ("view.no-vault", "view.rs::the_shell_of_sqlite_reads_a_vault"),
    ("view.read-only", "view.rs::the_shell_of_sqlite_reads_a_vault"),
    ("view.setting", "view.rs::the_shell_of_sqlite_reads_a_vault"),
    ("lmdb.index", "proofs.rs::a_proof_of_lmdb_is_recorded_below_its_name"),
    ("lmdb.lost", "truth/environments.rs::a_vault_that_becomes_an_older_copy_is_told_and_gets_the_newest_state_again"),
    ("lmdb.may-not-delete", "limited.rs::an_lmdb_environment_sends_without_the_right_to_delete_on_s3"),
    ("lmdb.two-writers", "truth/environments.rs::a_second_host_of_the_same_instance_is_told_by_both"),
    ("archive.alarm", "postgres_chain.rs::postgres_a_set_that_somebody_deleted_is_an_alarm_until_it_is_acknowledged"),
    ("archive.may-not-delete", "limited.rs::postgres_is_backed_up_without_the_right_to_delete_on_s3"),
    ("archive.memory", "postgres.rs::postgres_whatever_is_wrong_has_its_exit_code_and_names_the_next_step"),
    (
        "archive.missing-link",
        "postgres_chain.rs::postgres_a_set_that_somebody_deleted_is_an_alarm_until_it_is_acknowledged",
    ),
    (
        "archive.not-missing",
        "postgres_chain.rs::postgres_a_set_that_somebody_deleted_is_an_alarm_until_it_is_acknowledged",
    ),
    ("dump.checksum", "dbbackup.rs::postgres_files_that_are_not_whole_are_refused"),
    ("dump.cut-off", "dbbackup.rs::postgres_files_that_are_not_whole_are_refused"),
    ("dump.damaged", "dbbackup.rs::postgres_files_that_are_not_whole_are_refused"),
    ("dump.globals", "dbbackup.rs::postgres_roles_that_are_there_stay_as_they_are"),
    ("dump.key", "dbbackup.rs::postgres_encrypted_files_come_back_with_their_key_alone"),
    ("dump.name", "dbbackup.rs::postgres_backups_with_less_than_they_should_have_are_told"),
    ("dump.passphrase", "dbbackup.rs::postgres_encrypted_files_come_back_with_their_key_alone"),
    ("dump.unknown", "dbbackup.rs::postgres_files_that_are_not_whole_are_refused"),
    ("dump.unknown-server", "dbbackup.rs::postgres_files_that_are_not_whole_are_refused"),
    ("dump.unproved", "dbbackup.rs::postgres_files_that_are_not_whole_are_refused"),
    ("dump.unread", "dbbackup.rs::postgres_backups_with_less_than_they_should_have_are_told"),
    ("dump.unsafe-path", "dbbackup.rs::postgres_hostile_tars_are_refused_before_anything_is_done"),
    ("log.absent", "wal.rs::wal_fetch_calls_only_a_proved_absence_an_absence"),
    ("log.conflict", "wal_attacks.rs::received_log_of_an_older_copy_is_never_the_continuation_of_a_whole_segment"),
    ("log.demoted", "wal_receive.rs::received_log_follows_a_promotion_and_refuses_the_demoted_server"),
    ("log.hole", "wal.rs::wal_fetch_calls_only_a_proved_absence_an_absence"),
    ("log.io", "wal.rs::wal_fetch_calls_only_a_proved_absence_an_absence"),
    ("log.no-history", "postgres_cluster_moments.rs::cluster_moment_is_restored_from_the_timeline_that_there_was_then"),
    ("log.off-line", "wal_timelines.rs::wal_of_a_promoted_server_and_of_a_demoted_one_stay_apart"),
    ("log.other-cluster", "wal.rs::wal_of_another_cluster_is_refused_both_ways"),
    (
        "log.tablespace-in-use",
        "postgres_cluster_attacks.rs::cluster_recovery_never_writes_into_a_tablespace_of_the_source_on_the_same_host",
    ),
    ("log.vanished", "wal_attacks.rs::received_log_begins_anew_in_a_vault_that_was_emptied_meanwhile"),
    ("mysql.client-command", "dbbackup.rs::mysql_files_that_are_not_whole_or_run_something_are_refused"),
    ("mysql.statement", "dbbackup.rs::mysql_files_that_are_not_whole_or_run_something_are_refused"),
    ("mysql.vendor-format", "mysql.rs::mysql_a_script_of_sql_by_the_command_line"),
    ("postgres.copy-of-file", "dbbackup.rs::postgres_scripts_that_run_something_are_refused"),
    ("postgres.no-role", "dbbackup.rs::postgres_files_of_version_18_come_back_and_say_what_they_need"),
    (
        "postgres.not-synchronous",
        "continuous.rs::commits_that_wait_too_long_are_told_and_go_on_by_the_statement_that_is_told",
    ),
    (
        "postgres.commits-wait",
        "continuous.rs::commits_that_wait_too_long_are_told_and_go_on_by_the_statement_that_is_told",
    ),
    ("postgres.base-gone", "continuous.rs::a_base_whose_packs_are_gone_protects_nothing_and_another_one_is_made"),
    ("postgres.slot-left", "continuous.rs::a_slot_that_is_left_behind_is_told_with_the_statement"),
    ("postgres.slot-unbounded", "continuous.rs::a_cluster_of_a_configuration_is_protected_to_the_last_commit"),
    ("postgres.standby-alone", "continuous.rs::a_standby_that_lost_its_primary_is_not_in_step"),
    ("postgres.not-ready", "dbbackup.rs::postgres_files_of_version_18_come_back_and_say_what_they_need"),
    (
        "postgres.other-restore",
        "postgres_artefacts.rs::postgres_a_restore_in_place_that_was_killed_is_refused_with_what_to_do",
    ),
    ("postgres.other-types", "postgres.rs::postgres_in_binary_by_the_command_line"),
    ("postgres.psql-command", "dbbackup.rs::postgres_scripts_that_run_something_are_refused"),
    ("postgres.statement", "dbbackup.rs::postgres_scripts_that_run_something_are_refused"),
    ("postgres.too-large", "big_postgres.rs::postgres_a_value_whose_text_is_too_large_is_named"),
    ("postgres.tool-failed", "dbbackup.rs::postgres_files_that_are_not_whole_are_refused"),
    ("postgres.vendor-format", "dbbackup.rs::postgres_files_of_one_database_come_back"),
    ("postgres.folder-in-use", "postgres_cluster.rs::cluster_tablespaces_and_unlogged_tables_come_back"),
    (
        "postgres.server-runs",
        "postgres_cluster_delta.rs::interrupted_restore_lets_no_server_start_and_goes_on_when_repeated",
    ),
    ("postgres.other-cluster", "postgres_cluster_delta.rs::folders_of_others_are_refused_and_nothing_in_them_changes"),
    ("postgres.as-root", "postgres_cluster_delta.rs::folders_of_others_are_refused_and_nothing_in_them_changes"),
    ("postgres.amcheck", "postgres_cluster_proofs.rs::damage_in_tables_and_indexes_is_found"),
    ("postgres.recovery-short", "postgres_cluster_proofs.rs::damage_in_the_log_is_found"),
    ("postgres.no-base", "postgres_cluster_faults.rs::cluster_base_that_is_killed_leaves_nothing_that_counts"),
    (
        "postgres.no-log",
        "postgres_cluster_faults.rs::cluster_restore_refuses_what_it_cannot_reach_before_it_writes_anything",
    ),
    ("postgres.several-servers", "postgres_cluster_faults.rs::cluster_base_is_not_put_together_from_several_servers"),
    (
        "postgres.target-before",
        "postgres_cluster_faults.rs::cluster_restore_refuses_what_it_cannot_reach_before_it_writes_anything",
    ),
    (
        "postgres.target-future",
        "postgres_cluster_faults.rs::cluster_restore_refuses_what_it_cannot_reach_before_it_writes_anything",
    ),
    (
        "postgres.target-hole",
        "postgres_cluster_faults.rs::cluster_restore_refuses_what_it_cannot_reach_before_it_writes_anything",
    ),
    ("vault.cut", "encryption.rs::what_somebody_changed_is_named"),
    ("vault.host-key", "sftp.rs::sftp_of_a_server_that_is_not_known_is_refused_with_the_line_to_add"),
    ("vault.differs", "several_vaults.rs::objects_of_another_database_in_one_vault_never_get_into_the_others"),
    ("vault.all-away", "several_vaults.rs::a_restore_by_name_takes_a_vault_that_can_be_read_and_is_of_its_database"),
    ("vault.too-large", "truth/sets.rs::postgres_a_chunk_of_another_set_is_named"),
    ("ltx.digest", "corruption.rs::a_sound_object_that_is_not_what_was_written"),
];

/// Raised by the library, in a test of the engine's crate on a real server or store. The program tells such a failure as it tells those that
/// are raised here, by the same function.
const BY_LIBRARIES: &[(&str, &str)] = &[
    ("agent.folder-missing", "crates/engines/src/alarms/tests.rs::what_each_status_means"),
    ("agent.shutdown-timeout", "crates/agent/src/fleet/tests.rs::a_graceful_stop_is_bounded"),
    ("alarm.folder", "crates/engines/src/alarms/tests.rs::what_each_status_means"),
    ("archive.clock", "crates/archive/src/scheduled.rs::when_a_newest_point_is_of_the_future"),
    (
        "fleet.cut-short",
        "crates/engines/src/catalog/mod.rs::a_prefix_with_more_than_is_remembered_is_shown_as_far_as_it_goes",
    ),
    ("proof.not-isolated", "crates/postgres/tests/it/isolated.rs::in_another_process"),
    ("sqlite.bad-digest", "crates/sqlite/tests/it/digests.rs::an_object_in_parts_is_compared_by_a_digest_of_its_own"),
    ("sqlite.different", "crates/sqlite/tests/it/compared.rs::an_object_with_another_valid_content_is_found"),
    (
        "sqlite.moments-in-doubt",
        "crates/sqlite/tests/it/clocks.rs::what_was_captured_by_a_clock_that_ran_ahead_is_in_doubt_until_the_clock_comes_there",
    ),
    (
        "sqlite.point-gone",
        "crates/sqlite/tests/it/view.rs::objects_that_vanish_under_a_reader_are_replaced_or_the_read_is_refused",
    ),
    ("sqlite.stray", "crates/sqlite/tests/it/watched.rs::an_object_of_somebody_else_in_the_way_is_told"),
    ("lmdb.cut", "crates/lmdb/tests/it/replaced.rs::a_file_that_is_cut_is_told_and_a_whole_copy_in_it_is_kept_in_step"),
    (
        "lmdb.gone",
        "crates/lmdb/tests/it/replaced.rs::a_file_that_is_gone_is_told_until_there_is_a_new_one_and_a_stop_says_so",
    ),
    ("lmdb.map-full", "crates/lmdb/tests/it/session.rs::a_full_map_ends_nothing_and_is_told_until_there_is_room"),
    ("lmdb.not-running", "crates/lmdb/tests/it/engine.rs::it_is_kept_in_step_and_says_so"),
    (
        "lmdb.too-long-away",
        "crates/lmdb/tests/it/session.rs::who_was_away_for_longer_than_deletions_are_kept_is_refused",
    ),
    ("archive.lost", "crates/archive/tests/it/lost.rs::a_link_of_another_host_in_the_place_of_the_newest_is_a_loss"),
    ("log.other-size", "crates/archive/tests/it/log.rs::a_vault_has_one_cluster"),
    ("log.shortened", "crates/archive/tests/it/log.rs::what_a_restore_needs_and_what_is_gone_since_is_no_end"),
    ("mysql.asks-for-file", "crates/mysql/tests/it/hostile.rs::a_server_gets_no_file_that_no_statement_asked_for"),
    ("mysql.blocked", "crates/mysql/tests/it/locks.rs::a_lock_that_isnt_free_is_given_up_and_its_holder_named"),
    ("mysql.certificate", "crates/mysql/tests/it/login.rs::tls_modes_are_those_of_the_vendor"),
    ("mysql.changing", "crates/mysql/tests/it/locks.rs::definitions_that_change_begin_it_anew_and_in_the_end_fail_it"),
    ("mysql.different", "crates/mysql/tests/it/sweep/mod.rs::a_character_that_the_server_does_not_tell_costs_no_row"),
    ("mysql.internal", "crates/mysql/tests/it/client.rs::an_answer_that_is_not_read_to_its_end_ends_the_connection"),
    ("mysql.restore-running", "crates/mysql/tests/it/network.rs::a_restore_whose_connections_break_anywhere_goes_on"),
    ("mysql.sample-too-large", "crates/mysql/tests/it/sample.rs::a_sample_whose_keys_need_too_much_memory_is_refused"),
    (
        "postgres.certificate",
        "crates/postgres/tests/it/login.rs::tls_modes_are_those_of_psql_and_pg_dump_comes_to_the_same_decision",
    ),
    (
        "postgres.changing",
        "crates/postgres/tests/it/changes.rs::a_table_that_is_truncated_and_filled_never_reads_as_empty",
    ),
    (
        "postgres.circular-keys",
        "crates/postgres/tests/it/extensions.rs::tables_of_an_extension_that_refer_to_each_other_are_refused_before_anything_is_made_or_come_back_without_keys",
    ),
    ("postgres.different", "crates/postgres/tests/it/prove.rs::what_differs_is_named"),
    ("postgres.fires-always", "crates/postgres/tests/it/loading.rs::rows_alone_fire_no_trigger_whatever_it_is_set_to"),
    (
        "postgres.emptied",
        "crates/postgres/tests/it/kills.rs::rows_of_unlogged_tables_that_a_crash_took_are_loaded_again",
    ),
    (
        "postgres.hides-damage",
        "crates/postgres/tests/it/settings.rs::rows_on_damaged_pages_are_not_lost_without_a_word",
    ),
    (
        "postgres.needs-table",
        "crates/postgres/tests/it/parts.rs::a_published_table_comes_back_without_its_publication_and_a_child_not_without_its_parent",
    ),
    (
        "postgres.not-running",
        "crates/postgres/tests/it/scheduled.rs::the_first_backup_is_made_at_once_and_others_when_they_are_asked_for_and_old_ones_go",
    ),
    ("postgres.not-ours", "crates/postgres/tests/it/loading.rs::rows_alone_fire_no_trigger_whatever_it_is_set_to"),
    (
        "postgres.not-undone",
        "crates/postgres/tests/it/bound.rs::a_database_that_was_put_aside_stays_where_nothing_says_that_the_new_one_is_whole",
    ),
    (
        "postgres.other-encoding",
        "crates/postgres/tests/it/encodings.rs::names_of_roles_are_bytes_that_all_databases_share",
    ),
    (
        "postgres.other-role",
        "crates/postgres/tests/it/unfinished.rs::a_plain_role_that_repeats_the_restore_of_a_superuser_is_told_whose_it_is",
    ),
    (
        "postgres.password",
        "crates/postgres/tests/it/login_failures.rs::whoever_cannot_get_in_is_told_why_and_what_to_do",
    ),
    (
        "postgres.proof-limit",
        "crates/postgres/tests/it/bounded.rs::a_check_that_never_ends_is_a_failure_and_nothing_stays",
    ),
    (
        "postgres.sample-too-large",
        "crates/postgres/tests/it/sample.rs::more_rows_than_can_be_remembered_are_refused_by_name",
    ),
    (
        "postgres.unreadable-database",
        "crates/postgres/tests/it/whole_server.rs::a_database_that_cannot_be_read_is_named_and_may_be_left_out",
    ),
    ("vault.corrupt", "crates/vault/tests/proxies.rs::a_listing_that_never_ends_is_given_up"),
    ("vault.read-only", "crates/vault/tests/versions.rs::a_bucket_is_read_as_it_was_stored"),
    ("vault.endless", "crates/vault/tests/proxies.rs::a_listing_that_never_ends_is_given_up"),
];

/// Raised by no test, with what it would take.
const BY_NONE: &[(&str, &[&str])] = &[
    (
        "a defect in Seawall, or in a library that it is built with",
        &[
            "proof.internal",
            "bench.codec",
            "command.internal",
            "agent.defect",
            "sqlite.internal",
            "lmdb.internal",
            "archive.internal",
            "dump.internal",
            "postgres.internal",
            "ltx.other",
            "demo.differs",
            "lmdb.wrong-library",
        ],
    ),
    (
        "an answer that the traits of engines allow, and that no engine gives today: each has pins or says so itself, and each keeps digests",
        &["agent.no-pins", "agent.no-digests"],
    ),
    (
        "an error that the engine ends by trying again, before a command is told of it",
        &["sqlite.no-content", "sqlite.own-object", "sqlite.restarted", "sqlite.no-source", "lmdb.closed"],
    ),
    (
        "something that another process does between two steps of a command",
        &[
            "demo.replicate",
            "copy.incomplete",
            "copy.vanished",
            "ltx.changed",
            "vault.changed",
            "vault.exists",
            "demo.slow",
            "agent.busy",
            "query.failed",
        ],
    ),
    (
        "a server, a library or a build of another kind than the tests have",
        &[
            "mysql.too-old",
            "postgres.too-old",
            "postgres.physical-version",
            "postgres.block-size",
            "postgres.wal-level",
            "lmdb.version",
            "vault.no-swap",
            "vault.unsupported",
        ],
    ),
    (
        "a limit of the machine that doesn't bind the user of the tests, or that only some machines have",
        &[
            "command.no-process",
            "command.terminal",
            "agent.folder-hangs",
            "view.no-runtime",
            "mysql.no-server",
            "mysql.no-space",
            "postgres.no-space",
            "mysql.proof-limit",
            "postgres.proof-here",
            "bench.left-behind",
            "lmdb.failed",
        ],
    ),
    ("two minutes, for which a request is tried", &["vault.timeout"]),
    (
        "more data than a test can make",
        &["archive.too-large", "ltx.limit", "lmdb.spool-full", "lmdb.readers-full", "postgres.base-too-large"],
    ),
    (
        "nothing known: a test is missing",
        &[
            "agent.lease-lost",
            "sqlite.corrupt-source",
            "view.other-database",
            "lmdb.different",
            "lmdb.replaced",
            "lmdb.too-many-dbis",
            "lmdb.unknown-flags",
            "lmdb.unnamed",
            "archive.too-new",
            "log.behind",
            "mysql.artefact",
            "mysql.io",
            "mysql.not-running",
            "postgres.no-passwords",
            "postgres.other-engine",
            "postgres.slot",
            "postgres.base-timeline",
            "postgres.damaged-pages",
            "postgres.recovery-failed",
            "postgres.several-clusters",
            "ltx.generation",
        ],
    ),
];

/// Every code of these lists.
pub(super) fn codes() -> impl Iterator<Item = &'static str> {
    let named = BY_OTHERS.iter().chain(BY_LIBRARIES).map(|(code, _)| *code);
    named.chain(BY_NONE.iter().flat_map(|(_, codes)| codes.iter().copied()))
}

/// Rows whose test doesn't exist, or names another code.
pub(super) fn wrong() -> Vec<String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let others = BY_OTHERS.iter().map(|row| (row, here.join("it")));
    let libraries = BY_LIBRARIES.iter().map(|row| (row, here.join("..")));
    let fault = |((code, test), root): (&(&str, &str), std::path::PathBuf)| {
        let (file, name) = test.split_once("::")?;
        let Ok(text) = std::fs::read_to_string(root.join(file)) else { return Some(format!("{code}: no file {file}")) };
        let functions = functions(&text);
        let Some(body) = functions.iter().find(|one| one.name == name && one.is_test) else {
            return Some(format!("{code}: no test {test}"));
        };
        // The code may be named by a helper that the test calls.
        let calls = |one: &&Function<'_>| !one.is_test && body.text.contains(&format!("{}(", one.name));
        let named = names(&body.text, code) || functions.iter().filter(calls).any(|helper| names(&helper.text, code));
        (!named).then(|| format!("{code}: {test} doesn't name it"))
    };
    others.chain(libraries).filter_map(fault).collect()
}

/// Whether a text has a code, and not the beginning or the end of a longer word.
fn names(text: &str, code: &str) -> bool {
    text.match_indices(code).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + code.len()..].chars().next();
        let is_word = |c: char| c.is_ascii_alphanumeric() || ['_', '-', '.', '/'].contains(&c);
        !before.is_some_and(is_word) && !after.is_some_and(|c| c == '(' || is_word(c))
    })
}

struct Function<'t> {
    name: &'t str,
    is_test: bool,
    text: String,
}

/// The functions of a file, as `rustfmt` lays them out.
fn functions(text: &str) -> Vec<Function<'_>> {
    let (mut found, mut open, mut is_test): (Vec<Function<'_>>, Option<&str>, bool) = (Vec::new(), None, false);
    for line in text.lines() {
        let bare = line.trim_start();
        let indent = &line[..line.len() - bare.len()];
        is_test |= bare == "#[test]" || bare.starts_with("#[tokio::test");
        if indent.len() <= 4
            && let Some((before, rest)) = bare.split_once("fn ")
            && before.split(' ').all(|word| word.is_empty() || word == "async" || word.starts_with("pub"))
        {
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            found.push(Function { name, is_test, text: String::new() });
            (open, is_test) = (Some(indent), false);
        }
        if let (Some(indent_of), Some(last)) = (open, found.last_mut()) {
            last.text.push_str(line);
            last.text.push('\n');
            if bare == "}" && indent == indent_of {
                open = None;
            }
        }
    }
    found
}
