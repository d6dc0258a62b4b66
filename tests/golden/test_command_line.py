"""What the command line prints: `tests/golden/cli/help.txt` has every command, verb and option, `tables.txt` what is
printed of given facts, in every form.

After an intended change, `REWRITE_GOLDEN=1 pytest tests/golden/test_command_line.py` writes them anew. The help is
written down from the parsers: releases of Python set it in different ways.
"""

import argparse
import io
import json
import os
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from rookery.client.admin.types import GroupDescription, MemberDescription, RecordDescription
from rookery.client.cli import doctor, group, printing
from rookery.client.cli.__main__ import COMMANDS, build_parser, main
from rookery.client.cli.topic import partition_rows
from rookery.client.core_metrics import COLUMNS as METRICS
from rookery.client.core_metrics import Look, read_samples, rows
from rookery.client.diagnosis import diagnose
from rookery.client.group_report import GroupFacts, PartitionFacts, explain
from rookery.client.load import COLUMNS as LOAD
from rookery.client.load import Measured
from rookery.client.record_trace import COLUMNS as STEPS
from rookery.client.record_trace import TraceFacts, steps
from rookery.client.spark.pipelines.runs import Run, Runs, runs_folder
from rookery.client.types import TopicPartition
from rookery.core.net.cluster import PartitionView, TopicView
from tests.tidy.cli_page import below
from tests.unit.client.test_diagnosis import FAILED, healthy, topic

FOLDER = Path(__file__).parent / "cli"
PLACES = [TopicPartition("orders", number) for number in (0, 1)]


def compare(name: str, actual: str) -> None:
    path = FOLDER / name
    if os.environ.get("REWRITE_GOLDEN"):
        path.write_text(actual)
    else:
        assert actual == path.read_text(), f"{name} changed; REWRITE_GOLDEN=1 writes it anew, if that is intended"


def described(words: str, about: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"{words}: {about}"
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
            continue
        names = ", ".join(action.option_strings) or str(action.metavar or action.dest).upper()
        given = action.metavar if action.option_strings and action.nargs != 0 else ""
        if action.choices is not None:
            given = "|".join(map(str, action.choices))
        needed = " (needed)" if action.option_strings and action.required else ""
        text = (action.help or "").replace("%%", "%")
        yield f"    {names} {given or ''}{needed}".rstrip() + (f": {text}" if text else "")


def test_help() -> None:
    lines: list[str] = []
    for command, (_, about) in COMMANDS.items():
        parser = next(each for name, _, each in below(build_parser(command)) if name == command)
        lines += described(f"rookery {command}", about, parser)
        for verb, text, each in below(parser):
            lines += described(f"rookery {command} {verb}", text, each)
    compare("help.txt", "\n".join([*lines, ""]))


def printed(rows: list[dict[str, object]], columns: tuple[str, ...], output: str = "table") -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        printing.show(rows, columns, output)
    return out.getvalue()


def tables() -> Iterator[tuple[str, str]]:
    sample: list[dict[str, object]] = [
        {"topic": "orders", "partition": 0, "isr": [1, 2], "note": 'a "b", c'},
        {"topic": "clicks", "partition": 10, "isr": [], "note": "é"},
    ]
    for output in printing.OUTPUTS:
        yield f"rows -o {output}", printed(sample, ("topic", "partition", "isr", "note"), output)
        yield f"no rows -o {output}", printed([], ("topic", "partition"), output)
    views = {n: PartitionView(n, n - 1, 4, (1, 2), (1,), ()) for n in (0, 1)}
    shown = partition_rows(TopicView("orders", UUID(int=1), False, views))
    yield "topic describe", printed(shown, ("partition", "leader", "epoch", "replicas", "isr", "osr"))
    member = MemberDescription("m-1", "worker", "/10.0.0.1", None, PLACES)
    billing = GroupDescription("billing", "Stable", "classic", "range", 1, [member])
    facts = GroupFacts(billing, [PartitionFacts(PLACES[0], 0, 0, 90, 1), PartitionFacts(PLACES[1], 85, 0, 90, 1)])
    yield "group explain", group.paragraph(facts, explain(facts))
    read = replace(facts, partitions=[PartitionFacts(PLACES[0], 90, 0, 90, 1)])
    yield "group explain, nothing waits", group.paragraph(read, explain(read))
    well = healthy()
    yield "doctor, all is well", doctor.report(well, diagnose(well))
    ill = replace(well, topics=[topic(1, (1,))], log_dirs={2: [FAILED]}, open_files_max=256)
    yield "doctor", doctor.report(ill, diagnose(ill))
    record = RecordDescription(5, 1_700_000_000_000, False, 3, 4, 6, -1, False, False, b"k", 10)
    trace = TraceFacts(PLACES[0], 5, 0, 9, 9, 1, 3, (1, 2, 3), (1, 2), record, {3: 6}, {"billing": 6})
    yield "trace", printed([step.row() for step in steps(trace)], STEPS)
    yield "bench", printed([Measured("produce", 1000, 2_000_000, 2.0, [1.0, 3.0]).row()], LOAD)
    looks = [Look(at, read_samples(f"kafka_server_brokertopicmetrics_messagesin_total {at * 7}")) for at in (0, 1)]
    yield "cluster watch --metrics", printed(rows({1: looks[0]}, {1: looks[1]}), METRICS)


def test_tables() -> None:
    compare("tables.txt", "\n".join(f"--- {name}\n{text.rstrip()}" for name, text in tables()) + "\n")


# --- JSON ---------------------------------------------------------------------------------------------------

SCHEMAS = FOLDER / "schemas.json"
"""By verb: the names in its JSON, and the types of their values; tests/interop/test_command_line.py compares them with
what Rookery and Apache Kafka answer."""


def test_the_json_of_every_verb_is_written_down() -> None:
    prints = set()
    for command in COMMANDS:
        parser = next(each for name, _, each in below(build_parser(command)) if name == command)
        for words, each in [(f"{command} {verb}", each) for verb, _, each in below(parser)] or [(command, parser)]:
            if any("--output" in action.option_strings for action in each._actions):
                prints.add(words)
    assert prints == set(json.loads(SCHEMAS.read_text()))


def test_the_json_of_verbs_that_ask_no_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    runs = Runs(runs_folder(os.environ))
    with runs.claimed(Run(name="lake", file="lake.toml", pid=os.getpid())):
        main(["context", "add", "here", "--bootstrap", "h:1"])
        for words in (["context", "list"], ["pipeline", "list"], ["pipeline", "status", "lake"]):
            capsys.readouterr()
            assert main([*words, "-o", "json"]) == 0
            (row,) = json.loads(capsys.readouterr().out)
            known = json.loads(SCHEMAS.read_text())
            found = {name: [type(value).__name__] for name, value in row.items()}
            if os.environ.get("REWRITE_GOLDEN"):
                known[" ".join(words[:2])] = found
                SCHEMAS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
            assert known[" ".join(words[:2])] == found, words


# --- a terminal ---------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_and_progress_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert printing.painted("bad", "red", Terminal()) == "\x1b[31mbad\x1b[0m"
    assert printing.painted("bad", "red", io.StringIO()) == "bad"
    monkeypatch.setenv("NO_COLOR", "1")
    assert printing.painted("bad", "red", Terminal()) == "bad"
    for out, wanted in ((Terminal(), "\rcopied 10\rcopied 2 \r        \r"), (io.StringIO(), "")):
        progress = printing.Progress(out)
        progress.report("copied 10")
        progress.report("copied 2")
        progress.end()
        assert out.getvalue() == wanted
