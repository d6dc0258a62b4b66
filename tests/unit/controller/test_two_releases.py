"""Nodes of two releases in one cluster, from the first upgraded node to the day the level is raised."""

from dataclasses import replace
from typing import Any

import pytest

from rookery.core.errors import ErrorCode, UnsupportedVersionError
from rookery.core.metadata import records as r
from rookery.core.metadata import requests as q
from rookery.core.metadata.codec import decode
from rookery.core.metadata.delta import LatestImage
from rookery.core.metadata.features import METADATA_VERSION, Release, UnsupportedLevelError
from rookery.core.metadata.snapshot import snapshot_values, state_hash
from rookery.core.metadata_log import SnapshotId
from tests.unit.controller.desk import Desk
from tests.unit.controller.releases import LEVEL, NEXT, OLD, RAISE, RAISED, stored_version
from tests.unit.controller.state.clusters import register_request


def upgraded(desk: Desk, release: Release = NEXT) -> Desk:
    """The controller's node runs another release on the same log."""
    desk.settings = replace(desk.settings, release=release)
    desk.restart()
    return desk.lead()


def mixed() -> Desk:
    """A cluster that began with the old release; a node of the next one is the active controller now."""
    desk = Desk(release=OLD).lead()
    desk.broker(1, features=OLD.features)
    upgraded(desk)
    assert desk.controller.committed.features[METADATA_VERSION] == LEVEL
    return desk


def follow(desk: Desk, release: Release) -> LatestImage:
    fold = LatestImage(release=release)
    for batch in desk.quorum.committed:
        fold.on_commit(batch)
    return fold


def versions(desk: Desk, kind: type[r.Record]) -> list[int]:
    """Of all records of a kind in the log, oldest first."""
    values = [value for batch in desk.quorum.committed for value in batch.values]
    return [stored_version(value) for value in values if isinstance(decode(value, NEXT), kind)]


def raise_level(desk: Desk) -> list[Any]:
    reply: q.UpdateFeaturesReply = desk.ask(RAISE)
    return [(ErrorCode(answer.error).name, answer.message) for answer in reply.features]


def test_an_old_node_follows_a_new_controller() -> None:
    desk = mixed()
    desk.topic("t")
    assert versions(desk, r.TopicRecord) == [0]
    assert state_hash(follow(desk, OLD).image) == state_hash(follow(desk, NEXT).image)
    refused = desk.ask(q.AllocateProducerIdsRequest(1, desk.controller.committed.brokers[1].epoch))
    assert isinstance(refused, UnsupportedVersionError), "its record would stop the old nodes"
    racked = desk.ask(register_request(2, 2, features=NEXT.features, rack="east"))
    assert isinstance(racked, UnsupportedVersionError)
    assert desk.topic("u").topics[0].error == ErrorCode.NONE, "a refusal harms nobody else"


def test_an_old_controller_takes_over_from_a_new_one() -> None:
    desk = mixed()
    desk.topic("t")
    upgraded(desk, OLD)
    desk.topic("u")
    assert set(follow(desk, OLD).image.topic_ids) == {"t", "u"}


def test_the_level_is_raised_when_everybody_understands_it() -> None:
    desk = mixed()
    desk.quorum.others = {2: OLD.features, 3: None}
    assert raise_level(desk) == [
        ("INVALID_UPDATE_VERSION", f"{METADATA_VERSION}={RAISED} is not understood by controller 2")
    ]
    desk.quorum.others = {2: NEXT.features, 3: None}
    assert "controller 3 has not reported" in raise_level(desk)[0][1]
    desk.quorum.others = {2: NEXT.features, 3: NEXT.features}
    assert "not understood by broker 1" in raise_level(desk)[0][1]
    desk.clock.advance(60)
    desk.controller.tick()
    desk.broker(1, incarnation=11, features=NEXT.features)
    assert raise_level(desk) == [("NONE", None)]
    assert desk.controller.committed.features[METADATA_VERSION] == RAISED


def raised() -> Desk:
    desk = mixed()
    desk.topic("before")
    desk.clock.advance(60)
    desk.controller.tick()
    desk.broker(1, incarnation=11, features=NEXT.features)
    assert raise_level(desk) == [("NONE", None)]
    return desk


def test_from_then_on_the_new_is_written_and_the_old_still_read() -> None:
    desk = raised()
    desk.topic("after")
    assert versions(desk, r.TopicRecord) == [0, 1]
    assert desk.ask(q.AllocateProducerIdsRequest(1, desk.controller.committed.brokers[1].epoch)).count > 0
    image = desk.controller.committed
    values = list(snapshot_values(image, NEXT))
    assert {stored_version(value) for value in values if isinstance(decode(value, NEXT), r.TopicRecord)} == {1}
    late = LatestImage(release=NEXT)
    late.on_snapshot(SnapshotId(image.offset + 1, image.epoch), values)
    assert state_hash(late.image) == state_hash(image)


def test_an_old_node_learns_why_it_cannot_take_part() -> None:
    desk = raised()
    with pytest.raises(UnsupportedLevelError, match=rf"{METADATA_VERSION} is at {RAISED}, and 1 to {LEVEL} are known"):
        follow(desk, OLD)
    refused = desk.ask(register_request(2, 2, features=OLD.features))
    assert isinstance(refused, UnsupportedVersionError)
    assert f"{METADATA_VERSION} is at {RAISED}" in str(refused)
    assert "on broker 2" in str(refused)


def test_there_is_no_way_back() -> None:
    desk = raised()
    down = q.FeatureUpdate(METADATA_VERSION, LEVEL, q.UpgradeType.UNSAFE_DOWNGRADE)
    (answer,) = desk.ask(q.UpdateFeaturesRequest((down,))).features
    assert answer.error == ErrorCode.INVALID_UPDATE_VERSION
    assert "cannot go back" in str(answer.message)
