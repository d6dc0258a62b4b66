"""Refusals of topic names."""

from rookery.core.errors import InvalidTopicError
from rookery.core.metadata.topic_names import problem_with


def check_topic_name(name: str) -> None:
    """Raises InvalidTopicError unless `name` can be a topic."""
    problem = problem_with(name)
    if problem is not None:
        raise InvalidTopicError(problem)


def check_collision(name: str, other: str | None) -> None:
    """`other` is the topic that metrics would call the same, if there is one."""
    if other is not None and other != name:
        raise InvalidTopicError(f"{name!r} collides with {other!r}: '.' and '_' mean the same in metrics")
