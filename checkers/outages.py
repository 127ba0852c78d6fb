"""What is said of what ended the check service."""

from checkback.exceptions import CheckbackError, CheckServiceError, ConfigurationError
from checkback.kafka.kafka_python.errors import passes
from checkback.kafka.kafka_python.library import (
    AuthorizationError,
    IllegalSaslStateError,
    KafkaConfigurationError,
    KafkaError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from checkback.kafka.reaching import no_kafka
from conf import Settings

_CREDENTIALS = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError, IllegalSaslStateError)


def explained(error: BaseException, settings: Settings) -> CheckbackError:
    """What to tell people of what ended the check service; ``retriable`` says whether to start it again."""
    if isinstance(error, CheckbackError):
        return error
    servers, prefix = settings.kafka.bootstrap_servers, settings.kafka.topic_prefix
    if isinstance(error, KafkaConfigurationError):
        return ConfigurationError(f"The check service cannot use kafka.security or kafka.client_options: {error}.")
    if isinstance(error, _CREDENTIALS):
        return ConfigurationError(
            f"Kafka at {servers} refuses the check service's credentials: correct kafka.security or "
            f"kafka.client_options. ({error!r})"
        )
    if isinstance(error, AuthorizationError):
        return ConfigurationError(
            f"Kafka does not allow the check service one of its resources ({error!r}): grant read on the topics "
            f"{prefix}check and {prefix}producers and on the group {prefix}checkers, and write on {prefix}op."
        )
    if isinstance(error, KafkaError | ConnectionError | TimeoutError) and passes(error):
        return no_kafka(servers, repr(error), "kafka.bootstrap_servers")
    return CheckServiceError(f"The check service failed; a restart continues where it stopped. {error!r}")
