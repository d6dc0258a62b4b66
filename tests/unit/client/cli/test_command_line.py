"""What all commands have in common: help, the nearest word, completion, contexts."""

import argparse
import io
import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.client.cli.__main__ import COMMANDS, EXIT_CODES, build_parser, main
from rookery.client.cli.asking import confirm
from rookery.client.cli.completion import script
from rookery.client.cli.printing import OUTPUTS
from rookery.client.errors import CliError
from tests import needs
from tests.tidy.cli_page import EXAMPLES, below


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    try:
        found = main(list(words))
    except SystemExit as ended:
        found = int(ended.code or 0)
    printed = capsys.readouterr()
    assert found == code, printed.out + printed.err
    return printed.out + printed.err


def test_help_lists_every_command_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--help")
    named = [line.split()[0] for line in text.splitlines() if line.startswith("    ") and line[4:5].strip()]
    assert named == list(COMMANDS)
    assert " ".join(EXIT_CODES.split()) in " ".join(text.split())


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "pipeline"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"usage: rookery {command}" in said(capsys, command, "--help")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["toipc", "list"], "there is no 'toipc'; did you mean topic?"),
        (["topic", "lst"], "there is no 'lst'; did you mean list?"),
        (["topic", "list", "--bootstarp", "x"], "did you mean --bootstrap?"),
        (["topic", "list", "-o", "jsno"], "there is no 'jsno'; did you mean json?"),
        (["group", "reset", "g", "--to-earlist"], "is required; there is no --to-earlist; did you mean --to-earliest?"),
        (["zzz"], "(choose from"),
    ],
)
def test_a_wrong_word_suggests_the_nearest(words: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert hint in said(capsys, *words, code=2)


def test_every_example_of_the_page_is_understood() -> None:
    """And so every verb has one: the page cannot be made without."""
    for example in EXAMPLES.values():
        words = shlex.split(example.replace("$(", " ").replace(")", " ").replace('"', " "))
        words = words[words.index("rookery") + 1 :]
        words = words[: next((at for at, word in enumerate(words) if word in (">", "|")), len(words))]
        assert build_parser(words[0]).parse_args(words).run, example


def verbs() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command and verb, by its words."""
    for command in COMMANDS:
        for name, _, parser in below(build_parser(command)):
            if name == command:
                found = [(f"{command} {verb}", each) for verb, _, each in below(parser)]
                yield from found or [(command, parser)]


def test_every_verb_that_prints_rows_has_every_form_of_output() -> None:
    """Records have forms of their own besides."""
    forms = {
        name: set(action.choices or ())
        for name, parser in verbs()
        for action in parser._actions
        if "--output" in action.option_strings
    }
    assert forms.pop("consume") == {*OUTPUTS, "value", "line"}
    assert {name for name, found in forms.items() if found != set(OUTPUTS)} == set()
    shows = ("list", "describe", "status", "health", "watch", "get", "diff", "offsets", "members", "explain", "dump")
    missing = {name for name, _ in verbs() if name.rpartition(" ")[2] in shows} - set(forms)
    assert missing == set()


def test_every_verb_that_asks_a_cluster_is_secured_in_the_same_way() -> None:
    for name, parser in verbs():
        options = {option for action in parser._actions for option in action.option_strings}
        assert not options & {"--bootstrap", "--controllers"} or "--command-config" in options, name


# --- asking -------------------------------------------------------------------------------------------------

DESTRUCTIVE = {
    "topic delete", "topic trim", "group reset", "group delete", "group delete-offsets", "group import",
    "partition reassign", "partition balance", "partition cancel", "partition elect", "transaction abort", "acl delete",
    "user delete", "node drain", "node remove", "up reset",
}  # fmt: skip


def test_what_cannot_be_undone_asks() -> None:
    asks = {name for name, parser in verbs() if "--yes" in {each for a in parser._actions for each in a.option_strings}}
    assert asks == DESTRUCTIVE


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("typed", ["y\n", "YES\n", "\n", "no\n", ""])
def test_a_person_on_a_terminal_is_asked(
    typed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    if typed.strip().lower() in ("y", "yes"):
        confirm("Delete it?", yes=False)
    else:
        with pytest.raises(CliError, match="nothing was changed"):
            confirm("Delete it?", yes=False)
    out, asked = capsys.readouterr()
    assert (out, asked.rstrip("\n")) == ("", "Delete it? [y/N] "), "standard output is for what programs read"


# --- completion ---------------------------------------------------------------------------------------------

LINES = {
    ("",): {"topic", "group", "up", "--help"},
    ("top",): {"topic"},
    ("topic", ""): {"create", "list", "trim"},
    ("topic", "cr"): {"create"},
    ("topic", "create", "orders", "--part"): {"--partitions"},
    ("topic", "list", "-o", "js"): {"json", "jsonl"},
    ("group", "reset", "g", "--to-e"): {"--to-earliest"},
    ("config", "get", "to"): {"topic"},
    ("consume", "t", "--isolation-level", "read_c"): {"read_committed"},
    ("up", "re"): {"restart", "reset"},
}


def completed_by_bash(*words: str) -> list[str]:
    given = " ".join(f"'{word}'" for word in ("rookery", *words))
    asked = f"COMP_WORDS=({given}); COMP_CWORD={len(words)}; _rookery; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    ask = f"{script('bash')}\n{asked}"
    return subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True, timeout=60).stdout.split()


@pytest.mark.parametrize("words", LINES)
def test_bash_completes(words: tuple[str, ...]) -> None:
    found = completed_by_bash(*words)
    assert LINES[words] <= set(found)
    assert all(each.startswith(words[-1]) for each in found)


def test_zsh_completes() -> None:
    """The candidates are those of bash, by the same function; what zsh adds is how they are offered."""
    zsh = needs.command("zsh", "the completion is for zsh, too")
    stubs = 'compdef() { :; }\ncompadd() { shift; print -l -- "$@"; }\n_files() { :; }\n'
    for words, wanted in LINES.items():
        given = " ".join(f"'{word}'" for word in ("rookery", *words))
        ask = f"{stubs}{script('zsh')}\nwords=({given}); CURRENT={len(words) + 1}; _rookery"
        done = subprocess.run([zsh, "-f", "-c", ask], capture_output=True, text=True, check=True, timeout=60)
        assert wanted <= set(done.stdout.split()), words


# --- contexts -----------------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("ROOKERY_CONTEXT", "ROOKERY_BOOTSTRAP", "ROOKERY_COMMAND_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "rookery" / "config.toml"


def test_contexts_are_added_used_and_removed(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no context is current" in said(capsys, "context", "current", code=4)
    said(capsys, "context", "add", "here", "--bootstrap", "127.0.0.1:1")
    properties = tmp_path / 'my "own".properties'
    properties.write_text("security.protocol=PLAINTEXT\n")
    said(capsys, "context", "add", "there", "--bootstrap", "127.0.0.1:2", "--command-config", str(properties))
    rows = json.loads(said(capsys, "context", "list", "-o", "json"))
    assert [(row["context"], row["current"], row["command-config"]) for row in rows] == [
        ("here", "*", "-"),
        ("there", "", str(properties)),
    ]
    assert f"127.0.0.1:1 (context here of {config})" in said(capsys, "topic", "list", code=1)
    said(capsys, "context", "use", "there")
    assert "127.0.0.1:2" in said(capsys, "topic", "list", code=1)
    properties.unlink()
    assert str(properties) in said(capsys, "topic", "list", code=2), "its properties are used"
    monkeypatch.setenv("ROOKERY_CONTEXT", "here")
    assert said(capsys, "context", "current") == "here\n"
    monkeypatch.delenv("ROOKERY_CONTEXT")
    said(capsys, "context", "remove", "there")
    assert "no context is current" in said(capsys, "context", "current", code=4)
    assert "there are: here" in said(capsys, "context", "use", "there", code=4)
    assert "letters, digits" in said(capsys, "context", "add", "a b", "--bootstrap", "x:1", code=2)


def test_a_config_file_is_not_destroyed(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.parent.mkdir()
    config.write_text("editor = 'vi'\n")
    assert "change it by hand" in said(capsys, "context", "add", "a", "--bootstrap", "x:1", code=1)
    config.write_text("current = \n")
    assert "cannot be read" in said(capsys, "context", "list", code=1)
    config.write_text("contexts = 7\n")
    assert "[contexts.NAME]" in said(capsys, "context", "list", code=1)


def test_a_file_that_cannot_be_written_is_named(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rookery").write_text("in the way of a folder")
    assert f"rookery: {tmp_path / 'rookery'}: " in said(capsys, "context", "add", "a", "--bootstrap", "x:1", code=1)
