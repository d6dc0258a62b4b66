"""The error table is complete and says what other implementations say."""

import pickle

import kafka.errors
import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from rookery.core import errors
from rookery.core.errors import ErrorCode, KafkaError, NotLeaderOrFollowerError, UnknownServerError, error_for

FAILURES = [code for code in ErrorCode if code is not ErrorCode.NONE]

# Subclasses of the Java client's InvalidMetadataException.
REFRESH_METADATA = {3, 5, 6, 9, 13, 56, 72, 74, 80, 83, 84, 100, 103}


def exception_classes() -> list[type[KafkaError]]:
    members = vars(errors).values()
    return [c for c in members if isinstance(c, type) and issubclass(c, KafkaError) and c is not KafkaError]


def test_codes_have_no_gap() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 137))


def test_names_and_retriability_agree_with_kio() -> None:
    for theirs in KioErrorCode:
        ours = ErrorCode(theirs.value)
        assert ours.name == theirs.name.upper()
        assert ours.retriable is theirs.retriable, ours.name


def test_codes_agree_with_kafka_python() -> None:
    theirs = {getattr(cls, "errno", None) for cls in vars(kafka.errors).values() if isinstance(cls, type)}
    assert len(theirs) > 120
    assert theirs - {None} <= {int(code) for code in ErrorCode}


def test_codes_that_ask_for_fresh_metadata() -> None:
    assert {int(code) for code in ErrorCode if code.stale_metadata} == REFRESH_METADATA
    assert all(code.retriable for code in ErrorCode if code.stale_metadata)


def test_every_failure_has_exactly_one_class_named_after_it() -> None:
    classes = exception_classes()
    assert sorted(c.code for c in classes) == sorted(FAILURES)
    for cls in classes:
        words = cls.code.name.removesuffix("_ERROR").removesuffix("_EXCEPTION").split("_")
        assert cls.__name__ == "".join(word.capitalize() for word in words) + "Error"


def test_every_text_is_a_sentence_of_its_own() -> None:
    texts = [code.text for code in ErrorCode]
    assert len(set(texts)) == len(texts)
    assert all(text.endswith(".") and "  " not in text for text in texts)


@pytest.mark.parametrize("code", FAILURES)
def test_code_to_exception_and_back(code: ErrorCode) -> None:
    error = error_for(int(code), "topic orders")
    assert error.code is code
    assert error.retriable is code.retriable
    assert str(error) == f"{code.name}: topic orders"
    assert str(error_for(code)) == f"{code.name}: {code.text}"


def test_an_unknown_code_is_an_unknown_server_error_that_names_it() -> None:
    error = error_for(9999, "from a newer broker")
    assert isinstance(error, UnknownServerError)
    assert "9999" in str(error)
    assert "from a newer broker" in str(error)


def test_success_has_no_exception() -> None:
    with pytest.raises(ValueError, match="success"):
        error_for(0)


def test_errors_are_caught_by_their_type_and_travel_between_processes() -> None:
    with pytest.raises(NotLeaderOrFollowerError):
        raise error_for(6)
    copy = pickle.loads(pickle.dumps(error_for(6, "orders-3")))
    assert isinstance(copy, NotLeaderOrFollowerError)
    assert copy.message == "orders-3"
