"""`rookery quorum` against real voters."""

import json
from pathlib import Path

import pytest

from rookery.client.cli.__main__ import main
from rookery.core.disk import FileDisk
from rookery.core.ids import id_text
from rookery.core.log.ownership import MetaProperties
from tests.cluster.quorum import Quorum, VoterProcess, eventually, free_ports, quorum


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["quorum", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def directory(voter: VoterProcess) -> str:
    meta = MetaProperties.read(FileDisk(), str(voter.folder / "data"))
    assert meta is not None
    return id_text(meta.directory_id)


def newcomer(voters: Quorum, node_id: int) -> VoterProcess:
    folder = voters.folder / f"voter-{node_id}"
    folder.mkdir()
    voter = VoterProcess(node_id, folder, free_ports(1)[0])
    bootstrap = ",".join(other.endpoint for other in voters.voters)
    voters.write_config(voter, {"controller.quorum.bootstrap.servers": bootstrap})
    voters.voters.append(voter)
    voter.start()
    return voter


@pytest.mark.row(78)
@pytest.mark.invariant("R12", "R13")
def test_people_see_the_quorum_and_change_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with quorum(tmp_path, 3, {"controller.quorum.fetch.timeout.ms": "600000"}) as voters:
        voters.propose(5)
        voters.converge()  # two can elect a leader before the third one listens
        leader = voters.leader()
        follower = next(voter for voter in voters.voters if voter is not leader)
        asked = ("--controllers", f"127.0.0.1:1,{follower.endpoint}")

        code, out, _ = run(capsys, "status", *asked)
        assert code == 0
        assert f"leader {leader.node_id}" in out
        code, out, _ = run(capsys, "status", "-o", "json", *asked)
        rows = {row["node"]: row for row in json.loads(out)}
        assert {row["role"] for row in rows.values()} == {"leader", "voter"}
        assert rows[leader.node_id]["address"] == leader.endpoint
        assert rows[leader.node_id]["directory"] == directory(leader)

        fourth = newcomer(voters, 4)
        caught_up = lambda: (fourth.look() or {}).get("count", 0) >= len(voters.acknowledged)  # noqa: E731
        eventually("the newcomer has the log", caught_up)
        code, out, err = run(capsys, "add-voter", "4", directory(fourth), fourth.endpoint, *asked)
        assert (code, out) == (0, "node 4 votes now\n"), err
        code, out, err = run(capsys, "add-voter", "4", directory(fourth), fourth.endpoint, *asked)
        assert code == 1
        assert "already" in err
        code, out, err = run(capsys, "remove-voter", str(leader.node_id), directory(leader), *asked)
        assert code == 0, err
        leader.stop()
        voters.voters.remove(leader)
        voters.propose(5)
        voters.check()

        code, online, _ = run(capsys, "log", "-o", "jsonl", *asked)
        assert code == 0
        code, offline, _ = run(capsys, "log", "-o", "jsonl", "--data", str(fourth.folder / "data"))
        assert code == 0
        lines = [json.loads(line) for line in online.splitlines()]
        assert lines == [json.loads(line) for line in offline.splitlines()][: len(lines)]
        assert {"LEADER_CHANGE", "VOTERS", "?"} == {line["type"] for line in lines}
        assert [line["offset"] for line in lines] == list(range(len(lines)))


def test_nobody_there_is_explained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = run(capsys, "status", "--controllers", "127.0.0.1:1")
    assert code == 1
    assert "no controller answers" in err
    code, _, err = run(capsys, "log", "--data", str(tmp_path))
    assert code == 4
    assert "holds no metadata log" in err
    code, _, err = run(capsys, "remove-voter", "1", "short", "--controllers", "127.0.0.1:1")
    assert code != 0
