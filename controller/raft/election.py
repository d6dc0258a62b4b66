"""Elections: asking for votes, giving them, and learning who won.

A replica first asks whether it would be elected (pre-vote) and raises its epoch only after a majority said
yes. A replica that a leader has answered within the fetch timeout says no.
"""

from rookery.controller.raft import leading
from rookery.controller.raft.messages import (
    NO_LEADER,
    BeginEpochRequest,
    BeginEpochResponse,
    EndEpochRequest,
    EndEpochResponse,
    Refusal,
    VoteRequest,
    VoteResponse,
)
from rookery.controller.raft.replica import Replica
from rookery.controller.raft.roles import Ballot, Candidate, Follower, Leader, Prospective, Unattached
from rookery.controller.raft.voters import UNKNOWN_DIRECTORY, Outcome, ReplicaKey, election_outcome, majority

# -- giving votes --------------------------------------------------------------------------------------------


def on_vote_request(replica: Replica, request: VoteRequest, now_ms: float) -> None:
    if not is_me(replica, request.voter):
        refusal, granted = Refusal.INVALID_VOTER_KEY, False
    elif request.epoch < replica.epoch:
        refusal, granted = Refusal.FENCED_LEADER_EPOCH, False
    elif request.pre_vote:
        refusal, granted = Refusal.NONE, would_vote(replica, request)
    else:
        refusal, granted = Refusal.NONE, vote(replica, request, now_ms)
    replica.send(
        request.sender,
        VoteResponse(
            sender=replica.me.id,
            correlation=request.correlation,
            epoch=replica.epoch,
            leader_id=NO_LEADER if granted else replica.leader_id,
            granted=granted,
            pre_vote=request.pre_vote,
            refusal=refusal,
            leader_endpoint="" if granted else replica.leader_endpoint,
            directory_id=replica.me.directory_id,
        ),
    )


def is_me(replica: Replica, voter: ReplicaKey) -> bool:
    """Whether a request is meant for this node on this disk, and not for the disk it had before."""
    return voter.id == replica.me.id and voter.directory_id in (replica.me.directory_id, UNKNOWN_DIRECTORY)


def is_up_to_date(replica: Replica, request: VoteRequest) -> bool:
    """Whether the candidate's log holds all that this replica's may hold of committed records."""
    return (request.last_epoch, request.log_end) >= (replica.log.last_epoch, replica.log.end_offset)


def would_vote(replica: Replica, request: VoteRequest) -> bool:
    """A replica that has a leader refuses; a pre-vote does not change its epoch.

    A leader reported only by a peer does not count: two followers of a leader that fell silent could otherwise keep
    reporting it to each other, each just before its own timeout ends.
    """
    role = replica.role
    has_leader = isinstance(role, Leader) or (isinstance(role, Follower) and role.answered)
    return not has_leader and is_up_to_date(replica, request)


def vote(replica: Replica, request: VoteRequest, now_ms: float) -> bool:
    if request.epoch > replica.epoch:
        replica.become_unattached(request.epoch, replica.election_wait_ms(), now_ms)
    free = replica.voted_for is None and replica.epoch_leader == NO_LEADER
    if not (free or replica.voted_for == request.candidate) or not is_up_to_date(replica, request):
        return False
    replica.vote_for(request.candidate)
    if isinstance(replica.role, Unattached):
        # The candidate gets its time to win before this replica stands itself.
        replica.become_unattached(replica.epoch, replica.election_wait_ms(), now_ms)
    return True


# -- asking for votes ----------------------------------------------------------------------------------------


def stand(replica: Replica, now_ms: float) -> None:
    """Begin a round of pre-vote."""
    role = Prospective(Ballot(now_ms + replica.election_wait_ms()))
    replica.become_prospective(role)
    open_ballot(replica, role.ballot, now_ms)


def run(replica: Replica, now_ms: float) -> None:
    """Begin an epoch and ask for votes in it."""
    role = Candidate(Ballot(now_ms + replica.election_wait_ms()))
    replica.become_candidate(role)
    open_ballot(replica, role.ballot, now_ms)


def open_ballot(replica: Replica, ballot: Ballot, now_ms: float) -> None:
    if replica.is_voter:
        ballot.granted.add(replica.me.id)
    for voter in replica.voters.others(replica.me):
        ask(replica, ballot, voter.key)
    count(replica, ballot, now_ms)


def ask(replica: Replica, ballot: Ballot, voter: ReplicaKey) -> None:
    ballot.asked[voter.id] = replica.next_correlation()
    request = VoteRequest(
        sender=replica.me.id,
        correlation=ballot.asked[voter.id],
        epoch=replica.epoch,
        candidate=replica.me,
        voter=voter,
        last_epoch=replica.log.last_epoch,
        log_end=replica.log.end_offset,
        pre_vote=isinstance(replica.role, Prospective),
    )
    replica.send(voter.id, request)


def on_vote_response(replica: Replica, response: VoteResponse, now_ms: float) -> None:
    role = replica.role
    if not isinstance(role, Prospective | Candidate):
        return
    ballot = role.ballot
    if ballot.asked.get(response.sender) != response.correlation:
        return
    if isinstance(role, Prospective) != response.pre_vote:
        return
    del ballot.asked[response.sender]
    (ballot.granted if response.granted else ballot.refused).add(response.sender)
    if response.granted and response.directory_id != UNKNOWN_DIRECTORY:
        ballot.disks[response.sender] = response.directory_id
    count(replica, ballot, now_ms)


