"""Who may import whom, and what pure modules must not touch."""

from pathlib import Path

import pytest

from tests.tidy.source import files, imports, part

MAY_IMPORT = {
    "core": {"core", "proto"},
    "proto": {"proto"},
    "controller": {"controller", "core", "proto"},
    "broker": {"broker", "core", "proto"},
    "client": {"client", "core", "proto"},
    "testing": {"testing", "broker", "client", "core", "proto"},
}
COMPOSITION_ROOTS = {"broker/node"}
"""Files or folders that put both roles together."""

PURE = (
    "core/wire",
    "core/metadata",
    "core/security",
    "core/errors.py",
    "core/net/fetch_session.py",
    "core/types.py",
    "controller/state",
    "controller/controller.py",
    "controller/sessions.py",
    "controller/table.py",
    "controller/upkeep.py",
    "controller/writer.py",
    *(
        f"controller/raft/{name}.py"
        for name in (
            "core", "describe", "election", "errors", "following", "leading", "log", "membership",
            "messages", "progress", "ready", "replica", "roles", "settings", "voters",
        )
    ),
    "client/aborted.py",
    "client/consumer/assignors",
    *(
        f"client/consumer/{name}.py"
        for name in (
            "classic", "decoding", "deserializing", "fetches", "kip848", "membership", "ordering",
            "partition", "reading", "session", "subscription",
        )
    ),
    "broker/replication/follower_session.py",
    "broker/replication/truncation.py",
    "broker/log/compaction.py",
    "broker/log/folders.py",
    "broker/log/producer_snapshot.py",
    "broker/log/producer_state.py",
    "broker/log/retention.py",
    "broker/log/transaction_index.py",
    "broker/replication/replica_state.py",
    "broker/quotas",
    "broker/server/authentication.py",
    "broker/coordination/step.py",
    "broker/groups/committing.py",
    "broker/groups/deleting.py",
    "broker/groups/group.py",
    "broker/groups/group_state.py",
    "broker/groups/joining.py",
    "broker/groups/lag.py",
    "broker/groups/listing.py",
    "broker/groups/members.py",
    "broker/groups/offsets.py",
    "broker/groups/records.py",
    "broker/groups/state.py",
    *(
        f"client/producer/{name}.py"
        for name in ("batch", "encoding", "options", "partition_queue", "transaction_state")
    ),
    "client/types.py",
)
IMPURE = {
    "asyncio",
    "socket",
    "time",
    "random",
    "threading",
    "subprocess",
    "os",
    "uvloop",
    "selectors",
    "secrets",
}


def below(path: Path, places: tuple[str, ...] | set[str]) -> bool:
    return any(str(path) == place or str(path).startswith((f"{place}/", f"{place}.")) for place in places)


@pytest.mark.parametrize("folder", list(MAY_IMPORT))
def test_imports_go_one_way(folder: str) -> None:
    wrong = [
        f"{path} imports {module}"
        for path in files(folder)
        for module in imports(path)
        if part(module)
        and part(module) not in MAY_IMPORT[folder]
        and not (below(path, COMPOSITION_ROOTS) and part(module) == "controller")
    ]
    assert wrong == []


def test_pure_modules_open_no_socket_file_clock_or_dice() -> None:
    wrong = [
        f"{path} imports {module}"
        for path in files()
        if below(path, PURE)
        for module in imports(path)
        if module.split(".")[0] in IMPURE
    ]
    assert wrong == []


def test_core_is_for_what_the_programs_share() -> None:
    """`core/wire` and `core/metadata` know nothing of the other packages of `core` but values and errors."""
    allowed = ("rookery.core.wire", "rookery.core.metadata", "rookery.core.errors", "rookery.core.types")
    wrong = [
        f"{path} imports {module}"
        for path in files()
        if below(path, ("core/wire", "core/metadata"))
        for module in imports(path)
        if module.startswith("rookery.core.") and not module.startswith(allowed)
    ]
    assert wrong == []


def test_only_tests_use_what_is_made_for_tests() -> None:
    wrong = [
        f"{path} imports {module}"
        for path in files()
        if not below(path, ("core/testing", "testing"))
        for module in imports(path)
        if module.startswith("rookery.core.testing")
    ]
    assert wrong == []


def test_unit_tests_that_need_spark_are_in_their_folder() -> None:
    """The unit suite also runs in the image, which has no Spark, without that folder."""
    needing = [
        path
        for path in files("tests/unit")
        if any(name.split(".")[0] == "pyspark" or name.startswith("rookery.client.spark") for name in imports(path))
    ]
    assert needing
    assert {path for path in needing if not path.is_relative_to("tests/unit/client/spark")} == set()
