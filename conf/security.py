"""How Kafka is reached safely: one set of settings, and what each of the three clients calls it."""

from pathlib import Path
from typing import Literal, Self

from pydantic import SecretStr, model_validator

from conf.sections import Section

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


class KafkaSecurity(Section):
    """TLS and SASL of all of Checkback's connections to Kafka; by default neither.

    Whatever else a client knows (Kerberos, OAuth, key stores) goes into its own options, which override these.
    """

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ca: str = ""
    certificate: str = ""
    key: str = ""
    key_password: SecretStr = SecretStr("")
    verify_host: bool = True
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    username: str = ""
    password: SecretStr = SecretStr("")

    @property
    def encrypted(self) -> bool:
        """Whether connections use TLS."""
        return self.protocol in {"SSL", "SASL_SSL"}

    @property
    def authenticated(self) -> bool:
        """Whether connections use SASL."""
        return self.protocol.startswith("SASL_")

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        if bool(self.username) != self.authenticated or bool(self.password.get_secret_value()) != self.authenticated:
            raise ValueError(
                "kafka.security.username and password belong to SASL_PLAINTEXT and SASL_SSL, which need both"
            )
        if bool(self.certificate) != bool(self.key):
            raise ValueError("kafka.security.certificate and kafka.security.key must be set together")
        if (self.ca or self.certificate) and not self.encrypted:
            raise ValueError("kafka.security.ca, certificate and key belong to the protocols SSL and SASL_SSL")
        for name in ("ca", "certificate", "key"):
            file = getattr(self, name)
            if file and not Path(file).is_file():
                raise ValueError(f"kafka.security.{name}: there is no file {file}")
        return self

    def for_kafka_python(self) -> dict[str, str | bool]:
        """Under the names of kafka-python: topics, check service, producers of Python applications."""
        if self.protocol == "PLAINTEXT":
            return {}
        found: dict[str, str | bool] = {"security_protocol": self.protocol}
        if self.encrypted:
            found |= {"ssl_check_hostname": self.verify_host}
            found |= _given(ssl_cafile=self.ca, ssl_certfile=self.certificate, ssl_keyfile=self.key)
            found |= _given(ssl_password=self.key_password.get_secret_value())
        if self.authenticated:
            found |= {"sasl_mechanism": self.mechanism, "sasl_plain_username": self.username}
            found |= {"sasl_plain_password": self.password.get_secret_value()}
        return found

    def for_librdkafka(self) -> dict[str, str]:
        """Under the names of librdkafka: the sink."""
        if self.protocol == "PLAINTEXT":
            return {}
        found: dict[str, str] = {"security.protocol": self.protocol}
        if self.encrypted:
            found["ssl.endpoint.identification.algorithm"] = "https" if self.verify_host else "none"
            files = {"ssl.ca.location": self.ca, "ssl.certificate.location": self.certificate}
            secrets = {"ssl.key.location": self.key, "ssl.key.password": self.key_password.get_secret_value()}
            found |= {name: value for name, value in (files | secrets).items() if value}
        if self.authenticated:
            found |= {"sasl.mechanism": self.mechanism, "sasl.username": self.username}
            found |= {"sasl.password": self.password.get_secret_value()}
        return found

    def for_java(self) -> dict[str, str]:
        """Under the names of Kafka's own client: Spark's source. Of PEM files the content is given (KIP-651).

        Raises:
            OSError: a file cannot be read.
        """
        if self.protocol == "PLAINTEXT":
            return {}
        found: dict[str, str] = {"security.protocol": self.protocol}
        if self.encrypted:
            found["ssl.endpoint.identification.algorithm"] = "https" if self.verify_host else ""
            if self.ca:
                found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _text(self.ca)}
            if self.certificate:
                found |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": _text(self.certificate)}
                found["ssl.keystore.key"] = _text(self.key)
            if self.key_password.get_secret_value():
                found["ssl.key.password"] = self.key_password.get_secret_value()
        if self.authenticated:
            found |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": self._jaas()}
        return found

    def _jaas(self) -> str:
        user, password = _quoted(self.username), _quoted(self.password.get_secret_value())
        return f"{_LOGIN_MODULES[self.mechanism]} required username={user} password={password};"


def _given(**values: str) -> dict[str, str | bool]:
    return {name: value for name, value in values.items() if value}


def _text(file: str) -> str:
    return Path(file).read_text(encoding="utf-8", errors="replace")  # comments may have anything


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
