"""Which word comes nearest to one that is not known."""

from collections.abc import Iterable


def nearest(word: str, words: Iterable[str]) -> str:
    """What is added to a complaint about `word`; nothing if none of `words` comes near."""
    from difflib import get_close_matches

    found = get_close_matches(word, list(words), 1)
    return f"; did you mean {found[0]}?" if found else ""


def sentence(complaint: str, hint: str, todo: str) -> str:
    """What is wrong, perhaps the word that was meant, and what to do."""
    return f"{complaint}{hint}{'' if hint.endswith('?') else '.'} {todo}"
