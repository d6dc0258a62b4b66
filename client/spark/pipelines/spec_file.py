"""Reads a pipeline's file, TOML or YAML. Relative paths in it are relative to the file."""

import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any

from rookery.client.spark.pipelines.spec import Pipeline, SpecError, parse

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def read_pipeline(path: Path) -> Pipeline:
    """The pipeline in a file; errors begin with the file's name."""
    try:
        return _in_folder(parse(_values(path), path.stem), path.resolve().parent)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None


def _values(path: Path) -> Any:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if path.suffix == ".toml":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SpecError(f"is no TOML: {error}") from None
    if path.suffix in (".yaml", ".yml"):
        try:
            import yaml
        except ImportError:
            raise SpecError("YAML needs PyYAML: pip install 'rookery[spark]'; TOML needs nothing") from None
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise SpecError(f"is no YAML: {' '.join(str(error).split())}") from None
    raise SpecError("a file that ends in .toml, .yaml or .yml is needed")


def _in_folder(pipeline: Pipeline, folder: Path) -> Pipeline:
    def placed(path: str | None) -> str | None:
        return path if path is None or URL.match(path) else str(folder / path)

    python = pipeline.transform.python
    transform = dataclasses.replace(pipeline.transform, python=placed(python))
    return dataclasses.replace(
        pipeline,
        transform=transform,
        sink=dataclasses.replace(pipeline.sink, path=placed(pipeline.sink.path)),
        checkpoint=placed(pipeline.checkpoint) or "",
        command_config=placed(pipeline.command_config),
    )
