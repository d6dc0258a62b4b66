from rookery.controller.raft.progress import NEVER, Progress, ProgressTable
from rookery.controller.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey, Voter
from tests.unit.controller.raft.one import key, voter_set


def test_an_older_fetch_takes_nothing_back() -> None:
    progress = Progress()
    progress.fetched(5, log_end=9, now_ms=1)
    progress.fetched(3, log_end=9, now_ms=2)
    assert progress.acknowledged == 5


def test_caught_up_when_it_has_all_there_was_at_its_last_request() -> None:
    progress = Progress()
    progress.fetched(5, log_end=9, now_ms=10)
    assert progress.caught_up_ms == NEVER
    progress.fetched(9, log_end=12, now_ms=20)
    assert progress.caught_up_ms == 10
    progress.fetched(12, log_end=12, now_ms=30)
    assert progress.caught_up_ms == 30


def test_observers_are_bounded_and_the_longest_silent_goes_first() -> None:
    table = ProgressTable(observers_max=2)
    voters = voter_set(1)
    for now, id in enumerate((1, 5, 6, 7)):
        table.touch(key(id), voters, silent_since_ms=-1000).contact_ms = now
    assert [known for known, _ in table] == [key(1), key(6), key(7)]


def test_silent_observers_expire() -> None:
    table = ProgressTable(observers_max=100)
    table.touch(key(5), voter_set(1), silent_since_ms=NEVER).contact_ms = 10
    table.touch(key(6), voter_set(1), silent_since_ms=20)
    assert table.of(key(5)) is None


def test_a_voter_without_known_disk_is_who_spoke_last_under_its_id() -> None:
    table = ProgressTable(observers_max=10)
    unknown = Voter(ReplicaKey(1, UNKNOWN_DIRECTORY))
    old = table.touch(ReplicaKey(1, key(8).directory_id), voter_set(1), NEVER)
    new = table.touch(ReplicaKey(1, key(9).directory_id), voter_set(1), NEVER)
    old.contact_ms, new.contact_ms = 1, 2
    assert table.of_voter(unknown) is new
    assert table.of_voter(Voter(key(2))) is None
