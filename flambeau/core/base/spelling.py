"""What somebody may have meant by a name that is none: the ends of messages."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that a word is nearest to: but for case and underscores, by its initials, by its letters, as a part; else None.

    >>> from flambeau.core.base.spelling import nearest
    >>> nearest("learning_rate", ["params", "lr"]), nearest("dims", ["input", "dim"]), nearest("kernel", ["stride", "kernel_size"])
    ('lr', 'dim', 'kernel_size')
    """
    names = [name for name in known if not name.startswith("_")]
    plain = {name.replace("_", "").lower(): name for name in names}
    if (same := plain.get(word.replace("_", "").lower())) is not None:
        return same
    initials = "".join(part[:1] for part in word.lower().split("_"))
    if len(initials) > 1 and initials in names:
        return initials
    from difflib import get_close_matches  # seldom needed, and slow to import

    close = get_close_matches(word, names, 1)
    if close:
        return close[0]
    parts = set(word.split("_"))
    return next(
        (name for name in names if parts <= set(name.split("_")) or set(name.split("_")) <= parts), None
    )


def hint(word: str, known: Iterable[str]) -> str:
    """The end of a message about a name that is not known: "; did you mean 'dim'?", or nothing.

    >>> from flambeau.core.base.spelling import hint
    >>> hint("dims", ["input", "dim"]), hint("x", ["input", "dim"])
    ("; did you mean 'dim'?", '')
    """
    result = nearest(word, known)
    return "" if result is None else f"; did you mean '{result}'?"
