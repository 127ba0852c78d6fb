"""One set of settings for TLS and SASL, in the words of three clients."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from conf import Settings
from conf.security import KafkaSecurity

SASL = {"protocol": "SASL_SSL", "username": "job", "password": 'pass"word\\'}


def test_by_default_nothing_is_set() -> None:
    plain = KafkaSecurity()
    assert (plain.for_kafka_python(), plain.for_librdkafka(), plain.for_java()) == ({}, {}, {})


def test_each_client_has_its_own_words_for_tls(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.pem" for name in ("ca", "certificate", "key")}
    for name, file in files.items():
        file.write_text(f"-----BEGIN {name}-----\n")
    given = KafkaSecurity.model_validate({"protocol": "SSL", **{name: str(file) for name, file in files.items()}})
    ca, certificate, key = (str(file) for file in files.values())
    assert given.for_kafka_python() == {
        "security_protocol": "SSL",
        "ssl_check_hostname": True,
        "ssl_cafile": ca,
        "ssl_certfile": certificate,
        "ssl_keyfile": key,
    }
    assert given.for_librdkafka() == {
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "https",
        "ssl.ca.location": ca,
        "ssl.certificate.location": certificate,
        "ssl.key.location": key,
    }
    assert given.for_java() == {
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "https",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "-----BEGIN ca-----\n",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "-----BEGIN certificate-----\n",
        "ssl.keystore.key": "-----BEGIN key-----\n",
    }


def test_each_client_has_its_own_words_for_sasl() -> None:
    given = KafkaSecurity.model_validate({**SASL, "mechanism": "SCRAM-SHA-256"})
    assert given.for_kafka_python()["sasl_plain_password"] == SASL["password"]
    assert given.for_librdkafka()["sasl.username"] == "job"
    assert given.for_java()["sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        r'username="job" password="pass\"word\\";'
    )


def test_a_clients_own_options_come_after() -> None:
    options = {"sink_options": {"sasl.username": "sink"}, "client_options": {"sasl_plain_username": "x"}}
    settings = Settings.model_validate({"kafka": {"security": SASL, **options}}).kafka
    assert settings.sink_client["sasl.username"] == "sink"
    assert settings.python_client["sasl_plain_username"] == "x"
    assert 'username="job"' in settings.source_client["sasl.jaas.config"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"protocol": "SASL_SSL"}, "need both"),
        ({"username": "job", "password": "x"}, "belong to SASL_PLAINTEXT"),
        ({"protocol": "SASL_SSL", "username": "job"}, "need both"),
        ({"protocol": "SSL", "key": "k.pem"}, "must be set together"),
        ({"ca": "ca.pem"}, "belong to the protocols SSL"),
        ({"protocol": "SSL", "ca": "no/such.pem"}, "there is no file no/such.pem"),
        ({"protocol": "TLS"}, "Input should be"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        KafkaSecurity.model_validate(given)
