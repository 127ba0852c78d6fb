"""Settings: defaults, file and environment; what is refused, and in which words."""

import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import HttpUrl, ValidationError

import conf
from checkback.exceptions import ConfigurationError
from conf import Milliseconds, SettingOrigin, Settings, load, origins

DEFAULT_FILE = Path(conf.__file__).with_name("default.toml")

WriteFile = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.upper().startswith("CHECKBACK_")]:
        monkeypatch.delenv(variable)


@pytest.fixture
def write(tmp_path: Path) -> WriteFile:
    """Write a settings file."""

    def written(text: str) -> Path:
        file = tmp_path / "mine.toml"
        file.write_text(text, encoding="utf-8")
        return file

    return written


def refused(file: Path | None = None) -> str:
    """The message with which settings are refused."""
    with pytest.raises(ConfigurationError) as error:
        load(file)
    return str(error.value)


def found(file: Path | None = None) -> dict[str, tuple[Any, SettingOrigin]]:
    return {key: (value, origin) for key, value, origin in origins(file)}


def test_the_default_file_says_the_defaults() -> None:
    assert load(DEFAULT_FILE) == load() == Settings()


def test_the_default_file_lists_every_key_in_order_and_nothing_else() -> None:
    listed = tomllib.loads(DEFAULT_FILE.read_text(encoding="utf-8"))
    known = {name: list(values) for name, values in Settings().model_dump().items()}
    assert [(name, list(keys)) for name, keys in listed.items()] == list(known.items())


def test_every_key_of_the_default_file_has_a_comment() -> None:
    keys = [line for line in DEFAULT_FILE.read_text(encoding="utf-8").splitlines() if re.match(r"\w+ = ", line)]
    assert len(keys) == len(origins())
    assert [line for line in keys if not re.search(r"  # \S.*", line)] == []


def test_the_transaction_defaults_are_those_of_rocketmq() -> None:
    defaults = Settings().transactions
    assert defaults.timeout == 6_000
    assert defaults.check_interval == 30_000
    assert defaults.check_max == 15
    assert defaults.age_limit == 72 * 3_600_000


def test_a_setting_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().kafka.topic_prefix = "other."


def test_an_unknown_key_is_named_with_the_one_that_was_meant(write: WriteFile) -> None:
    message = refused(write('[kafka]\nbootstrap_server = "elsewhere:9092"\n'))
    assert "kafka.bootstrap_server: unknown key (did you mean bootstrap_servers?)" in message


def test_an_unknown_key_like_no_other_is_named_without_a_guess(write: WriteFile) -> None:
    message = refused(write("[job]\nxylophone = 1\n"))
    assert "job.xylophone: unknown key" in message
    assert "did you mean" not in message


def test_an_unknown_section_is_named(write: WriteFile) -> None:
    assert "transaction: unknown key (did you mean transactions?)" in refused(write('[transaction]\ntimeout = "6s"\n'))


def test_every_wrong_key_is_named_at_once(write: WriteFile) -> None:
    message = refused(write('[job]\nstate_partition = 2\n[checks]\nask_timeout = 3\n[kafka]\ntopic_prefix = ""\n'))
    assert all(key in message for key in ("job.state_partition:", "checks.ask_timeout:", "kafka.topic_prefix:"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("job.state_partitions", '"two"'),
        ("job.state_partitions", "0"),
        ("job.state_partitions", "1.5"),
        ("job.driver_memory", '"2 GB"'),
        ("http.port", "65536"),
        ("job.name", '"two words"'),
        ("job.checkpoint", '""'),
        ("kafka.bootstrap_servers", "9092"),
        ("kafka.bootstrap_servers", '""'),
        ("kafka.topic_prefix", '"ü."'),
        ("kafka.source_options", "[]"),
        ("kafka.source_options.a", "1"),
        ("kafka", "1"),
        ("transactions.check_max", "-1"),
        ("transactions.early_op_max", "0"),
        ("transactions.segment_size", "32"),
        ("transactions.segment_size", "131072"),
        ("checks.in_job", '"perhaps"'),
        ("checks.concurrency_per_group", "0"),
        ("checks.endpoints.orders", '"http://one:80/"'),
        ("checks.endpoints.orders", '["ftp://one/"]'),
        ("checks.endpoints.orders", '["no address"]'),
        ("checks.keys.orders", '"too short"'),
        ("checks.allowed_hosts", '["10.0.0.0/33"]'),
        ("checks.allowed_hosts", '["10.0.0.1/8"]'),
        ("checks.allowed_hosts", '["10.0.0.256"]'),
        ("checks.allowed_hosts", '["http://shop/"]'),
        ("checks.allowed_hosts", '[""]'),
    ],
)
def test_a_value_that_cannot_be_is_named(key: str, value: str, write: WriteFile) -> None:
    assert f"\n  {key}" in refused(write(f"{key} = {value}\n"))


