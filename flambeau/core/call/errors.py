"""What messages of errors say of the call: the name of the operation that was called, not of one inside it; what a keyword may mean."""

from __future__ import annotations

import re

from ..base.parameters import signature
from ..base.spelling import hint

# "gather(): …", "linalg.inv: …": how messages name the operation that raises.
_RAISER = re.compile(r"^(?:[A-Za-z_][\w.]*\(\)|(?:linalg|fft|special)\.\w+)(?=:? )")
# What Python says of the arguments of an `__init__`.
_OF_INIT = re.compile(
    r"^(?P<init>[\w.<>]+\.__init__)(?P<rest>\(\) (?:got|missing|takes) (?:an unexpected keyword argument '(?P<unknown>\w+)'|.*))$"
)
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


def explain_init(error: TypeError, cls: type) -> None:
    """Let Python's error about the arguments of an `__init__` name a public class, and say which keyword was meant.

    It may be about the class's own, a base's, or that of another class, which has said this already.
    """
    result = _OF_INIT.match(error.args[0]) if error.args and isinstance(error.args[0], str) else None
    if result is None:
        return
    for base in cls.__mro__:
        init = vars(base).get("__init__")
        if init is not None and getattr(init, "__qualname__", None) == result["init"]:
            shown = f"{cls.__name__}.__init__" if base.__name__.startswith("_") else result["init"]
            meant = hint(result["unknown"], signature(init).parameters) if result["unknown"] else ""
            error.args = (f"{shown}{result['rest']}{meant}", *error.args[1:])
            return
