"""Tests of ``make test-rest``: what runs for long, or shows again on another thing what ``make test`` shows on one."""

from fnmatch import fnmatch

REST = (
    # fault runs, machines of several brokers or workers, wheels
    "tests/faults/*",
    "tests/cluster/*",
    "tests/packaging/*",
    "tests/bench/*",
    "tests/state/lanes/test_lanes.py*after the other*",
    "tests/state/lanes/test_lanes.py*late requests, and two*",
    "tests/state/lanes/test_lanes.py*two in one transaction, and a check*",
    "tests/state/test_model.py*",
    # whole jobs: each promise has one in make test, and these its harder cases
    "tests/end_to_end/test_access_policy.py*",
    "tests/end_to_end/test_claim.py::test_a_start_that_fails_*",
    "tests/end_to_end/test_observed.py::test_a_port_that_is_taken_*",
    "tests/end_to_end/test_outage.py::test_a_job_that_has_waited_*",
    "tests/end_to_end/test_quotas.py*",
    "tests/end_to_end/test_sinks.py::test_a_table_that_fails_*",
    "tests/end_to_end/test_stops.py::test_a_batch_dated_ahead_*",
    "tests/end_to_end/test_stops.py::test_a_clock_that_stepped_back_*",
    "tests/end_to_end/test_stops.py::test_a_fresh_checkpoint_*",
    "tests/end_to_end/test_stops.py::test_a_full_disk_*",
    "tests/end_to_end/test_stops.py::test_a_signal_while_it_starts_*",
    "tests/end_to_end/test_stops.py::test_a_topic_made_anew_*",
    "tests/end_to_end/test_stops.py::test_a_torn_entry_*",
    "tests/end_to_end/test_stops.py::test_records_that_were_deleted_*",
    "tests/end_to_end/undelivered/test_held.py::test_an_operator_has_*",
    "tests/end_to_end/undelivered/test_large.py::test_large_messages_wait_*",
    "tests/end_to_end/undelivered/test_large.py::test_a_message_that_kafka_has_no_more_*",
    "tests/checkback/testing/test_cluster.py::test_the_example_of_the_docs_runs",
    "tests/checkers/service/test_service_goes_on.py::test_kafka_may_go_away_*",
    "tests/checkers/service/test_three_of_them.py*",
    "tests/consumer/on_kafka/test_dead_on_kafka.py::test_the_message_that_kills_*",
    "tests/deploy/test_prometheus.py::test_each_alert_fires_*",
    "tests/deploy/test_real_job.py*",
    "tests/examples/test_django_shop.py*",
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
    "tests/bench/test_workload.py::test_each_once",
    "tests/checkers/test_directory.py::test_the_first_of_a_hundred_thousand_*",
    "tests/cluster/test_claimed_names.py*",
    "tests/cluster/test_object_store.py*",
    "tests/cluster/test_on_a_cluster.py::test_a_job_does_without_a_lost_worker_*",
    "tests/cluster/test_on_a_cluster.py::test_in_hdfs_it_gets_more_state_partitions_*",
    "tests/deploy/test_alerts_live.py*",
    "tests/end_to_end/test_access_policy.py::test_what_a_group_may_not_send_*",
    "tests/end_to_end/test_changed_settings.py*",
    "tests/end_to_end/test_claim.py::test_a_second_job_takes_over_*",
    "tests/end_to_end/test_clock.py*",
    "tests/end_to_end/test_grow.py*",
    "tests/end_to_end/test_grown.py*",
    "tests/end_to_end/test_quotas.py::test_a_group_over_its_quota_*",
    "tests/end_to_end/test_screens.py*",
    "tests/end_to_end/test_stops.py::test_torn_files_*",
    "tests/end_to_end/test_users.py*",
    "tests/end_to_end/undelivered/test_held.py::test_topics_made_and_grown_late_*",
    "tests/end_to_end/undelivered/test_too_large.py*",
    "tests/examples/test_points.py*",
    "tests/faults/effects/test_run.py::test_each_order_has_one_effect_whatever_dies",
    "tests/faults/test_gateways.py::test_nothing_is_lost_leaked_or_changed_whichever_gateway_is_asked",
    "tests/faults/test_lanes.py::test_nothing_is_lost_repeated_leaked_or_changed_whoever_dies",
    "tests/faults/test_large_batches.py*",
    "tests/faults/test_power.py*",
    "tests/hostile/test_commands.py::test_a_command_says_what_lies_between_hostile_records*json*",
    "tests/hostile/test_dead_letters.py::test_each_is_shown",
    "tests/network/*without the cure*",
    "tests/packaging/test_quick_start.py::test_the_quick_start_does_what_it_says",
    "tests/packaging/test_wheels.py::test_an_application_runs_on_other_pythons*",
    "tests/producing/test_producer_away.py::test_after_an_outage_longer_*",
)
"""Patterns of further tests for ``make test-lab``, which has those marked ``lab``."""


def tier_of(test_id: str) -> str:
    """The marker of a test: "lab" or "rest", or "" for one of ``make test``."""
    for tier, patterns in (("lab", LAB), ("rest", REST)):
        if any(fnmatch(test_id, pattern) for pattern in patterns):
            return tier
    return ""
