"""One step of a member towards its target assignment.

    state                  may go on when                          goes to
    Stable                 it is not what the target says          see below
    Unrevoked partitions   it no longer has those to give up       see below
    Unreleased partitions  always: others may have given up some   see below

It keeps what it has and is meant to have. If it has more, it has to give that up first: it stays in its epoch,
Unrevoked. Else it reaches the epoch of the target and gets what nobody else has; it is Unreleased while others have
some of the rest. So no partition is given to a member before the one that had it has shown that it let go, or is gone.
"""

from collections.abc import Callable

from rookery.broker.groups.consumer.member import Current, Held, MemberState, Place, Places


def reconcile(
    current: Current,
    target_epoch: int,
    target: Places,
    owned: Places | None,
    is_free: Callable[[Place], bool],
) -> Current:
    """`owned` is what the member says it has; None where it says nothing, so it may still have everything.
    `is_free` tells whether no other member has the partition."""
    if current.state is MemberState.UNREVOKED_PARTITIONS:
        if owned is None or not owned.isdisjoint(current.pending):
            return current
        # What it was to give up is given up. There may be more by now: then it waits again, in another epoch.
        return _next(current, min(current.epoch + 1, target_epoch), target_epoch, target, owned, is_free)
    if current.reached(target_epoch) and target.issuperset(current.assigned):
        return current
    return _next(current, current.epoch, target_epoch, target, owned, is_free)


def _next(
    current: Current,
    waiting_epoch: int,
    target_epoch: int,
    target: Places,
    owned: Places | None,
    is_free: Callable[[Place], bool],
) -> Current:
    keep = {place: epoch for place, epoch in current.assigned.items() if place in target}
    revoke = {place: epoch for place, epoch in current.assigned.items() if place not in target}
    if revoke and (owned is None or not owned.isdisjoint(revoke)):
        return moved(current, waiting_epoch, MemberState.UNREVOKED_PARTITIONS, keep, revoke)
    wanted = target.difference(keep)
    free = [place for place in wanted if is_free(place)]
    state = MemberState.STABLE if len(free) == len(wanted) else MemberState.UNRELEASED_PARTITIONS
    assigned = {**keep, **dict.fromkeys(sorted(free), target_epoch)}
    return moved(current, target_epoch, state, assigned, {})


def moved(current: Current, epoch: int, state: MemberState, assigned: Held, pending: Held) -> Current:
    """The epoch before is remembered where it changes: an answer may be lost on its way."""
    previous = current.epoch if epoch != current.epoch else current.previous_epoch
    return Current(epoch, previous, state, assigned, pending)