@pytest.mark.parametrize("value", ["6", "6.0", '"6"', "true", '"6 seconds"', '"-6s"'])
def test_a_duration_without_its_unit_is_refused(value: str, write: WriteFile) -> None:
    message = refused(write(f"[transactions]\ntimeout = {value}\n"))
    assert "transactions.timeout: write a duration with its unit" in message


MAY_BE_NOTHING = {"job.batch_interval"}
DURATIONS = [
    f"{section}.{name}"
    for section, model in Settings.model_fields.items()
    for name, field in model.annotation.model_fields.items()  # type: ignore[union-attr]  # sections are models
    if set(getattr(Milliseconds, "__metadata__", ())) <= set(field.metadata)
]


def test_the_durations_are_found() -> None:
    assert len(DURATIONS) == 17
    assert set(DURATIONS) > MAY_BE_NOTHING


@pytest.mark.parametrize("key", sorted(set(DURATIONS) - MAY_BE_NOTHING))
def test_a_duration_of_nothing_is_refused(key: str, write: WriteFile) -> None:
    assert f"{key}: Input should be greater than 0" in refused(write(f'{key} = "0s"\n'))


def test_batches_may_follow_one_another_but_not_lie_far_apart(write: WriteFile) -> None:
    assert "job.batch_interval" in refused(write('job.batch_interval = "11s"\n'))


@pytest.mark.parametrize("key", ["timeout", "check_interval"])
@pytest.mark.parametrize("length", ["72h", "4d"])
def test_nothing_may_last_as_long_as_the_age_limit(key: str, length: str, write: WriteFile) -> None:
    message = refused(write(f'[transactions]\n{key} = "{length}"\n'))
    assert f"transactions.{key} must be shorter than transactions.age_limit" in message


def test_a_short_age_limit_contradicts_the_defaults(write: WriteFile) -> None:
    assert "transactions.timeout must be shorter" in refused(write('[transactions]\nage_limit = "6s"\n'))


@pytest.mark.parametrize("length", ["2h", "3h"])
def test_asking_may_not_last_as_long_as_the_wait_for_an_answer(length: str, write: WriteFile) -> None:
    message = refused(write(f'[checks]\nask_timeout = "{length}"\n'))
    assert "checks.ask_timeout must be shorter than transactions.check_answer_ttl" in message


@pytest.mark.parametrize("size", [65, 100, 4095, 16_383])
def test_a_segment_size_is_a_power_of_two(size: int, write: WriteFile) -> None:
    message = refused(write(f"[transactions]\nsegment_size = {size}\n"))
    assert "transactions.segment_size must be a power of two" in message


@pytest.mark.parametrize("size", ["1 Gig", "-1", "many"])
def test_what_is_not_a_size_is_shown_what_is(size: str, write: WriteFile) -> None:
    message = refused(write(f'[job]\nmax_bytes_per_trigger = "{size}"\n'))
    assert f'job.max_bytes_per_trigger: \'{size}\' is not a size: write bytes, or "64 MiB", "1 GB"' in message


@pytest.mark.parametrize("size", [64, 128, 16_384])
def test_powers_of_two_are_taken(size: int, write: WriteFile) -> None:
    assert load(write(f"[transactions]\nsegment_size = {size}\n")).transactions.segment_size == size


def test_hosts_patterns_and_networks_are_taken(write: WriteFile) -> None:
    hosts = ["shop", "*.shops.internal", "10.0.0.0/8", "10.0.0.7", "2001:db8::/32"]
    assert load(write(f"[checks]\nallowed_hosts = {hosts}\n")).checks.allowed_hosts == hosts


def test_a_key_is_never_shown(write: WriteFile) -> None:
    file = write('[checks.keys]\norders = "0123456789abcdef"\n')
    assert load(file).checks.keys["orders"].get_secret_value() == "0123456789abcdef"
    assert "0123456789abcdef" not in repr(load(file))
    assert "0123456789abcdef" not in str(origins(file))


