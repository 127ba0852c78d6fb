"""The four wheels, and environments that have them: made once."""

from pathlib import Path

import pytest

from tests.packaging.environments import Environment, build_wheels


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    return build_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="session")
def application(wheels: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment.make(tmp_path_factory.mktemp("application"), wheels[0])


@pytest.fixture(scope="session")
def job(wheels: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment.make(tmp_path_factory.mktemp("job"), *wheels[:2], others=True)


@pytest.fixture(scope="session")
def lab(wheels: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment.make(tmp_path_factory.mktemp("lab"), *wheels, others=True)
