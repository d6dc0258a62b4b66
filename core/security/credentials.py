"""SCRAM credentials as the image holds them, for the machines that check them."""

from collections import Counter
from hashlib import sha256

from rookery.core.metadata.image import Image
from rookery.core.security.scram import Decoys, ScramCredential, ScramMechanism, Shape

DECOY_KEY = ("", int(ScramMechanism.SCRAM_SHA_512))
"""Under this key the image holds the secret for decoys: no user has an empty name."""
SHAPES_MAX = 8


def credential(image: Image, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
    """What proves that a client is `user`."""
    kept = image.credentials.get((user, int(mechanism))) if user else None
    if kept is None:
        return None
    return ScramCredential(mechanism, kept.iterations, kept.salt, kept.stored_key, kept.server_key)


def decoys(image: Image, cluster_id: str) -> Decoys:
    """Credentials of users who do not exist. Without any user there is nobody to hide, and no secret either. Looks at
    all users; `DecoySource` does so only when they have changed."""
    kept = image.credentials.get(DECOY_KEY)
    secret = sha256(cluster_id.encode()).digest() if kept is None else kept.stored_key
    shapes: dict[ScramMechanism, Counter[Shape]] = {each: Counter() for each in ScramMechanism}
    for (user, mechanism), each in image.credentials.items():
        if user:
            shapes[ScramMechanism(mechanism)][Shape.of(each.salt, each.iterations)] += 1
    return Decoys(secret, {each: _commonest(counted) for each, counted in shapes.items()})


def _commonest(counted: Counter[Shape]) -> tuple[Shape, ...]:
    """The same on every node, whatever the order of its users."""
    return tuple(sorted(counted, key=lambda shape: (-counted[shape], shape))[:SHAPES_MAX])


class DecoySource:
    """The decoys of the image that holds now."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._kept: tuple[object, Decoys] | None = None

    def of(self, image: Image) -> Decoys:
        if self._kept is None or self._kept[0] is not image.credentials:
            self._kept = image.credentials, decoys(image, self._cluster_id)
        return self._kept[1]
