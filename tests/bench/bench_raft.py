"""The metadata quorum: commits per second, time to a new leader, replay. Three real voters on this machine."""

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from rookery.controller.raft.batches import data_batch
from rookery.controller.raft.messages import Batch
from rookery.controller.raft.ready import LogWrite, QuorumState
from rookery.controller.raft.storage import RaftStorage
from rookery.controller.raft.voters import VoterSet
from rookery.core.disk import FileDisk
from rookery.core.log import LogConfig
from rookery.core.metadata_log import SnapshotId
from tests.cluster.quorum import FAST, Quorum, VoterProcess, eventually, quorum

ROUNDS = 10
REPLAYED = 1_000_000
KAFKA_TIMES = {
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.election.backoff.max.ms": "1000",
    "controller.quorum.request.timeout.ms": "2000",
}


def cpu_s(voter: VoterProcess) -> float:
    if voter.process is None:
        return 0.0
    fields = Path(f"/proc/{voter.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def syncs_per_second(folder: Path) -> float:
    """What the disk allows one file that is written 4 KiB at a time and synced."""
    with (folder / "sync").open("wb", buffering=0) as file:
        begun, count = time.monotonic(), 0
        while time.monotonic() - begun < 1.0:
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            count += 1
    return count / (time.monotonic() - begun)


def commits(folder: Path) -> None:
    print(f"fdatasync of 4 KiB on this disk: {syncs_per_second(folder):8.0f} /s")
    print(f"{'records/batch':>13} {'outstanding':>11} {'records/s':>10} {'batches/s':>10} {'leader µs/record':>17}")
    with quorum(folder, 3) as voters:
        leader = voters.leader()
        for width, outstanding, batches in ((1, 1, 500), (1, 100, 10_000), (10, 100, 10_000), (100, 100, 2_000)):
            shape = {"batches": batches, "width": width, "size": 100, "outstanding": outstanding}
            before = cpu_s(leader)
            answer = leader.ask(within_s=120, do="load", shape=json.dumps(shape))
            if answer is None:
                raise RuntimeError("the leader did not finish; is the machine very busy?")
            seconds, records = answer["seconds"], batches * width
            cost = (cpu_s(leader) - before) / records * 1e6
            print(f"{width:13} {outstanding:11} {records / seconds:10.0f} {batches / seconds:10.0f} {cost:17.1f}")


def failovers(folder: Path, options: dict[str, str], end: Callable[[VoterProcess], object]) -> list[float]:
    """Seconds from the leader's end until a successor has committed a record."""
    taken = []
    with quorum(folder, 3, options) as voters:
        voters.propose(3)
        for _ in range(ROUNDS):
            victim = voters.leader()
            eventually("all follow", partial(_all_follow, voters, victim.node_id))
            begun = time.monotonic()
            end(victim)
            voters.propose(1)
            taken.append(time.monotonic() - begun)
            _revive(victim)
    return taken


def _all_follow(voters: Quorum, leader_id: int) -> bool:
    return all((voter.look() or {}).get("leader") == leader_id for voter in voters.voters)


def _revive(victim: VoterProcess) -> None:
    if victim.paused:
        victim.resume()
        return
    if victim.process is not None:
        victim.process.wait(20)
        victim.hang_up()
    victim.start()


def _kill(victim: VoterProcess) -> None:
    victim.signal(signal.SIGKILL)
    victim.hang_up()


def _stop(victim: VoterProcess) -> None:
    victim.signal(signal.SIGTERM)


def elections(folder: Path) -> None:
    print(f"\ntime to the first commit of the next leader, {ROUNDS} rounds, s")
    for timing, options in (("Kafka's timeouts", KAFKA_TIMES), ("short timeouts", FAST)):
        for name, end in (("kill -9", _kill), ("clean stop", _stop), ("SIGSTOP", VoterProcess.pause)):
            place = folder / f"{timing[:5]}-{name.replace(' ', '')}"
            place.mkdir()
            taken = failovers(place, options, end)
            values = " ".join(f"{value:.2f}" for value in taken)
            print(f"{timing:17} {name:10} median {median(taken):.2f}  max {max(taken):.2f}   {values}", flush=True)


def prepare(folder: Path, *, snapshot: bool) -> None:
    """A log of a million records of 100 bytes, 100 to a batch; or a snapshot of them."""
    disk = FileDisk()
    disk.mkdir(str(folder))
    storage = RaftStorage.open(disk, str(folder), LogConfig(), 1)
    storage.save_state(QuorumState(epoch=1))
    values = [b"x" * 100] * 100
    for start in range(0, REPLAYED, 10_000):
        batches = (Batch(at, 1, count=100, payload=data_batch(values, 1)) for at in range(start, start + 10_000, 100))
        storage.write(LogWrite(1, tuple(batches)), 1, 1)
    if snapshot:
        storage.snapshots.write(SnapshotId(REPLAYED, 1), VoterSet(), (b"x" * 100 for _ in range(REPLAYED)), 1)
    storage.close()


def _has_all(voter: VoterProcess) -> bool:
    return (voter.ask(do="count") or {}).get("count") == REPLAYED


def replay(folder: Path) -> None:
    print(f"\nstart of a voter that has {REPLAYED:,} records of 100 bytes on disk")
    for name, snapshot in (("from the log", False), ("from a snapshot", True)):
        place = folder / name.replace(" ", "-")
        place.mkdir()
        voters = Quorum(place, 1)
        voters.configure()
        [voter] = voters.voters
        prepare(voter.folder / "data", snapshot=snapshot)
        begun = time.monotonic()
        voter.start()
        try:
            eventually("all delivered", partial(_has_all, voter), 300)
            print(f"{name:16} {time.monotonic() - begun:6.2f} s, {cpu_s(voter):6.2f} s of CPU, process start included")
        finally:
            voters.close()


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="bench-raft-"))
    try:
        for part in (commits, elections, replay):
            place = folder / part.__name__
            place.mkdir()
            part(place)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
