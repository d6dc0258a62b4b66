"""`rookery completion`: scripts that complete commands, verbs, options and their values.

    eval "$(rookery completion bash)"        in ~/.bashrc
    eval "$(rookery completion zsh)"         in ~/.zshrc, after compinit

The words are those of the parsers, written into the script: completing starts no Python.
"""

import argparse
from collections.abc import Iterator
from typing import Any

SHELLS = ("bash", "zsh")
CANDIDATES = r"""_rookery_candidates() {
  # the words that may follow "$@", the words before the cursor
  local command="" verb="" last="" word
  for word in "$@"; do
    last=$word
    case $word in
      -*) ;;
      *) if [ -z "$command" ]; then command=$word; elif [ -z "$verb" ]; then verb=$word; fi ;;
    esac
  done
  case "$command $verb $last" in
@VALUES@
  esac
  case "$command $verb" in
@VERBS@
  esac
  case "$command" in
@COMMANDS@
  esac
}
"""
GLUE = {
    "bash": r"""_rookery() {
  local current=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=($(compgen -W "$(_rookery_candidates "${COMP_WORDS[@]:1:COMP_CWORD-1}")" -- "$current"))
}
complete -o default -F _rookery rookery
""",
    "zsh": r"""_rookery() {
  local -a found
  found=(${=$(_rookery_candidates "${(@)words[2,CURRENT-1]}")})
  if (( $#found )); then compadd -- $found; else _files; fi
}
compdef _rookery rookery
""",
}


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("completion", help="print a script that completes words in bash or zsh")
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=_print)


def _print(arguments: argparse.Namespace) -> int:
    print(script(arguments.shell), end="")
    return 0


def script(shell: str) -> str:
    from rookery.client.cli.__main__ import COMMANDS, build_parser

    values, verbs, commands = [], [], []
    for name in COMMANDS:
        parser = next(below for each, below in _below(build_parser(name)) if each == name)
        under = dict(_below(parser))
        for verb, each in under.items():
            verbs.append(_case(f'"{name} {verb}"', _words(each)))
            values += [_case(f'"{name} {verb} {option}"', given) for option, given in _given(each)]
        if not under:
            values += [_case(f'"{name} "*" {option}"', given) for option, given in _given(parser)]
        commands.append(_case(f'"{name}"', [*under, *_words(parser)]))
    commands.append(_case('""', [*COMMANDS, "--help", "--version"]))
    filled = (
        CANDIDATES.replace("@VALUES@", "\n".join(values))
        .replace("@VERBS@", "\n".join(verbs))
        .replace("@COMMANDS@", "\n".join(commands))
    )
    return filled + GLUE[shell]


def _case(pattern: str, words: list[str]) -> str:
    return f"    {pattern}) echo '{' '.join(words)}'; return ;;"


def _below(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _words(parser: argparse.ArgumentParser) -> list[str]:
    """The options, and the values of arguments that have a fixed choice."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            continue
        if action.option_strings:
            found += [option for option in action.option_strings if option.startswith("--")]
        elif action.choices is not None:
            found += map(str, action.choices)
    return found


def _given(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    """Options whose values are known."""
    for action in parser._actions:
        if action.option_strings and action.choices is not None:
            for option in action.option_strings:
                yield option, [str(choice) for choice in action.choices]
