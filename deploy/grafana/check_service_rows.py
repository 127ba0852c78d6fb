"""What the dashboard shows of the check service."""

from deploy.grafana.panels import OF_GROUP, Panel, Query, gauge, rate

CHECK_SERVICE = (
    Panel(
        "Endpoints, by state",
        "Well: asked. Skipped: does not answer; probed every 10 to 25 s. Tried: failed lately, still asked.",
        "short",
        (Query(gauge("checkback_check_endpoints", by="state"), "{{state}}"),),
        stacked=True,
    ),
    Panel(
        "Endpoints that are well, by group",
        "None: its open transactions wait. checkback groups says why.",
        "short",
        (Query(gauge("checkback_check_endpoints", f'{OF_GROUP}, state="well"'), "{{group}}"),),
    ),
    Panel(
        "Time to answer, 95 %, by group",
        "Near checks.ask_timeout (3 s) an endpoint is too slow.",
        "s",
        (
            Query(
                f"histogram_quantile(0.95, {rate('checkback_check_request_seconds_bucket', OF_GROUP, 'le, group')})",
                "{{group}}",
            ),
        ),
    ),
    Panel(
        "Checks waiting and in flight",
        "Waiting stays high: endpoints are slower than checks come.",
        "short",
        (
            Query(gauge("checkback_checks_waiting"), "{{group}}: waiting"),
            Query(gauge("checkback_check_requests_in_flight"), "{{group}}: requests in flight"),
        ),
    ),
    Panel(
        "Answers written",
        "By result, as the check service gives them to the job.",
        "cps",
        (Query(rate("checkback_check_answers_total", OF_GROUP, "result"), "{{result}}"),),
        stacked=True,
    ),
    Panel(
        "Checks postponed",
        "Nobody could be asked, or a queue is full: they wait in Kafka, and follow.",
        "cps",
        (Query(rate("checkback_checks_postponed_total", OF_GROUP, "group"), "{{group}}"),),
    ),
    Panel(
        "Lanes settled",
        "Producers that deliver themselves, and died or did not answer: what they had delivered is read in Kafka.",
        "cps",
        (
            Query(rate("checkback_check_lanes_total", OF_GROUP, "result"), "{{result}}"),
            Query(rate("checkback_check_rollbacks_of_delivered_total", OF_GROUP, "group"), "{{group}}: contradicted"),
            Query(rate("checkback_check_copies_total", OF_GROUP, "group"), "{{group}}: copies"),
        ),
    ),
)
