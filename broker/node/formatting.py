"""`rookery node --format`: the folder of a node that has never run, with the users its cluster begins with.

A cluster whose clients must authenticate needs a user before anybody can add one. `--add-scram` takes users as
kafka-storage does. In a container the variable ROOKERY_ADD_SCRAM, one user a line, does the same at the first start.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from rookery.core import first_users
from rookery.core.config import node as keys
from rookery.core.config.node import metadata_log_dir
from rookery.core.config.options import HIDDEN, ConfigError, Settings
from rookery.core.disk import FileDisk
from rookery.core.ids import id_text, new_id
from rookery.core.log.ownership import META_PROPERTIES, FolderLocks, claim_folder
from rookery.core.metadata.records import UserScramCredentialRecord
from rookery.core.security.scram import ScramError, parse_add_scram

VARIABLE = "ROOKERY_ADD_SCRAM"


class FormatError(Exception):
    """The folder cannot be formatted."""


def format_node(settings: Settings, users: Iterable[str]) -> list[str]:
    """Prepare the folder of the metadata log; returns what was done. Raises FormatError and ConfigError."""
    if settings[keys.NODE_ID] < 0:
        raise ConfigError(keys.NODE_ID.name, settings[keys.NODE_ID], "every node needs a number of its own")
    folder = Path(metadata_log_dir(settings))
    records = [_record(text, "--add-scram") for text in users]
    if (folder / META_PROPERTIES).exists():
        raise FormatError(
            f"{folder} is formatted already. Users of a cluster that exists are added with kafka-configs --alter "
            "--add-config 'SCRAM-SHA-512=[password=...]' --entity-type users --entity-name NAME"
        )
    if records:
        first_users.write(folder, records)
    cluster_id = settings[keys.CLUSTER_ID] or id_text(new_id())
    locks = FolderLocks(FileDisk(), settings[keys.NODE_ID])
    claim_folder(locks, str(folder), cluster_id=cluster_id, new_directory_id=new_id())
    locks.release(str(folder))
    names = ", ".join(dict.fromkeys(record.name for record in records))
    return [
        f"formatted {folder} for node {settings[keys.NODE_ID]} of cluster {cluster_id}",
        *([f"a new cluster begins with the users {names}"] if names else []),
    ]


def add_users_of_environment(settings: Settings, environ: Mapping[str, str]) -> None:
    """Users of ROOKERY_ADD_SCRAM, for a node that has never run. Raises ConfigError."""
    lines = [line.strip() for line in environ.get(VARIABLE, "").splitlines() if line.strip()]
    folder = Path(metadata_log_dir(settings))
    if lines and not (folder / META_PROPERTIES).exists():
        first_users.write(folder, [_record(line, VARIABLE) for line in lines])


def _record(text: str, origin: str) -> UserScramCredentialRecord:
    try:
        return first_users.record_of(parse_add_scram(text))
    except ScramError as error:
        raise ConfigError(origin, HIDDEN, str(error)) from None
