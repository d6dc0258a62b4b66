"""Apache Kafka's command line tools, all run by one JVM."""

import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests import needs

SOURCES = Path(__file__).parent
BUILT = SOURCES.parents[2] / "build" / "kafka-tools"
FETCH_S = 300
TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
}


def table(printed: str) -> list[dict[str, str]]:
    """The rows of a table of a tool, by the names of its columns."""
    head, *rows = [line.split() for line in printed.splitlines() if line.strip()]
    return [dict(zip(head, row, strict=False)) for row in rows]


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Tools:
    """One JVM that runs tools until it is closed."""

    def __init__(self, *options: str) -> None:
        """`options` are Java's."""
        java = needs.command("java", "Apache Kafka's tools are peers")
        folder = _compiled(needs.command("mvn", "it fetches Kafka's tools"), needs.command("javac", "part of a JDK"))
        words = [java, "-XX:TieredStopAtLevel=1", "-Xmx256m", *options, "-cp", f"{folder}:{folder}/lib/*", "Tools"]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def close(self) -> None:
        self._process.communicate(timeout=30)

    def call(self, tool: str, *words: str, text: str = "") -> Done:
        """Run one of the tools with `text` as its standard input."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the JVM was started without pipes")
        call = [text, TOOLS[tool], *words]
        self._process.stdin.write(" ".join(word.encode().hex() or "-" for word in call) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return Done(answer["code"], answer["out"], answer["err"])

    def run(self, tool: str, *words: str, text: str = "") -> str:
        """What the tool prints, which must not have failed."""
        done = self.call(tool, *words, text=text)
        if done.code != 0:
            raise AssertionError(f"{tool} {' '.join(words)} ended with {done.code}:\n{done.out}\n{done.err}")
        return done.out


def _compiled(mvn: str, javac: str) -> Path:
    """The tools' jars and the class that runs them, made once per content under build/."""
    sources = [SOURCES / "pom.xml", SOURCES / "Tools.java"]
    folder = BUILT / hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    if not folder.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILT) as scratch:
            made = Path(scratch) / "made"
            fetch = ["dependency:copy-dependencies", f"-DoutputDirectory={made}/lib"]
            _run([mvn, "-B", "-q", "-f", str(sources[0]), *fetch])
            _run([javac, "-d", str(made), "-cp", f"{made}/lib/*", str(sources[1])])
            os.replace(made, folder)
    return folder


def _run(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=FETCH_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
