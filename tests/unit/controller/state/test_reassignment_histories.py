"""Any order of reassignments, cancellations, entries into the ISR and removals from it: somebody always has the data,
and a reassignment that is left alone ends. Histories are drawn from a seed."""

from random import Random
from typing import Any

import pytest

from rookery.controller.state import reassignment
from rookery.controller.state.defaults import Defaults
from rookery.controller.state.partitions import Electorate, Wanted
from rookery.core.metadata.image import Image, Partition
from tests.unit.controller.state.clusters import TOPIC, after, cluster, the_partition, with_partition
from tests.unit.controller.state.test_reassignment import reassign

BROKERS = (1, 2, 3, 4, 5, 6)
STEPS = 40
SEEDS = range(60)
NOTICED_BY = (10, 32, 40)
"""Seeds that notice the planted defect."""


def with_isr(image: Image, isr: tuple[int, ...]) -> Image:
    found = the_partition(image)
    change = Electorate(image, Defaults()).change(image.topics[TOPIC], 0, found, Wanted(isr=isr))
    return image if change is None else after(image, [change])


def step(rng: Random, image: Image) -> tuple[Image, int | None]:
    """The image after something happened, and who came in sync by that."""
    found = the_partition(image)
    outside = [broker for broker in found.replicas if broker not in found.isr]
    match rng.choice(("reassign", "reassign", "join", "join", "leave", "cancel")):
        case "reassign":
            return reassign(image, tuple(rng.sample(BROKERS, 2)))[1], None
        case "cancel":
            return reassign(image, None)[1], None
        case "join" if outside:
            joined = rng.choice(outside)
            return with_isr(image, (*found.isr, joined)), joined
        case "leave" if len(found.isr) > 1:  # the leader, too: another one is elected
            gone = rng.choice(found.isr)
            return with_isr(image, tuple(broker for broker in found.isr if broker != gone)), None
    return image, None


def check(before: Partition, now: Partition, joined: int | None) -> None:
    assert now.leader in now.isr, "nobody leads, though all brokers are there"
    assert {*before.isr, *before.elr, joined} & {*now.isr, *now.elr}, "nobody is left who had the data"
    assert {*now.isr, *now.elr} <= {*now.replicas}


def play(seed: int) -> None:
    rng = Random(seed)
    image = with_partition(cluster(BROKERS), Partition((1, 2), (1, 2), 1), min_isr=1)
    for _ in range(STEPS):
        before = the_partition(image)
        image, joined = step(rng, image)
        check(before, the_partition(image), joined)
    while set(the_partition(image).replicas) - set(the_partition(image).isr):
        before = the_partition(image)
        joined = next(broker for broker in before.replicas if broker not in before.isr)
        image = with_isr(image, (*before.isr, joined))
        check(before, the_partition(image), joined)
    assert not the_partition(image).reassigning, "all are in sync, and the reassignment has not ended"


@pytest.mark.invariant("P16", "M4")
@pytest.mark.parametrize("seed", SEEDS)
def test_somebody_always_has_the_data(seed: int) -> None:
    play(seed)


def _drops_additions(image: Image, partition: Partition, target: tuple[int, ...], other_factor: bool) -> Any:
    """As it was: what an earlier reassignment had added left at once, in sync or not."""
    before = reassignment._original(partition)
    removing = tuple(broker for broker in before if broker not in target)
    return Wanted(
        replicas=(*target, *removing),
        isr=tuple(broker for broker in partition.isr if broker in (*target, *removing)),
        adding=tuple(broker for broker in target if broker not in before),
        removing=removing,
    )


@pytest.mark.parametrize("seed", NOTICED_BY)
def test_a_second_reassignment_that_drops_the_first_is_noticed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reassignment, "_begun", _drops_additions)
    with pytest.raises(AssertionError, match=r"nobody (leads|is left)"):
        play(seed)
