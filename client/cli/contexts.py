"""The file of named clusters: ``~/.config/rookery/config.toml``, or under ``$XDG_CONFIG_HOME``.

    current = "staging"

    [contexts.staging]
    bootstrap = "kafka-1:9092,kafka-2:9092"
    controllers = "kafka-1:9093"
    command-config = "/etc/rookery/staging.properties"
"""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rookery.client.errors import CliError, UsageError

VARIABLE = "ROOKERY_CONTEXT"
BARE = re.compile(r"[A-Za-z0-9_-]+")
KEYS = ("bootstrap", "controllers", "command-config")


@dataclass(slots=True)
class Contexts:
    """What the file says."""

    current: str = ""
    contexts: dict[str, dict[str, str]] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    """What else stands in the file."""

    def name_in_use(self, environ: Mapping[str, str]) -> str:
        return environ.get(VARIABLE) or self.current

    def in_use(self, environ: Mapping[str, str]) -> tuple[str, dict[str, str]] | None:
        """The context that commands use, with its name."""
        name = self.name_in_use(environ)
        if not name:
            return None
        if name not in self.contexts:
            path = contexts_path(environ)
            named_by = f"{VARIABLE}={name}" if environ.get(VARIABLE) else f"{path}: current = {name!r}"
            raise UsageError(f"{named_by}: {path} has no [contexts.{_key(name)}]")
        return name, self.contexts[name]


def _key(name: str) -> str:
    """A name as TOML wants it: quoted if it has dots, which would be tables within tables."""
    return name if BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def contexts_path(environ: Mapping[str, str]) -> Path:
    home = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".config")
    return Path(home) / "rookery" / "config.toml"


def read_contexts(environ: Mapping[str, str]) -> Contexts:
    path = contexts_path(environ)
    try:
        config = tomllib.loads(path.read_text())
    except OSError:
        return Contexts()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CliError(f"{path} cannot be read: {error}") from error
    found = config.pop("contexts", {})
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise CliError(f"{path}: [contexts.NAME] with `bootstrap` is needed for each context")
    for name, each in found.items():
        deeper = next((key for key, value in each.items() if isinstance(value, dict)), None)
        if deeper is not None:
            raise CliError(f'{path}: write [contexts."{name}.{deeper}"]: a name with dots needs quotes')
    contexts = {name: {key: str(value) for key, value in each.items()} for name, each in found.items()}
    return Contexts(str(config.pop("current", "")), contexts, config)


def write_contexts(environ: Mapping[str, str], contexts: Contexts) -> None:
    """Replace the file; comments in it are lost."""
    path = contexts_path(environ)
    if contexts.others:
        raise CliError(f"{path} also has {', '.join(sorted(contexts.others))}: change it by hand, it would be lost")
    lines = [f"current = {json.dumps(contexts.current)}"] if contexts.current else []
    for name, context in sorted(contexts.contexts.items()):
        entries = [f"{_key(key)} = {json.dumps(text, ensure_ascii=False)}" for key, text in context.items()]
        lines += ["", f"[contexts.{_key(name)}]", *entries]
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text("\n".join(lines) + "\n")
    os.replace(temporary, path)
