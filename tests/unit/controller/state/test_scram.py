"""SCRAM credentials: each user gets all of its changes or none, and the first brings the secret for decoys."""

from dataclasses import replace
from uuid import uuid4

import pytest

from rookery.controller.state.scram import alter_user_scram_credentials
from rookery.core.errors import ErrorCode
from rookery.core.metadata.image import EMPTY, Image
from rookery.core.metadata.requests import AlterUserScramCredentialsRequest, ScramDeletion, ScramUpsertion
from rookery.core.metadata.snapshot import snapshot
from rookery.core.security.credentials import DECOY_KEY, DecoySource, credential, decoys
from rookery.core.security.scram import ScramCredential, ScramMechanism, Shape
from tests.unit.controller.state.clusters import after

KIND = ScramMechanism.SCRAM_SHA_256


def upsertion(name: str, mechanism: int = KIND, iterations: int = 4096, size: int = 32) -> ScramUpsertion:
    return ScramUpsertion(name, mechanism, iterations, b"salt", b"k" * size, b"s" * size)


def alter(
    image: Image, *changes: ScramUpsertion | ScramDeletion
) -> tuple[dict[str, str], Image]:
    request = AlterUserScramCredentialsRequest(
        tuple(each for each in changes if isinstance(each, ScramDeletion)),
        tuple(each for each in changes if isinstance(each, ScramUpsertion)),
    )
    decision = alter_user_scram_credentials(image, request, uuid4)
    later = after(image, decision.records)
    return {each.name: ErrorCode(each.error).name for each in decision.reply(later).users}, later


def test_users_are_set_changed_and_removed() -> None:
    answers, image = alter(EMPTY, upsertion("ann"), upsertion("ann", 2, size=64))
    assert answers == {"ann": "NONE"}
    assert credential(image, KIND, "ann") == ScramCredential(KIND, 4096, b"salt", b"k" * 32, b"s" * 32)
    answers, image = alter(image, ScramDeletion("ann", KIND))
    assert answers == {"ann": "NONE"}
    assert sorted(image.credentials) == [DECOY_KEY, ("ann", 2)]


def test_what_is_wrong_is_said_for_each_user_and_the_others_are_made() -> None:
    answers, image = alter(
        EMPTY,
        upsertion("few", iterations=4095),
        upsertion("many", iterations=16385),
        upsertion("odd", 3),
        upsertion("keys", size=31),
        upsertion(""),
        upsertion("twice"),
        upsertion("twice"),
        upsertion("half"),
        ScramDeletion("half", 2),
        ScramDeletion("gone", 1),
        upsertion("fine"),
    )
    assert answers == {
        "half": "RESOURCE_NOT_FOUND",
        "gone": "RESOURCE_NOT_FOUND",
        "few": "UNACCEPTABLE_CREDENTIAL",
        "many": "UNACCEPTABLE_CREDENTIAL",
        "odd": "UNSUPPORTED_SASL_MECHANISM",
        "keys": "UNACCEPTABLE_CREDENTIAL",
        "": "UNACCEPTABLE_CREDENTIAL",
        "twice": "DUPLICATE_RESOURCE",
        "fine": "NONE",
    }
    assert sorted(image.credentials) == [DECOY_KEY, ("fine", 1)]


def test_the_secret_for_decoys_is_made_once_and_is_the_same_on_all_nodes() -> None:
    _, image = alter(EMPTY, upsertion("ann"))
    shown = decoys(image, "cluster").credential(KIND, "nobody")
    _, later = alter(image, upsertion("bob"), ScramDeletion("ann", KIND))
    assert decoys(later, "cluster").credential(KIND, "nobody") == shown
    rebuilt = after(EMPTY, list(snapshot(later)))
    assert decoys(rebuilt, "other").credential(KIND, "nobody") == shown
    _, other = alter(EMPTY, upsertion("ann"))
    assert decoys(other, "cluster").credential(KIND, "nobody") != shown


@pytest.mark.parametrize("salts", [[b"x" * 20], [b"\x01" * 20], [b"q7" * 13, b"\xff" * 64, b"0" * 25]])
def test_decoys_look_like_the_users_who_exist(salts: list[bytes]) -> None:
    """Neither the length of a salt, nor its letters, nor the iterations tell that a user does not exist."""
    users = [replace(upsertion(f"user {at}"), salt=salt, iterations=4096 + at) for at, salt in enumerate(salts)]
    _, image = alter(EMPTY, *users)
    shown = [decoys(image, "cluster").credential(KIND, f"nobody {at}") for at in range(100)]
    real = {Shape.of(each.salt, each.iterations) for each in users}
    assert {Shape.of(each.salt, each.iterations) for each in shown} == real
    assert len({each.salt for each in shown}) == 100


def test_decoys_are_made_anew_only_when_users_have_changed() -> None:
    source = DecoySource("cluster")
    _, image = alter(EMPTY, upsertion("ann"))
    assert source.of(image) is source.of(replace(image))
    _, later = alter(image, upsertion("bob"))
    assert source.of(later) is not source.of(image)


def test_nobody_can_log_in_with_the_secret() -> None:
    _, image = alter(EMPTY, upsertion("ann"))
    assert credential(image, ScramMechanism.SCRAM_SHA_512, "") is None
    answers, _ = alter(image, ScramDeletion(*DECOY_KEY))
    assert answers == {"": "UNACCEPTABLE_CREDENTIAL"}


def test_keys_do_not_show() -> None:
    shown = repr(upsertion("ann")) + repr(alter(EMPTY, upsertion("ann"))[1])
    assert "kkkk" not in shown