def count(replica: Replica, ballot: Ballot, now_ms: float) -> None:
    needed = len(replica.voters) if is_first(replica) else majority(len(replica.voters))
    outcome = election_outcome([voter.id for voter in replica.voters], ballot.granted, ballot.refused, needed)
    match outcome, replica.role:
        case Outcome.WON, Prospective():
            run(replica, now_ms)
        case Outcome.WON, Candidate():
            leading.begin_to_lead(replica, ballot.disks, now_ms)
        case Outcome.LOST, _:
            ballot.deadline_ms = min(ballot.deadline_ms, now_ms + back_off_ms(replica))
            ballot.asked.clear()
            ballot.resend_ms.clear()


def is_first(replica: Replica) -> bool:
    """Whether this would be the first election of a quorum whose configuration does not name the disks of its voters.

    Nothing else distinguishes a new disk from one that replaced a disk that voted and acknowledged before. So all of
    them must take part; the first record then names every disk. A majority of empty disks would else elect a leader
    while the only log with records is away.
    """
    return replica.log.voters is None and not replica.voters.all_pinned


def back_off_ms(replica: Replica) -> float:
    """The pause after a lost round: longer after each, never the same for two replicas."""
    longest = min(replica.config.election_backoff_max_ms, 50 << min(replica.elections_lost, 10))
    replica.elections_lost += 1
    return longest * (0.5 + 0.5 * replica.random())


def on_request_failed(replica: Replica, ballot: Ballot, to: int, correlation: int, now_ms: float) -> None:
    """A voter could not be reached: ask again soon, it may be starting up."""
    if ballot.asked.get(to) != correlation:
        return
    del ballot.asked[to]
    config = replica.config
    pause = min(config.retry_backoff_ms << min(ballot.failures, 10), config.election_timeout_ms / 10)
    ballot.failures += 1
    ballot.resend_ms[to] = now_ms + pause


def tick_ballot(replica: Replica, ballot: Ballot, now_ms: float) -> None:
    if now_ms >= ballot.deadline_ms:
        if replica.may_stand:
            stand(replica, now_ms)
        else:
            replica.become_unattached(replica.epoch, replica.election_wait_ms(), now_ms)
        return
    for node_id in [node_id for node_id, due_ms in ballot.resend_ms.items() if due_ms <= now_ms]:
        del ballot.resend_ms[node_id]
        voter = replica.voters.get(node_id)
        if voter is not None:
            ask(replica, ballot, voter.key)


# -- beginning and end of an epoch ---------------------------------------------------------------------------


def on_begin_epoch(replica: Replica, request: BeginEpochRequest) -> None:
    """What there is to learn has been learnt; answer."""
    refusal = Refusal.NONE
    if not is_me(replica, request.voter):
        refusal = Refusal.INVALID_VOTER_KEY
    elif request.epoch < replica.epoch:
        refusal = Refusal.FENCED_LEADER_EPOCH
    replica.send(
        request.sender,
        BeginEpochResponse(
            sender=replica.me.id,
            correlation=request.correlation,
            epoch=replica.epoch,
            leader_id=replica.leader_id,
            refusal=refusal,
            leader_endpoint=replica.leader_endpoint,
        ),
    )


def on_end_epoch(replica: Replica, request: EndEpochRequest, now_ms: float) -> None:
    refusal = Refusal.FENCED_LEADER_EPOCH if request.epoch < replica.epoch else Refusal.NONE
    if refusal is Refusal.NONE:
        replica.epoch_ended = True
        leader_left(replica, succession_wait_ms(replica, request.successors), now_ms)
    replica.send(
        request.sender,
        EndEpochResponse(
            sender=replica.me.id,
            correlation=request.correlation,
            epoch=replica.epoch,
            leader_id=replica.leader_id,
            refusal=refusal,
            leader_endpoint=replica.leader_endpoint,
        ),
    )


def succession_wait_ms(replica: Replica, successors: tuple[ReplicaKey, ...]) -> float:
    """The first successor stands at once; each other one gives those before it time to win."""
    if replica.me not in successors:
        return replica.election_wait_ms()
    rank = successors.index(replica.me)
    return rank * replica.config.election_timeout_ms / 10 * (1 + replica.random())


def leader_left(replica: Replica, wait_ms: float, now_ms: float) -> None:
    """The leader is gone, or very likely so: look for the next one after `wait_ms`, not after the fetch
    timeout."""
    if isinstance(replica.role, Follower):
        wait_ms = wait_ms if replica.may_stand else 0.0
        replica.become_unattached(replica.epoch, wait_ms, now_ms)
    elif isinstance(replica.role, Unattached):
        replica.role.deadline_ms = min(replica.role.deadline_ms, now_ms + wait_ms)


def short_wait_ms(replica: Replica) -> float:
    """When all followers learn of a leader's end in the same moment, chance lets one of them be first. A replica that
    has lost a round waits longer: the leader may still answer the others."""
    wait_ms = replica.random() * replica.config.election_timeout_ms / 20
    return wait_ms + back_off_ms(replica) if replica.elections_lost else wait_ms
