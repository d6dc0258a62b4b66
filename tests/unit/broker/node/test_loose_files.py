"""Files with secrets that others can read are warned of at the start."""

from pathlib import Path

import pytest

from rookery.broker.node.settings import load_settings

PLAIN = "log.dirs={data}\nlisteners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
SECRET = PLAIN + "rookery.http.listener=127.0.0.1:0\nrookery.http.token=s3cret\n"


def warnings(folder: Path, text: str, mode: int, **environ: str) -> list[str]:
    file = folder / "server.properties"
    file.write_text(text.format(data=folder / "data"))
    file.chmod(mode)
    return [each for each in load_settings(file, environ).warnings if "others than its owner" in each]


@pytest.mark.attack(60)
def test_a_file_of_options_with_secrets_is_for_its_owner(tmp_path: Path) -> None:
    [warning] = warnings(tmp_path, SECRET, 0o644)
    assert warning.startswith(f"{tmp_path / 'server.properties'} holds rookery.http.token, and others")
    assert "s3cret" not in warning
    assert warnings(tmp_path, SECRET, 0o600) == []
    assert warnings(tmp_path, PLAIN, 0o644) == [], "there is nothing to hide"


@pytest.mark.attack(60)
def test_a_jaas_file_is_for_its_owner(tmp_path: Path) -> None:
    jaas = tmp_path / "jaas.conf"
    jaas.write_text("")
    options = f"-Djava.security.auth.login.config={jaas}"
    jaas.chmod(0o640)
    assert warnings(tmp_path, PLAIN, 0o644, KAFKA_OPTS=options) == [
        f"{jaas} holds logins, and others than its owner can read it: chmod 600"
    ]
    jaas.chmod(0o600)
    assert warnings(tmp_path, PLAIN, 0o644, KAFKA_OPTS=options) == []
