"""`rookery doctor`: looks at a cluster as this machine sees it and says what is wrong."""

import argparse
import asyncio
import io
import json
import re
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

from rookery.client.cli.common import access_of, add_bootstrap, add_output, client_options, painted, show
from rookery.client.cli.examining import Examination
from rookery.client.diagnosis import ClusterFacts, Diagnosis, Severity, diagnose
from rookery.client.errors import CliError, ConfigurationError, UsageError
from rookery.core.config.options import ConfigError
from rookery.core.net.client_properties import security_of

SECRET = re.compile(r"password|passphrase|secret|token|jaas|credential|\.key$|certificate\.chain", re.IGNORECASE)
REDACTED = "(redacted)"
COLOUR = {Severity.NOTE: "green", Severity.WARNING: "yellow", Severity.ERROR: "red"}
EXIT = {Severity.NOTE: 0, Severity.WARNING: 1, Severity.ERROR: 3}


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="find what is wrong with a cluster",
        description="Exit code: 0 all is well, 1 there are warnings, 3 something is broken.",
    )
    parser.add_argument("--bundle", type=Path, metavar="FILE.tar.gz", help="write what was found, for a bug report")
    add_bootstrap(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    options = client_options(arguments)
    try:
        examination = Examination(options, security_of(arguments.properties), access_of(arguments))
        facts, extra = asyncio.run(examination.run())
    except ConfigError as error:
        raise UsageError(f"--command-config: {error}") from error
    except (ValueError, ConfigurationError) as error:
        raise UsageError(f"--bootstrap: {error}") from error
    found = diagnose(facts)
    rows = [{"severity": each.severity.name.lower(), "what": each.what, "todo": each.todo} for each in found]
    if arguments.output == "table":
        print(report(facts, found))
    else:
        show(rows, ("severity", "what", "todo"), arguments.output)
    if arguments.bundle is not None:
        try:
            write_bundle(arguments.bundle, {"diagnoses.json": rows, **extra})
        except OSError as error:
            raise CliError(f"--bundle {arguments.bundle}: {error.strerror}") from error
        print(f"wrote {arguments.bundle}; values of secret options are not in it", file=sys.stderr)
    return EXIT[max((each.severity for each in found), default=Severity.NOTE)]


def report(facts: ClusterFacts, found: list[Diagnosis]) -> str:
    lines = []
    if facts.cluster is not None:
        partitions = sum(len(topic.partitions) for topic in facts.topics)
        lines.append(
            f"cluster {facts.cluster.cluster_id}: {len(facts.cluster.brokers)} broker(s), "
            f"{len(facts.topics)} topic(s), {partitions} partition(s), {len(facts.groups)} group(s)"
        )
    for each in found:
        lines.append(f"{painted(f'{each.severity.name:<7}', COLOUR[each.severity])}  {each.what}")
        if each.todo:
            lines.append(f"{'':<9}{each.todo}")
    if all(each.severity == Severity.NOTE for each in found):
        lines.append(painted("all is well", "green"))
    return "\n".join(lines)


def redacted(content: Any) -> Any:
    """The same without what may be secret, whatever a broker says of it."""
    if isinstance(content, dict):
        return {
            name: REDACTED if SECRET.search(str(name)) and each is not None else redacted(each)
            for name, each in content.items()
        }
    if isinstance(content, list | tuple):
        return [redacted(each) for each in content]
    return content


def write_bundle(path: Path, files: dict[str, Any]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            data = json.dumps(redacted(content), indent=1, default=str).encode()
            entry = tarfile.TarInfo(f"rookery-doctor/{name}")
            entry.size, entry.mtime = len(data), int(time.time())
            archive.addfile(entry, io.BytesIO(data))
