"""Nodes in this process can do what the table of faults in the docs says they can, and no more."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.testing import Cluster, Fault, UnsupportedFault
from rookery.testing.chaos import Chaos
from tests.unit.testing import fault_table

MODES = ("in memory", "data")
CASES = [(mode, name, *row) for mode in MODES for name, row in fault_table.read(mode).items()]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Cluster]]:
    folder: Path = tmp_path_factory.mktemp("data")
    with (
        Cluster(nodes=3, config=fault_table.OPTIONS) as in_memory,
        Cluster(nodes=3, config=fault_table.OPTIONS, data=folder) as on_disk,
    ):
        for cluster in (in_memory, on_disk):
            cluster.create_topic(fault_table.TOPIC)
        yield {"in memory": in_memory, "data": on_disk}


def test_the_table_has_every_fault() -> None:
    methods = inspect.get_annotations
    faults = {
        name
        for name, method in inspect.getmembers(Cluster, inspect.isfunction)
        if not name.startswith("_") and methods(method).get("return") in (Fault, Chaos)
    }
    assert set(fault_table.read("in memory")) == {*faults, "restart"}
    assert set(fault_table.SHOWN) == faults - {"chaos"}


@pytest.mark.parametrize(("mode", "name", "call", "can"), CASES)
def test_each_fault_does_what_it_says_and_is_undone(
    clusters: dict[str, Cluster], mode: str, name: str, call: str, can: bool
) -> None:
    if can:
        fault_table.check(clusters[mode], name, call)
    else:
        with pytest.raises(UnsupportedFault, match="use "):
            fault_table.inject(clusters[mode], call)
