"""What the dashboard shows: rows of panels, with what each means to whoever looks at it."""

from deploy.grafana.check_service_rows import CHECK_SERVICE
from deploy.grafana.consumer_rows import CONSUMERS
from deploy.grafana.panels import OF_GROUP, OF_JOB, Panel, Query, gauge, quantiles, rate

_FLOW = (
    Panel(
        "Delivered",
        "Committed messages a second, to Kafka or to tables.",
        "cps",
        (Query(rate("checkback_events_total", f'{OF_JOB}, event="committed"'), "delivered"),),
        kind="stat",
        width=4,
        height=4,
        steps=((None, "blue"),),
    ),
    Panel(
        "Open transactions",
        "Half messages that are not decided. Those of the last seconds are as it should be.",
        "short",
        (Query(gauge("checkback_open_transactions", by=""), "open"),),
        kind="stat",
        width=4,
        height=4,
        steps=((None, "blue"),),
    ),
    Panel(
        "Oldest open transaction",
        "Above some minutes somebody should look: checkback open, or the status page.",
        "s",
        (Query(f"max (checkback_oldest_open_seconds{{{OF_GROUP}}})", "age"),),
        kind="stat",
        width=4,
        height=4,
        steps=((None, "green"), (300, "orange"), (900, "red")),
    ),
    Panel(
        "Wait for an operator",
        "Parked messages: checkback parked list says which and why.",
        "short",
        (Query(gauge("checkback_parked_messages", by=""), "parked"),),
        kind="stat",
        width=4,
        height=4,
        steps=((None, "green"), (1, "orange")),
    ),
    Panel(
        "Since the last batch",
        "A job without work also ends a batch every five seconds. Above two minutes the job stalls.",
        "s",
        (Query(f"time() - max (checkback_batch_end_timestamp_seconds{{{OF_JOB}}})", "seconds"),),
        kind="stat",
        width=4,
        height=4,
        steps=((None, "green"), (30, "orange"), (120, "red")),
    ),
    Panel(
        "Records behind",
        "Of the half and the op topic, that no batch has read yet.",
        "short",
        (Query(gauge("checkback_backlog_records", OF_JOB, by=""), "records"),),
        kind="stat",
        width=4,
        height=4,
        steps=((None, "green"), (50_000, "orange"), (500_000, "red")),
    ),
    Panel(
        "Transactions",
        "Half messages taken in, and how they ended. Committed and rolled back together follow half messages.",
        "cps",
        (
            Query(
                rate("checkback_events_total", f'{OF_JOB}, event=~"half|committed|rolled_back|delayed"', "event"),
                "{{event}}",
            ),
        ),
        width=12,
    ),
    Panel(
        "What should not happen",
        "Rejected: it broke the protocol, or its group is over quota. Conflict: two decisions. Held: its topic did not "
        "take it now; retried: each further try; undeliverable: it was not taken in time. Gone: its content is lost. "
        "Parked: nobody knew the outcome.",
        "cps",
        (
            Query(
                rate(
                    "checkback_events_total",
                    f'{OF_JOB}, event=~"rejected|conflict|held|retried|undeliverable|gone|parked|malformed|'
                    'cut|abandoned"',
                    "event",
                ),
                "{{event}}",
            ),
        ),
        width=12,
    ),
    Panel(
        "From half message to decision",
        "As the job reads them. From transactions.timeout (6 s) on it was a check that decided.",
        "s",
        quantiles("checkback_decision_seconds"),
    ),
    Panel(
        "From decision to delivery",
        "Of messages delivered at once: about the length of a batch.",
        "s",
        quantiles("checkback_delivery_seconds"),
    ),
    Panel(
        "Records read and written",
        "Read: half messages and ops. Written: deliveries, checks, notes; rows: those for tables.",
        "cps",
        (
            Query(rate("checkback_records_read_total"), "read"),
            Query(rate("checkback_records_written_total"), "written"),
            Query(rate("checkback_rows_published_total", by="destination"), "rows for {{destination}}"),
        ),
    ),
)
_CHECKS = (
    Panel(
        "Checks asked, by group",
        "A group of which many are asked does not end its transactions: its processes crash, or its ops are late.",
        "cps",
        (Query(rate("checkback_checks_total", f'{OF_GROUP}, result="asked"', "group"), "{{group}}"),),
    ),
    Panel(
        "Answers",
        "Unknown: the endpoint said so, timed out or raised. Unreachable: nobody could be asked.",
        "cps",
        (Query(rate("checkback_checks_total", f'{OF_GROUP}, result!="asked"', "result"), "{{result}}"),),
        stacked=True,
    ),
    Panel(
        "Checks without a verdict, by group",
        "Their transactions stay open, and are parked after check_max answers of the kind unknown.",
        "cps",
        (
            Query(
                rate("checkback_checks_total", f'{OF_GROUP}, result=~"unknown|unreachable"', "group, result"),
                "{{group}}: {{result}}",
            ),
        ),
    ),
    Panel(
        "Timers are late by",
        "Checks and delayed deliveries. More are due than a batch lets fire after an outage; it passes.",
        "s",
        quantiles("checkback_timer_late_seconds"),
        width=12,
    ),
    Panel(
        "Checked, duplicates, attempts given back",
        "An attempt is given back when nobody could be asked. Duplicates are harmless: an op or answer came twice.",
        "cps",
        (
            Query(rate("checkback_events_total", f'{OF_JOB}, event=~"checked|duplicate"', "event"), "{{event}}"),
            Query(rate("checkback_check_attempts_given_back_total"), "given back"),
        ),
        width=12,
    ),
)
_IN_DOUBT = (
    Panel(
        "Groups",
        "As they stand now. checkback groups says the same, with endpoints.",
        "short",
        (
            Query(gauge("checkback_open_transactions"), "open"),
            Query(f"max by (group) (checkback_oldest_open_seconds{{{OF_GROUP}}})", "oldest"),
            Query(gauge("checkback_parked_messages"), "parked"),
            Query(gauge("checkback_delayed_messages"), "delayed"),
            Query(gauge("checkback_open_bytes"), "bytes"),
        ),
        kind="table",
        width=12,
        renamed={
            "group": "Group",
            "Value #A": "Open",
            "Value #B": "Oldest",
            "Value #C": "Parked",
            "Value #D": "Delayed",
            "Value #E": "Bytes open",
        },
    ),
    Panel(
        "Why",
        "Reasons of what was parked, held and rejected in the time shown.",
        "short",
        tuple(
            Query(
                f"sum by (reason) (increase(checkback_{what}_total{{{OF_JOB}}}[$__range]))", f"{what}: {{{{reason}}}}"
            )
            for what in ("parked", "held", "rejected")
        ),
        kind="bargauge",
        width=12,
    ),
    Panel(
        "Refused by the access policy, by group and topic",
        "What a group may not send, or what is not signed as its keys ask for: checkback status says why.",
        "short",
        (
            Query(
                f"sum by (group, topic) (increase(checkback_refused_total{{{OF_GROUP}}}[$__range]))",
                "{{group}}: {{topic}}",
            ),
            Query(f"max (checkback_access_policy_wrong{{{OF_JOB}}})", "policy file cannot be used"),
        ),
        kind="bargauge",
        width=12,
    ),
    Panel(
        "Open, by group and topic",
        "Rises and stays: transactions are not ended, and checks do not end them either.",
        "short",
        (Query(gauge("checkback_open_transactions", by="group, topic"), "{{group}}: {{topic}}"),),
    ),
    Panel(
        "Oldest open, by group and topic",
        "The line is transactions.age_limit, after which it is parked.",
        "s",
        (
            Query(
                f"max by (group, topic) (checkback_oldest_open_seconds{{{OF_GROUP}}})",
                "{{group}}: {{topic}}",
            ),
            Query(f"max (checkback_age_limit_seconds{{{OF_JOB}}})", "age limit"),
        ),
    ),
    Panel(
        "Parked and delayed, by group",
        "Delayed: committed, for later; those that their topic does not take now are among them.",
        "short",
        (
            Query(gauge("checkback_parked_messages"), "{{group}}: parked"),
            Query(gauge("checkback_delayed_messages"), "{{group}}: delayed"),
        ),
    ),
    Panel(
        "Share of the quota, by group",
        "The largest of its four shares. From 100 % on its new half messages are rejected.",
        "percentunit",
        (
            Query(
                "max by (group) ("
                + " or ".join(
                    f"label_replace(sum by (group) ({metric}{{{OF_GROUP}}})"
                    f' / scalar(max (checkback_quota_{quota}{{{OF_JOB}}})), "of", "{quota}", "", "")'
                    for metric, quota in (
                        ("checkback_open_transactions", "open_transactions"),
                        ("checkback_open_bytes", "open_bytes"),
                        ("checkback_delayed_messages", "delayed_messages"),
                        ("checkback_parked_messages", "parked_messages"),
                    )
                )
                + ")",
                "{{group}}",
            ),
        ),
        width=24,
        height=6,
    ),
)
_JOB = (
    Panel("Duration of batches", "From one to three seconds is usual.", "s", quantiles("checkback_batch_seconds")),
    Panel(
        "What batches spend their time with",
        "Seconds of each second. evaluate_and_write is the work; the others are Kafka's and the checkpoint's.",
        "s",
        (Query(rate("checkback_batch_phase_seconds_total", by="phase"), "{{phase}}"),),
        stacked=True,
    ),
    Panel(
        "Batches",
        "A second. None: the job stalls.",
        "cps",
        (Query(rate("checkback_batch_seconds_count"), "batches"),),
    ),
    Panel(
        "Backlog, by partition",
        "Records that are not read yet. One partition alone: see beside, whether it is held back.",
        "short",
        (Query(gauge("checkback_backlog_records", OF_JOB, "topic, partition"), "{{topic}}/{{partition}}"),),
    ),
    Panel(
        "Partitions held back",
        "For how long somebody's open Kafka transaction has held it back. The job's log names the writer.",
        "s",
        (
            Query(
                f"max by (topic, partition) (checkback_partition_held_back_seconds{{{OF_JOB}}})",
                "{{topic}}/{{partition}}",
            ),
        ),
    ),
    Panel(
        "State",
        "As it is stored. Above a quarter of job.driver_memory, the line, batches are evaluated in small pieces.",
        "bytes",
        (
            Query(f"max (checkback_state_bytes{{{OF_JOB}}})", "state"),
            Query(f"max (checkback_driver_memory_bytes{{{OF_JOB}}}) / 4", "a quarter of the memory"),
        ),
    ),
    Panel(
        "Segments, and partitions skipped",
        "Segments that have state. Skipped: state partitions of a repeated batch; after a crash, and at no other time.",
        "short",
        (
            Query(f"max (checkback_state_segments{{{OF_JOB}}})", "segments"),
            Query(f"sum (increase(checkback_partitions_skipped_total{{{OF_JOB}}}[$__rate_interval]))", "skipped"),
        ),
        width=6,
        height=6,
    ),
    Panel(
        "Executors",
        "Of a job on a cluster: those that it has, and the most that this run has had. None on one machine.",
        "short",
        (
            Query(f"min (checkback_executors{{{OF_JOB}}})", "executors"),
            Query(f"max (checkback_executors_most{{{OF_JOB}}})", "the most"),
        ),
        width=6,
        height=6,
    ),
    Panel(
        "Jobs",
        "Which run, in which version, and the number of the last batch.",
        "none",
        (
            Query(f"max by (job, instance, name, version) (checkback_job_info{{{OF_JOB}}})", "job"),
            Query(f"max by (job, instance) (checkback_batch{{{OF_JOB}}})", "batch"),
        ),
        kind="table",
        width=12,
        height=6,
        renamed={
            "job": "Installation",
            "instance": "Instance",
            "name": "Name",
            "version": "Version",
            "Value #B": "Last batch",
        },
    ),
)
ROWS = {
    "Flow": _FLOW,
    "Checks by group": _CHECKS,
    "In doubt": _IN_DOUBT,
    "Job": _JOB,
    "Check service": CHECK_SERVICE,
    "Consumers": CONSUMERS,
}
