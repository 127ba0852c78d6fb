"""What the dashboard shows of consumer groups: those that register the collector of ``checkback.consumer``."""

from deploy.grafana.panels import OF_JOB, Panel, Query, gauge, rate

CONSUMERS = (
    Panel(
        "Behind, by consumer group",
        "Messages between what is done and the end. Rises all the time: more consumers, or faster listeners.",
        "short",
        (Query(gauge("checkback_consumer_lag_messages", OF_JOB), "{{group}}"),),
    ),
    Panel(
        "Done, by consumer group",
        "A second. None while the group is behind: its listeners hang, or fail each time.",
        "cps",
        (Query(rate("checkback_consumer_done_messages_total", OF_JOB, "group"), "{{group}}"),),
    ),
    Panel(
        "Failed, by consumer group",
        "Tried again later, and dead letters, of which each wants somebody to look: checkback dlq list.",
        "cps",
        (
            Query(rate("checkback_consumer_retried_messages_total", OF_JOB, "group"), "{{group}}: tried again"),
            Query(rate("checkback_consumer_dead_messages_total", OF_JOB, "group"), "{{group}}: dead"),
        ),
    ),
    Panel(
        "Under way, by consumer group",
        "Read and not done; and the largest span of a window, which is high while one message holds up what is stored.",
        "short",
        (
            Query(gauge("checkback_consumer_under_way_messages", OF_JOB), "{{group}}: messages"),
            Query(
                f"max by (group) (checkback_consumer_window_span_offsets{{{OF_JOB}}})",
                "{{group}}: span of its widest window",
            ),
        ),
    ),
)
