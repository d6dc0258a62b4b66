"""The file of users that a new cluster begins with.

It lies in the folder of a node's metadata log, readable by its owner alone, and holds salts and keys, no passwords.
The first controller of a new cluster writes the users into the metadata log; later the file has no effect.
"""

import json
import os
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path

from rookery.core.metadata.records import UserScramCredentialRecord
from rookery.core.security.scram import SALT_BYTES, AddScram

FILE = "first-users.json"
_BYTES = ("salt", "stored_key", "server_key")


class FirstUsersError(Exception):
    """The file cannot be read."""


def record_of(user: AddScram) -> UserScramCredentialRecord:
    """A user as the metadata log keeps it. Slow on purpose where a password is given."""
    made = user.credential(secrets.token_bytes(SALT_BYTES))
    return UserScramCredentialRecord(
        user.user, int(made.mechanism), made.salt, made.stored_key, made.server_key, made.iterations
    )


def write(folder: Path, users: Iterable[UserScramCredentialRecord]) -> None:
    """Write the file, in place of one that is there."""
    rows = [
        {
            "name": each.name,
            "mechanism": each.mechanism,
            "iterations": each.iterations,
            **{key: b64encode(getattr(each, key)).decode() for key in _BYTES},
        }
        for each in users
    ]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as out:
        json.dump(rows, out)
        out.flush()
        os.fsync(out.fileno())


def read(folder: Path) -> tuple[UserScramCredentialRecord, ...]:
    """The users of the file; none if there is no file. Raises FirstUsersError."""
    path = folder / FILE
    try:
        return tuple(
            UserScramCredentialRecord(
                name=each["name"],
                mechanism=each["mechanism"],
                iterations=each["iterations"],
                **{key: b64decode(each[key], validate=True) for key in _BYTES},
            )
            for each in json.loads(path.read_text())
        )
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = type(error).__name__
        raise FirstUsersError(f"{path} cannot be read ({reason}): remove it, or format the node again") from None
