"""What ``checkback config`` does not print."""

import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from checkback_cli import app
from conf.redaction import HIDDEN, redacted

SECRETS = [
    *("sasl.password", "sasl.jaas.config", "ssl.key.password", "sasl.oauthbearer.client.secret", "ssl.keystore.key"),
    *("ssl.key.pem", "ssl.keystore.password", "ssl.truststore.password", "sasl_plain_password", "ssl_password"),
    *("sasl.oauthbearer.assertion.private.key.pem", "sasl.oauthbearer.assertion.private.key.passphrase"),
    *("sasl.oauthbearer.config", "kafka.sasl.jaas.config", "sasl_oauth_token_provider", "SASL.PASSWORD"),
    *("spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.s3a.access.key", "fs.s3a.session.token"),
    "spark.hadoop.fs.azure.account.key.store.dfs.core.windows.net",
    *("db.pwd", "sasl.pass", "mail.pw", "fs.azure.sas.container", "ssl.passcode", "http.auth", "x.authorization"),
    *("connectionString", "hub.connection.string", "smtpPwd", "bearer"),
]
OPEN = [
    *("security.protocol", "sasl.mechanism", "sasl.username", "sasl_plain_username", "ssl.ca.location", "ssl_keyfile"),
    *("ssl.key.location", "ssl.keystore.location", "ssl.certificate.pem", "ssl.endpoint.identification.algorithm"),
    *("passive.mode", "ssl.pin.file", "basic.authentication.realm", "author"),
    *("client.id", "fetch.max.wait.ms", "spark.local.dir", "sasl.oauthbearer.assertion.private.key.file"),
]


@pytest.mark.parametrize("name", SECRETS)
def test_an_options_secret_is_hidden(name: str) -> None:
    assert redacted({name: "hunter2"}) == {name: HIDDEN}


@pytest.mark.parametrize("name", OPEN)
def test_other_options_are_shown(name: str) -> None:
    assert redacted({name: "/some/thing"}) == {name: "/some/thing"}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("jdbc:postgresql://u:hunter2@db/shop", f"jdbc:postgresql://u:{HIDDEN}@db/shop"),
        ("http://u:hunt@er2@shop:80/x", f"http://u:{HIDDEN}@shop:80/x"),
        ("s3a://KEY:hunter2@bucket/messages", f"s3a://KEY:{HIDDEN}@bucket/messages"),
        (
            "jdbc:postgresql://db/s?sslpassword=hunter2&ssl=true",
            f"jdbc:postgresql://db/s?sslpassword={HIDDEN}&ssl=true",
        ),
        ("http://shop/x?token=hunter2", f"http://shop/x?token={HIDDEN}"),
        ("http://shop:80/x@y", "http://shop:80/x@y"),
        ("localhost:9092,other:9092", "localhost:9092,other:9092"),
        ("me:hunter2@kafka-1:9092,kafka-2:9092", f"me:{HIDDEN}@kafka-1:9092,kafka-2:9092"),
        (
            "-Xmx1g -Djavax.net.ssl.keyStorePassword=hunter2 -Dx=y",
            f"-Xmx1g -Djavax.net.ssl.keyStorePassword={HIDDEN} -Dx=y",
        ),
        ('Plain required username="me" password="hun;ter2";', f'Plain required username="me" password={HIDDEN};'),
        ("Endpoint=sb://x/;SharedSecret='hunter2';Entity=y", f"Endpoint=sb://x/;SharedSecret={HIDDEN};Entity=y"),
        ("user=me pwd=hunter2", f"user=me pwd={HIDDEN}"),
        ("what a password is: see the page", "what a password is: see the page"),
        ("jdbc:postgresql://db/shop?sslmode=verify-full", "jdbc:postgresql://db/shop?sslmode=verify-full"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda text: text, lambda text: [text], lambda text: {"table": {"url": text}}])
def test_a_password_in_a_url_is_hidden(url: str, shown: str, wrap: Any) -> None:
    assert redacted(wrap(url)) == wrap(shown)


def test_config_prints_none_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.upper().startswith("CHECKBACK_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("COLUMNS", "400")
    file = tmp_path / "mine.toml"
    file.write_text(
        "[kafka]\n"
        'source_options = { "sasl.jaas.config" = \'x required username="me" password="hunter2";\' }\n'
        'sink_options = { "sasl.password" = "hunter2", "sasl.username" = "me" }\n'
        'client_options = { sasl_plain_password = "hunter2" }\n'
        '[job.spark_options]\n"spark.hadoop.fs.s3a.secret.key" = "hunter2"\n'
        '[checks]\nendpoints = { orders = ["http://me:hunter2@shop/"] }\n'
        '[checks.keys]\norders = "hunter2 hunter2 hunter2"\n'
        '[sinks.tables.lake]\nkind = "delta"\npath = "s3a://me:hunter2@bucket/x"\n'
        '[sinks.tables.db]\nkind = "postgresql"\nurl = "jdbc:postgresql://me:hunter2@db/x"\npassword = "hunter2"\n'
    )
    said = CliRunner().invoke(app, ["config", "--config", str(file)])
    assert said.exit_code == 0
    assert "hunter2" not in said.output
    assert '"sasl.username": "me"' in said.output
