"""Tests of ``make test-rest``: what runs for long, or shows again on another thing what ``make test`` shows on one."""

from fnmatch import fnmatch

REST = (
    # fault runs, machines of several brokers or workers, wheels
    "tests/faults/*",
    "tests/cluster/*",
    "tests/packaging/*",
    "tests/bench/*",
    "tests/state/test_model.py*",
    # whole jobs: each promise has one in make test, and these its harder cases
    "tests/end_to_end/test_access_policy.py::test_what_a_group_may_not_send_*",
    "tests/end_to_end/test_changed_settings.py*",
    "tests/end_to_end/test_claim.py::test_a_second_job_takes_over_*",
    "tests/end_to_end/test_claim.py::test_a_start_that_fails_*",
    "tests/end_to_end/test_clock.py*",
    "tests/end_to_end/test_group_comes_back.py*",
    "tests/end_to_end/test_grow.py*",
    "tests/end_to_end/test_job.py::test_an_operator_resumes_commits_*",
    "tests/end_to_end/test_screens.py*",
    "tests/end_to_end/test_sinks.py::test_a_table_that_fails_*",
    "tests/end_to_end/test_stops.py::test_a_batch_dated_ahead_*",
    "tests/end_to_end/test_stops.py::test_a_clock_that_stepped_back_*",
    "tests/end_to_end/test_stops.py::test_a_full_disk_*",
    "tests/end_to_end/test_stops.py::test_a_signal_while_it_starts_*",
    "tests/end_to_end/test_stops.py::test_a_topic_made_anew_under_*",
    "tests/end_to_end/test_stops.py::test_torn_files_*",
    "tests/end_to_end/test_users.py*",
    "tests/end_to_end/undelivered/test_held.py::test_topics_made_and_grown_late_*",
    "tests/end_to_end/undelivered/test_held.py::test_an_operator_has_*",
    "tests/end_to_end/undelivered/test_large.py::test_large_messages_wait_*",
    "tests/end_to_end/undelivered/test_large.py::test_a_message_that_kafka_has_no_more_*",
    "tests/end_to_end/undelivered/test_too_large.py*",
    "tests/checkback/testing/test_cluster.py::test_the_example_of_the_docs_runs",
    "tests/deploy/test_real_job.py*",
    "tests/deploy/test_alerts_live.py*",
    "tests/examples/test_django_shop.py*",
    "tests/examples/test_points.py*",
    "tests/examples/test_shop.py*",
    # brokers that go away, restart, are slow, or lose their data
    "tests/consumer/offsets/test_starting_on_kafka.py*",
    "tests/kafka/test_broker_restarts.py*",
    "tests/kafka/test_confluent_writers.py::test_when_the_broker_has_lost_*",
    "tests/kafka/test_small_metadata.py*",
    "tests/kafka/test_spent_epochs.py::test_each_supported_version_*",
    "tests/local/*",
    "tests/network/*",
    "tests/producing/test_producer_away.py*kafka-python*",
    "tests/producing/test_producer_away.py::test_after_an_outage_longer_*",
    "tests/status_page/transactions/test_following.py*",
    "tests/streaming/tables/test_power.py*",
    "tests/streaming/test_brokers_away.py*",
    "tests/streaming/test_changed_settings.py*",
    "tests/streaming/observing/test_lost_ends.py*",
    "tests/streaming/ownership/test_claim.py::test_a_run_that_is_overtaken_*",
    "tests/streaming/test_slow_broker.py*",
    "tests/streaming/test_transaction_timeout.py*",
    # rights on a Kafka that checks them: make test has the gateway's and one producer's
    "tests/access/test_commands_without_rights.py*",
    "tests/access/test_job_without_rights.py*",
    "tests/access/test_rights_taken_away.py*",
    # hostile records, whole
    "tests/fuzz/*",
    "tests/hostile/*",
    # the same on other databases, tables and clients
    "tests/sql/*mariadb*",
    "tests/sql/*mysql*",
    "tests/sql/*django*",
    "tests/streaming/tables/*delta*",
    "tests/gateway/clients/*",
    "tests/gateway/test_processes.py*",
    # documentation
    "tests/test_docs_types.py*",
    "tests/test_site.py*",
)
"""Patterns of test ids."""

LAB = (
    # each takes minutes, and has a smaller one of the same promise in make test or make test-rest
    "tests/access/test_job_without_rights.py::test_while_it_runs",
    "tests/access/test_whole_work.py*",
    "tests/cluster/test_object_store.py::test_in_s3_it_gets_more_state_partitions_*",
    "tests/cluster/test_on_a_cluster.py::test_in_hdfs_it_gets_more_state_partitions_*",
    "tests/end_to_end/test_changed_settings.py::test_a_message_that_was_delivered_*",
    "tests/end_to_end/test_changed_settings.py::test_an_upgrade_waits_*",
    "tests/end_to_end/test_clock.py::test_within_the_tolerance_*",
    "tests/end_to_end/test_grown.py*",
    "tests/end_to_end/test_quotas.py::test_a_group_over_its_quota_*",
    "tests/faults/effects/test_run.py::test_each_order_has_one_effect_whatever_dies",
    "tests/faults/test_gateways.py::test_nothing_is_lost_leaked_or_changed_whichever_gateway_is_asked",
    "tests/faults/test_large_batches.py::test_a_batch_cut_short_*?local?2*",
    "tests/faults/test_power.py::test_nothing_is_lost_when_one_machine_loses_power",
    "tests/hostile/test_commands.py::test_a_command_says_what_lies_between_hostile_records*json*",
    "tests/hostile/test_dead_letters.py::test_each_is_shown",
)
"""Patterns of further tests for ``make test-lab``, which has those marked ``lab``."""


def tier_of(test_id: str) -> str:
    """The marker of a test: "lab" or "rest", or "" for one of ``make test``."""
    for tier, patterns in (("lab", LAB), ("rest", REST)):
        if any(fnmatch(test_id, pattern) for pattern in patterns):
            return tier
    return ""
