"""What is said of what ended the check service."""

from access import Role, Whom, rights_of
from checkback.exceptions import CheckbackError, CheckServiceError, ConfigurationError
from checkback.kafka.kafka_python.errors import passes
from checkback.kafka.kafka_python.library import (
    AuthorizationError,
    IllegalSaslStateError,
    KafkaConfigurationError,
    KafkaError,
    OffsetMetadataTooLargeError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from checkback.kafka.reaching import no_kafka
from checkback.wire.beside_offsets import metadata_refused
from checkback.wire.rights import not_allowed
from conf import Settings

_CREDENTIALS = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError, IllegalSaslStateError)


def explained(error: BaseException, settings: Settings) -> CheckbackError:  # noqa: PLR0911  (one for each kind of error)
    """What to tell people of what ended the check service; ``retriable`` says whether to start it again."""
    if isinstance(error, CheckbackError):
        return error
    servers = settings.kafka.bootstrap_servers
    if isinstance(error, KafkaConfigurationError):
        return ConfigurationError(f"The check service cannot use kafka.security or kafka.client_options: {error}.")
    if isinstance(error, _CREDENTIALS):
        return ConfigurationError(
            f"Kafka at {servers} refuses the check service's credentials: correct kafka.security or "
            f"kafka.client_options. ({error!r})"
        )
    if isinstance(error, AuthorizationError):
        return not_allowed("the check service", error, rights_of(Role.CHECKS, Whom(settings.kafka.topics)))
    if isinstance(error, OffsetMetadataTooLargeError):
        return metadata_refused("the check service", repr(error))
    if isinstance(error, KafkaError | ConnectionError | TimeoutError) and passes(error):
        return no_kafka(servers, repr(error), "kafka.bootstrap_servers")
    return CheckServiceError(f"The check service failed; a restart continues where it stopped. {error!r}")