def test_the_key_of_a_certificate_needs_one(write: WriteFile) -> None:
    assert "checks.tls_key needs checks.tls_certificate" in refused(write('[checks]\ntls_key = "key.pem"\n'))


def test_a_zero_for_no_checks_at_all_is_lawful(write: WriteFile) -> None:
    assert load(write("[transactions]\ncheck_max = 0\n")).transactions.check_max == 0


def test_the_file_goes_before_the_default(write: WriteFile) -> None:
    file = write('[transactions]\ntimeout = "10min"\n[checks.endpoints]\norders = ["http://one:8080/checks"]\n')
    settings = load(file)
    assert settings.transactions.timeout == 600_000
    assert settings.checks.endpoints == {"orders": [HttpUrl("http://one:8080/checks")]}
    assert settings.kafka == Settings().kafka


def test_the_environment_goes_before_the_file(write: WriteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write('[transactions]\ntimeout = "10s"\ncheck_max = 3\n[kafka.client_options]\na = 1\nb = 2\n')
    monkeypatch.setenv("CHECKBACK_TRANSACTIONS__TIMEOUT", "20s")
    monkeypatch.setenv("CHECKBACK_JOB__STATE_PARTITIONS", "7")
    monkeypatch.setenv("CHECKBACK_CHECKS__IN_JOB", "false")
    monkeypatch.setenv("CHECKBACK_CHECKS__ENDPOINTS", '{"orders": ["http://one:8080/checks"]}')
    monkeypatch.setenv("CHECKBACK_HTTP__TOKEN", "0123456789abcdef")
    settings = load(file)
    assert settings.http.token.get_secret_value() == "0123456789abcdef"
    assert settings.transactions.timeout == 20_000
    assert settings.transactions.check_max == 3
    assert settings.job.state_partitions == 7
    assert settings.checks.in_job is False
    assert settings.checks.endpoints == {"orders": [HttpUrl("http://one:8080/checks")]}
    assert settings.kafka.client_options == {"a": 1, "b": 2}


def test_every_section_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECKBACK_HTTP__PORT", "9000")
    assert load().http.port == 9_000
    for section in Settings.model_fields:
        with monkeypatch.context() as context:
            context.setenv(f"CHECKBACK_{section.upper()}__NO_SUCH", "1")
            with pytest.raises(ConfigurationError, match=f"{section}.no_such"):
                load()


@pytest.mark.parametrize("address", ["me:hunter2@kafka-1:9092", "kafka-1:9092,me:hunter2@kafka-2:9092"])
def test_a_password_before_an_address_is_refused_and_not_repeated(write: WriteFile, address: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        load(write(f'[kafka]\nbootstrap_servers = "{address}"\n'))
    assert "hunter2" not in str(error.value)
    assert "user and password belong in kafka.security" in str(error.value)


def test_a_whole_section_may_stand_in_the_environment(write: WriteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECKBACK_JOB", '{"name": "nightly", "state_partitions": 3}')
    settings = load(write('[job]\nname = "daily"\n[http]\nport = 9000\n'))
    assert (settings.job.name, settings.job.state_partitions, settings.http.port) == ("nightly", 3, 9_000)


def test_origins_say_where_each_value_came_from(write: WriteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write('[transactions]\ntimeout = "10s"\ncheck_interval = "40s"\n[checks.endpoints]\norders = []\n')
    monkeypatch.setenv("CHECKBACK_TRANSACTIONS__TIMEOUT", "20s")
    said = found(file)
    assert said["transactions.timeout"] == ("20s", SettingOrigin.ENVIRONMENT)
    assert said["transactions.check_interval"] == ("40s", SettingOrigin.FILE)
    assert said["transactions.age_limit"] == ("3d", SettingOrigin.DEFAULT)
    assert said["checks.endpoints"] == ({"orders": []}, SettingOrigin.FILE)
    assert [key for key, (_, origin) in said.items() if origin is not SettingOrigin.DEFAULT] == [
        "transactions.timeout",
        "transactions.check_interval",
        "checks.endpoints",
    ]


def test_a_value_set_to_its_default_still_came_from_the_file(write: WriteFile) -> None:
    assert found(write('[transactions]\ntimeout = "6s"\n'))["transactions.timeout"] == ("6s", SettingOrigin.FILE)


def test_origins_stand_in_the_order_of_the_default_file() -> None:
    listed = tomllib.loads(DEFAULT_FILE.read_text(encoding="utf-8"))

    def keys(table: dict[str, Any], prefix: str = "") -> list[str]:
        inner = {
            key: keys(value, f"{prefix}{key}.") for key, value in table.items() if isinstance(value, dict) and value
        }
        return [one for key in table for one in inner.get(key, [f"{prefix}{key}"])]

    assert list(found()) == keys(listed)
    assert {origin for _, origin in found().values()} == {SettingOrigin.DEFAULT}


def test_origins_refuse_what_load_refuses(write: WriteFile) -> None:
    with pytest.raises(ConfigurationError, match=r"job\.nam: unknown key \(did you mean name\?\)"):
        origins(write('[job]\nnam = "x"\n'))


@pytest.mark.parametrize("variable", ["CHECKBACK_KAFKA_TOPIC_PREFIX", "CHECKBACK_KAFAK__TOPIC_PREFIX", "CHECKBACK_X"])
def test_an_unknown_variable_is_refused(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "x.")
    message = refused()
    assert f"Unknown environment variable {variable}" in message
    assert all(section in message for section in Settings.model_fields)


def test_an_unknown_key_in_a_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECKBACK_KAFKA__TOPIC_PREFFIX", "x.")
    assert "kafka.topic_preffix: unknown key (did you mean topic_prefix?)" in refused()


def test_a_wrong_type_in_a_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECKBACK_JOB__STATE_PARTITIONS", "many")
    assert "job.state_partitions: " in refused()


def test_a_variable_that_must_be_json_and_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECKBACK_CHECKS", "{nothing")
    assert "Environment: " in refused()


def test_the_file_may_be_named_by_a_variable(write: WriteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECKBACK_CONFIG", str(write('[job]\nname = "named"\n')))
    assert load().job.name == "named"
    assert found()["job.name"] == ("named", SettingOrigin.FILE)


def test_a_file_given_goes_before_the_named_one(
    write: WriteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKBACK_CONFIG", str(tmp_path / "not there.toml"))
    assert load(write('[job]\nname = "given"\n')).job.name == "given"


@pytest.mark.parametrize("by_variable", [False, True])
def test_a_missing_file_is_named(by_variable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001  (pytest gives it by name)
    missing = tmp_path / "missing.toml"
    if by_variable:
        monkeypatch.setenv("CHECKBACK_CONFIG", str(missing))
    message = refused(None if by_variable else missing)
    assert f"Cannot read the settings file {missing}: No such file or directory" in message


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert f"Cannot read the settings file {tmp_path}" in refused(tmp_path)


def test_a_file_that_is_not_toml_is_named(write: WriteFile) -> None:
    file = write("[kafka\n")
    assert f"{file} is not TOML: " in refused(file)


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_bytes('[job]\nname = "größe"\n'.encode("latin-1"))
    assert f"{file} is not TOML: " in refused(file)


def test_what_is_dumped_is_read_back() -> None:
    settings = Settings.model_validate({"transactions": {"timeout": "90s"}, "checks": {"endpoint_ttl": "1500ms"}})
    assert Settings.model_validate(settings.model_dump(mode="json")) == settings


def test_what_a_batch_run_again_reads_cannot_be_changed(write: WriteFile) -> None:
    message = refused(write('[kafka.source_options]\n"isolation.level" = "read_uncommitted"\n'))
    assert "kafka.source_options must not set isolation.level" in message


@pytest.mark.parametrize("option", ["spark.sql.streaming.stateStore.providerClass", "spark.sql.adaptive.enabled"])
def test_what_the_state_rests_on_cannot_be_overridden(option: str, write: WriteFile) -> None:
    message = refused(write(f'[job.spark_options]\n"{option}" = "x"\n'))
    assert f"job.spark_options must not set {option}" in message


@pytest.mark.parametrize("option", ["transactional.id", "isolation.level", "group.id", "enable.idempotence"])
def test_the_sinks_own_options_cannot_be_overridden(option: str, write: WriteFile) -> None:
    message = refused(write(f'[kafka.sink_options]\n"{option}" = "x"\n'))
    assert f"kafka.sink_options must not set {option}" in message
