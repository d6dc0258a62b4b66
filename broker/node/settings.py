"""A node's settings from its file, the environment and the command line, completed where they say too little."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rookery.core.config import node as keys
from rookery.core.config.authorizer import check_authorizer
from rookery.core.config.defaults import metadata_log_dir
from rookery.core.config.loading import Loaded, load, read_environment, read_overrides, read_properties
from rookery.core.config.options import ConfigError, Settings
from rookery.core.config.standalone import complete
from rookery.core.ids import id_text, new_id
from rookery.core.log.folder_files import META_PROPERTIES


def load_settings(config: Path | None, environ: Mapping[str, str], overrides: Sequence[str] = ()) -> Loaded:
    """File < environment < --set."""
    layers: list[tuple[str, Mapping[str, str]]] = []
    if config is not None:
        try:
            layers.append(("file", read_properties(config.read_text(), str(config))))
        except OSError as error:
            raise ConfigError("--config", str(config), f"it cannot be read: {error.strerror}") from error
    from_environment, notes = read_environment(environ)
    layers += [("environment", from_environment), ("--set", read_overrides(overrides))]
    loaded = load(layers, notes=notes)
    completed = complete(loaded.settings)
    settings = completed.settings
    if completed.alone and not settings[keys.CLUSTER_ID] and not belongs_somewhere(settings):
        settings = settings.having({keys.CLUSTER_ID.name: id_text(new_id())})
    told = (*loaded.warnings, *completed.notes, *check_authorizer(settings))
    return replace(loaded, settings=settings, warnings=told)


def belongs_somewhere(settings: Settings) -> bool:
    """Whether the node's folder knows its cluster already."""
    return (Path(metadata_log_dir(settings)) / META_PROPERTIES).exists()
