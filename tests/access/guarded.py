"""A real broker with SASL/SCRAM, TLS and its authorizer on: nobody may do anything that has not been granted."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports them without saying so
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaProducer

from access import AccessEntry, Right, Role, Whom, entries_of, rights_of
from checkback.kafka.connecting import TransportName
from checkback.kafka.kafka_python.library import (
    ACLFilter,
    ACLPermissionType,
    ResourcePatternFilter,
)
from checkback.local import LocalKafka
from checkback.local.kafka import free_port
from checkback.operations.topics import TopicAdministration
from checkback.wire.protocol import Headers, Topics
from checkback_cli.access.lists import AccessLists, _acl
from conf import Settings, TransactionSettings
from tests.place import wait_until
from tests.safe_kafka import certificates

TOPICS = Topics()
ORDERS = "shop.orders"
_PASSWORD = "se\"cr'et"  # noqa: S105  (of this test's broker)
_DENIED = re.compile(
    r"Principal = (\S+) is Denied operation = (\S+) from host = \S+ on resource = (\S+) for request = (\S+)"
)


@dataclass(frozen=True)
class Guarded:
    """The broker: one listener for everybody, one for who may do all."""

    kafka: LocalKafka
    folder: Path
    everybody: int
    """Port of SASL_SSL."""

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.everybody}"

    @property
    def all_powerful(self) -> Settings:
        """Settings of who may do everything."""
        return Settings.model_validate({"kafka": {"bootstrap_servers": self.kafka.bootstrap_servers}})

    def settings(self, user: str, **sections: dict[str, Any]) -> Settings:
        """Settings of one of our programs, as that user."""
        security = {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-256", "username": user, "password": _PASSWORD}
        security |= {"ca": str(self.folder / "authority.pem")}
        return Settings.model_validate({"kafka": {"bootstrap_servers": self.servers, "security": security}, **sections})

    def options(self, user: str, transport: str = TransportName.KAFKA_PYTHON) -> dict[str, Any]:
        """What an application gives its client."""
        kafka = self.settings(user).kafka
        return dict(kafka.python_client if transport == TransportName.KAFKA_PYTHON else kafka.sink_client)

    def user(self, name: str) -> None:
        """Somebody with a password and no right."""
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        new = UserScramCredentialUpsertion(
            name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), _PASSWORD.encode()
        )
        for done in admin.alter_user_scram_credentials([new]).values():
            done.result()

    def let_in(self, name: str, role: Role, whom: Whom | None = None) -> tuple[Right, ...]:
        """Somebody with just the rights of a role."""
        self.user(name)
        rights = rights_of(role, whom or Whom())
        self.give(name, *rights)
        return rights

    def give(self, name: str, *rights: Right) -> None:
        """Add rights, and wait until the broker goes by them."""
        wanted = entries_of(rights, f"User:{name}")
        with AccessLists(self.all_powerful) as lists:
            lists.add(wanted)
            wait_until(lambda: set(wanted) <= set(lists.entries()), "the rights")

    def take(self, name: str, right: Right) -> None:
        """Take one away, and wait until it is gone."""
        (gone,) = entries_of([right], f"User:{name}")
        with AccessLists(self.all_powerful) as lists:
            lists._admin.delete_acls([_filter(gone)])
            wait_until(lambda: gone not in lists.entries(), "its end")

    def write(self, topic: str, value: bytes | None, headers: Headers = ()) -> None:
        """A record by who may do everything."""
        producer = KafkaProducer(bootstrap_servers=self.kafka.bootstrap_servers)
        producer.send(topic, value, b"key", headers=list(headers)).get(120)
        producer.close()

    def denials(self, *users: str) -> list[tuple[str, ...]]:
        """What the broker has refused these: operation, resource, request."""
        log = self.kafka.log_file.read_text(errors="replace")
        return sorted(
            {found.groups()[1:] for found in _DENIED.finditer(log) if found[1] in {f"User:{u}" for u in users}}
        )


def _filter(entry: AccessEntry) -> ACLFilter:
    acl = _acl(entry)
    where = acl.resource_pattern
    pattern = ResourcePatternFilter(where.resource_type, where.resource_name, where.pattern_type)
    return ACLFilter(acl.principal, acl.host, acl.operation, ACLPermissionType.ALLOW, pattern)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Started once for the module, with Checkback's topics and one for orders."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificates")
    folder = tmp_path_factory.mktemp("guarded")
    tls = certificates(folder)
    port, inside = free_port(), free_port()
    kafka = LocalKafka(folder / "kafka", port=inside)
    kafka._properties.update(
        {
            "listeners": f"INSIDE://127.0.0.1:{inside},EVERYBODY://127.0.0.1:{port},"
            f"CONTROLLER://127.0.0.1:{kafka.controller_port}",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,EVERYBODY:SASL_SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.everybody.scram-sha-256.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            **tls,
        }
    )
    with kafka:
        here = Guarded(kafka, folder, port)
        with TopicAdministration(kafka.bootstrap_servers) as administration:
            times = TransactionSettings()
            administration.create(TOPICS, partitions=2, progress_partitions=2, replication=1, times=times)
            administration.create_one(ORDERS, 2)
            assert administration.wait_for([ORDERS]) == []
        yield here


def settings_file(here: Guarded, user: str) -> str:
    """A file with the settings of a command, as that user."""
    kafka = here.settings(user).kafka
    file = here.folder / f"{user}.toml"
    file.write_text(
        f'[kafka]\nbootstrap_servers = "{kafka.bootstrap_servers}"\n[kafka.security]\nprotocol = "SASL_SSL"\n'
        f'mechanism = "SCRAM-SHA-256"\nusername = "{user}"\nca = "{kafka.security.ca}"\n'
        f"password = '''{kafka.security.password.get_secret_value()}'''\n"
        f'[job]\ncheckpoint = "{here.folder / "checkpoint"}"\n'
    )
    return str(file)
