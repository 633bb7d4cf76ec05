"""Whose error it is: the message of an error names the operation that was called, not one inside it."""

from __future__ import annotations

import re

# "gather(): …", "linalg.inv: …": how messages name the operation that raises.
_RAISER = re.compile(r"^(?:[A-Za-z_][\w.]*\(\)|(?:linalg|fft|special)\.\w+)(?=:? )")
# What the core says of an index, without a name: indexing says so, too.
_INDEX = re.compile(r"^index -?\d+ is out of bounds for dimension")


def ascribe(error: Exception, who: str) -> None:
    """Put the name of the operation that was called in the place of the one inside it that raised the error.

    Messages that begin with no operation's name stay as they are: they may be those of a function that was handed in.
    """
    if len(error.args) != 1 or not isinstance(error.args[0], str):
        return
    text = error.args[0]
    named = _RAISER.match(text)
    if _INDEX.match(text):
        error.args = (f"{who}(): {text}",)
    elif named is not None and named[0].rpartition(".")[2] not in (who, f"{who}()"):
        error.args = (f"{who}(){text[named.end() :]}",)
