"""docs/cli.md: every command and verb, from the parsers."""

import argparse
from collections.abc import Iterator

from rookery.client import record_format
from rookery.client.cli.__main__ import COMMANDS, build_parser

HEAD = """# The command line

`rookery NOUN VERB`. Every command that needs a cluster takes `--bootstrap` and `--command-config`; without them it
finds one ([operations](operations.md)) and says which. `-o table|json|jsonl|yaml|csv|name` chooses the form of the
output; `name` is the first column, and of a record what `trace` takes. Names and types in JSON stay as they are. What
is said besides (which cluster, questions, progress, failures) goes to standard error. This page is generated:
`make docs`.

Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 unhealthy or not in time, 4 not found, 5 not allowed, 130
interrupted; `doctor` has 1 for warnings. What cannot be undone asks on a terminal and needs `--yes` off it. A wrong
word suggests the nearest one: of commands, options and their values, and of topics, groups and what can be configured.

Everything works against Apache Kafka, too, but `up`, `down` and `node` without a verb, `events`, `cluster watch
--metrics`, `quorum` except `status --bootstrap`, and `metadata`; those say so.

## If you are used to other tools

"""
USED_TO = (
    (
        "`kafka-topics.sh --list`, `rpk topic list`, `kcat -L`",
        "`rookery topic list`",
    ),
    (
        "`kafka-topics.sh --describe --topic t`",
        "`rookery topic describe t`",
    ),
    (
        "`kafka-console-producer.sh --topic t`, `kcat -P -t t`",
        "`rookery produce t`",
    ),
    (
        "`kafka-console-consumer.sh --topic t --from-beginning`, `kcat -C -t t`",
        "`rookery consume t`",
    ),
    (
        "`kafka-console-consumer.sh --topic t --group g`, `rpk topic consume t -g g`, `kcat -G g t`",
        "`rookery consume t --group g --follow`",
    ),
    (
        "`kcat -C -t t -o -5 -e -f '%p %o %k %s\\n'`, `rpk topic consume t -o -5 -f '%p %o %k %v\\n'`",
        "`rookery consume t --from -5 --format '%p %o %k %v\\n'`",
    ),
    (
        "`kcat -P -t t -K :`, `rpk topic produce t -f '%k:%v\\n'`",
        "`rookery produce t --key-separator :`",
    ),
    (
        "`kafka-consumer-groups.sh --describe --group g`, `rpk group describe g`",
        "`rookery group describe g`",
    ),
    (
        "`kafka-consumer-groups.sh --reset-offsets --to-earliest --all-topics --group g --execute`, `rpk"
        " group seek g --to start`",
        "`rookery group reset g --to-earliest --yes`",
    ),
    (
        "`kafka-configs.sh --alter --entity-type topics --entity-name t --add-config k=v`, `rpk topic "
        "alter-config t --set k=v`",
        "`rookery config set topic t k=v`",
    ),
    (
        "`kafka-reassign-partitions.sh --generate ...` and `--execute`",
        "`rookery partition reassign --brokers 1,2,3`",
    ),
    (
        "`kafka-reassign-partitions.sh --execute --throttle 50000000`, `--verify`, `--cancel`, `--list`",
        "`rookery partition reassign --plan f --throttle 50000000`, `verify --plan f`, `cancel`, `status`",
    ),
    (
        "`rpk cluster partitions balance`, `move-status`, `move-cancel`",
        "`rookery partition balance`, `status`, `cancel`",
    ),
    (
        "`kafka-leader-election.sh --election-type preferred --all-topic-partitions`",
        "`rookery partition elect`",
    ),
    (
        "`kafka-transactions.sh list`, `describe`, `abort`",
        "`rookery transaction list`, `describe`, `abort`",
    ),
    ("`kafka-transactions.sh find-hanging`", "`rookery transaction hanging`"),
    (
        "`kafka-acls.sh --add --allow-principal User:a --operation Read --topic t`",
        "`rookery acl create --principal User:a --operation read --resource topic --name t`",
    ),
    (
        "`kafka-configs.sh --alter --entity-type users --entity-name a --add-config 'SCRAM-"
        "SHA-512=[password=...]'`",
        "`rookery user create a`",
    ),
    (
        "`kafka-metadata-quorum.sh describe --status`",
        "`rookery quorum status --bootstrap host:9092`",
    ),
    ("`kafka-topics.sh --alter --topic t --partitions 6`, `rpk topic add-partitions t --num 3`",
     "`rookery topic add-partitions t 6` (the total)"),
    ("`kafka-topics.sh --delete --topic t`, `rpk topic delete t`", "`rookery topic delete t --yes`"),
    ("`kafka-get-offsets.sh --topic t`, `rpk topic describe t -p`, `kcat -Q -t t:0:-1`", "`rookery topic offsets t`"),
    ("`kafka-delete-records.sh --offset-json-file f`, `rpk topic trim-prefix t --offset 100`",
     "`rookery topic trim t --from-file f`, `rookery topic trim t --before 100`"),
    ("`kafka-consumer-groups.sh --list`, `rpk group list`", "`rookery group list`"),
    ("`kafka-consumer-groups.sh --describe --members --group g`", "`rookery group members g`"),
    ("`kafka-consumer-groups.sh --reset-offsets --export --group g`, then `--from-file`",
     "`rookery group export g`, then `rookery group import g FILE`"),
    ("`kafka-dump-log.sh --files 0.log --print-data-log`", "`rookery log dump 0.log --records`"),
    ("`kafka-log-dirs.sh --describe`, `rpk cluster logdirs describe`", "`rookery node describe 1`"),
    ("`kafka-cluster.sh cluster-id`, `unregister --id 3`, `rpk redpanda admin brokers decommission 3`",
     "`rookery cluster describe`, `rookery node drain 3`, `rookery node remove 3`"),
    ("`rpk cluster health --exit-when-healthy`", "`rookery cluster health --wait 60`"),
    ("`kafka-features.sh describe`", "`rookery cluster describe`"),
    ("`kafka-producer-perf-test.sh`, `kafka-consumer-perf-test.sh`, `kafka-e2e-latency.sh`",
     "`rookery bench produce`, `consume`, `e2e`"),
    ("`kafka-configs.sh --alter --entity-type clients --entity-name c --add-config producer_byte_rate=1000`",
     "`rookery quota set --client-id c producer_byte_rate=1000`"),
    ("`rpk profile create`, `use`", "`rookery context add`, `use`"),
)  # fmt: skip
EXAMPLES = {
    "up": "rookery up --nodes 3 --detach",
    "up logs": "rookery up logs 2 --follow",
    "up stop": "rookery up stop 2",
    "up restart": "rookery up restart 2",
    "up reset": "rookery up reset --yes",
    "down": "rookery down",
    "node": "rookery node --config node-1.properties",
    "node list": "rookery node list",
    "node describe": "rookery node describe 2 -o yaml",
    "node drain": "rookery node drain 4 --yes --wait 600",
    "node remove": "rookery node remove 4 --yes",
    "topic create": "rookery topic create orders -p 6 -r 3 --config retention.ms=86400000",
    "topic list": "rookery topic list -o json",
    "topic describe": "rookery topic describe orders",
    "topic delete": "rookery topic delete orders --yes",
    "topic add-partitions": "rookery topic add-partitions orders 12",
    "topic alter": "rookery topic alter orders retention.ms=3600000 --unset segment.bytes",
    "topic trim": "rookery topic trim orders:0,1 --before @2026-05-01T12:00 --yes",
    "topic offsets": "rookery topic offsets orders --at 2026-05-01T12:00",
    "topic copy": "rookery topic copy orders orders-debug --since 2026-05-01T12:00",
    "produce": "echo 'k:v' | rookery produce orders --key-separator :",
    "consume": "rookery consume orders --from @2026-05-01T12:00 --format '%p %o %k %v\\n'",
    "group list": "rookery group list",
    "group describe": "rookery group describe billing",
    "group members": "rookery group members billing",
    "group explain": "rookery group explain billing",
    "group reset": "rookery group reset billing --topic orders --to-earliest --dry-run",
    "group delete": "rookery group delete billing --yes",
    "group delete-offsets": "rookery group delete-offsets billing --topic orders:0 --yes",
    "group export": "rookery group export billing > offsets.json",
    "group import": "rookery group import billing offsets.json --yes",
    "config get": "rookery config get topic orders retention.ms",
    "config diff": "rookery config diff broker 1",
    "config set": "rookery config set topic orders retention.ms=3600000",
    "config append": "rookery config append topic orders cleanup.policy=compact",
    "config subtract": "rookery config subtract topic orders cleanup.policy=compact",
    "config unset": "rookery config unset broker all message.max.bytes",
    "partition list": "rookery partition list --under-replicated",
    "partition reassign": "rookery partition reassign --topic orders --brokers 1,2,3 --dry-run",
    "partition balance": "rookery partition balance --dry-run",
    "partition throttle": "rookery partition throttle 50000000",
    "partition verify": "rookery partition verify --plan plan.json",
    "partition status": "rookery partition status",
    "partition cancel": "rookery partition cancel --yes",
    "partition elect": "rookery partition elect --topic orders",
    "transaction list": "rookery transaction list",
    "transaction describe": "rookery transaction describe payments-1",
    "transaction producers": "rookery transaction producers orders 0",
    "transaction hanging": "rookery transaction hanging",
    "transaction abort": "rookery transaction abort orders 0 --start-offset 4711 --yes",
    "acl list": "rookery acl list --principal User:ann",
    "acl create": "rookery acl create --principal User:ann --operation read --resource topic --name orders",
    "acl delete": "rookery acl delete --principal User:ann --yes",
    "user list": "rookery user list",
    "user create": "rookery user create ann",
    "user delete": "rookery user delete ann --yes",
    "quota list": "rookery quota list",
    "quota set": "rookery quota set --client-id loader producer_byte_rate=1000000",
    "quota unset": "rookery quota unset --client-id loader producer_byte_rate",
    "quorum status": "rookery quorum status",
    "quorum log": "rookery quorum log --from 100 -n 20",
    "quorum add-voter": "rookery quorum add-voter 4 3ruTnOGeRlqPzC8SiYIlyQ 127.0.0.1:9195",
    "quorum remove-voter": "rookery quorum remove-voter 4 3ruTnOGeRlqPzC8SiYIlyQ",
    "metadata dump": "rookery metadata dump --topic orders",
    "pipeline run": "rookery pipeline run lake.toml --metrics 127.0.0.1:9464",
    "pipeline list": "rookery pipeline list",
    "pipeline status": "rookery pipeline status lake",
    "pipeline stop": "rookery pipeline stop lake",
    "pipeline archive": "rookery pipeline archive orders,clicks archive --follow",
    "bench produce": "rookery bench produce -n 1000000 --size 100 --compression lz4",
    "bench consume": "rookery bench consume --topic orders",
    "bench e2e": "rookery bench e2e --acks all",
    "bench codecs": "rookery bench codecs -o csv",
    "log dump": "rookery log dump data/orders-0/00000000000000000000.log --records",
    "log verify": "rookery log verify data",
    "events": "rookery events --follow --event leader. --event isr.",
    "trace": "rookery trace orders 0 4711",
    "doctor": "rookery doctor --bundle report.tar.gz",
    "cluster status": "rookery cluster status",
    "cluster describe": "rookery cluster describe",
    "cluster health": "rookery cluster health --wait 60",
    "cluster watch": "rookery cluster watch",
    "context list": "rookery context list",
    "context current": "rookery context current",
    "context add": "rookery context add staging --bootstrap kafka-1:9092 --command-config staging.properties",
    "context use": "rookery context use staging",
    "context remove": "rookery context remove staging",
    "completion": 'eval "$(rookery completion bash)"',
}
"""An example for each verb, or for the command where it has none."""


def below(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {each.dest: each.help or "" for each in action._choices_actions}
            for name, found in action.choices.items():
                yield name, texts.get(name, ""), found


def _arguments(parser: argparse.ArgumentParser) -> str:
    shown = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
            continue
        if action.option_strings:
            name = max(action.option_strings, key=len)
            if name in ("--bootstrap", "--command-config", "--output", "--yes"):
                continue
            shown.append(f"`{name}`" if action.required else f"[`{name}`]")
        else:
            name = str(action.metavar or action.dest).upper()
            shown.append(f"`{name}...`" if action.nargs in ("+", "*") else f"`{name}`")
    return " ".join(shown)


def _examples(command: str, verbs: list[str]) -> list[str]:
    names = [f"{command} {verb}" for verb in verbs] or [command]
    if verbs and command in EXAMPLES:
        names.insert(0, command)
    return ["```sh", *(EXAMPLES[name] for name in names), "```", ""]


def _formats() -> list[str]:
    """What `--format` understands, from where it is implemented."""
    about = record_format.__doc__ or ""
    return ["What `--format` prints:", "", about[about.index("| verb") :].strip(), ""]


def page() -> str:
    used_to = ["| you type | here |", "|---|---|", *(f"| {theirs} | {ours} |" for theirs, ours in USED_TO), ""]
    lines = [HEAD + "\n".join(used_to)]
    for command, (_, text) in COMMANDS.items():
        top = build_parser(command)
        parser = next(each for name, _, each in below(top) if name == command)
        verbs = list(below(parser))
        lines += [f"## rookery {command}", "", f"{text[0].upper()}{text[1:]}.", ""]
        own = _arguments(parser)
        if own or not verbs:
            lines += [f"Arguments{' without a verb' * bool(verbs)}: {own or 'none'}", ""]
        if not verbs:
            lines += _examples(command, [])
            lines += _formats() if command == "consume" else []
            continue
        lines += ["| verb | arguments | what it does |", "|---|---|---|"]
        lines += [f"| `{name}` | {_arguments(each)} | {about} |" for name, about, each in verbs]
        lines += ["", *_examples(command, [name for name, _, _ in verbs])]
    return "\n".join(lines)
