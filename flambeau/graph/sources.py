"""What a captured function reads beside constants, and what must hold of it: the contract between capture and guards.

A `Source` says how a value is found again at each call; a `Guard` says what has to hold of it for the capture to be right.  Guards are in
the order in which the program read: a guard may rely on those before it (an item of a list comes after the list's class and length).

>>> from flambeau.graph.sources import Arguments, Item
>>> Item(Arguments(), 0)
args[0]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..core.base.tensor import TensorBase
    from .record import Recording


@dataclass(frozen=True)
class Source:
    """How a value is found at a call."""


@dataclass(frozen=True, repr=False)
class Arguments(Source):
    """The tuple of positional arguments."""

    def __repr__(self) -> str:
        return "args"


@dataclass(frozen=True, repr=False)
class Keywords(Source):
    """The dict of keyword arguments."""

    def __repr__(self) -> str:
        return "kwargs"


@dataclass(frozen=True, repr=False, eq=False)
class Object(Source):
    """An object that is held: a function, a namespace, a class."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Object) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        return getattr(self.value, "__qualname__", type(self.value).__name__)


@dataclass(frozen=True, repr=False)
class Item(Source):
    """`of[key]` of a dict, list or tuple, as these classes themselves find it."""

    of: Source
    key: Any

    def __repr__(self) -> str:
        key = (
            self.key
            if isinstance(self.key, (str, bytes, int, float, tuple, type(None)))
            else Object(self.key)
        )
        return f"{self.of}[{key!r}]"


@dataclass(frozen=True, repr=False)
class Namespace(Source):
    """The `__dict__` of an instance."""

    of: Source

    def __repr__(self) -> str:
        return f"{self.of}.__dict__"


@dataclass(frozen=True, repr=False)
class Attribute(Source):
    """What `getattr(of, name)` gives, where that is more than an entry of the instance's `__dict__`."""

    of: Source
    name: str

    def __repr__(self) -> str:
        return f"{self.of}.{self.name}"


@dataclass(frozen=True, repr=False)
class Contents(Source):
    """What a closure's cell holds."""

    of: Source

    def __repr__(self) -> str:
        return f"{self.of}.cell_contents"


@dataclass(frozen=True, repr=False)
class End(Source):
    """Behind the last item of a list, where a call appends its value of that number."""

    of: Source
    number: int

    def __repr__(self) -> str:
        return f"{self.of}[len():]"


@dataclass(frozen=True, repr=False)
class Computed(Source):
    """What a function in C makes of one or two numbers, and of nothing else; of none: what a function with a cache gives."""

    function: Callable[..., Any]
    of: tuple[Source, ...]

    def __repr__(self) -> str:
        name = getattr(self.function, "func", self.function).__name__
        return f"{name}({', '.join(map(repr, self.of or getattr(self.function, 'args', ())))})"


@dataclass(frozen=True, repr=False)
class ItemOf(Source):
    """A number that a call of the recording reads of a tensor: no guard can ask for it, since it is there within a run alone."""

    call: int

    def __repr__(self) -> str:
        return f"item {self.call}"


def is_item(source: Source) -> bool:
    """Whether a number is one that is found within a run, or made of such."""
    return isinstance(source, ItemOf) or (isinstance(source, Computed) and any(map(is_item, source.of)))


@dataclass(frozen=True)
class Guard:
    """What must hold of a source's value."""

    source: Source


@dataclass(frozen=True)
class Is(Guard):
    """It is this object."""

    value: Any


@dataclass(frozen=True)
class Same(Guard):
    """It is the object that another source gives."""

    other: Source


@dataclass(frozen=True)
class Equals(Guard):
    """It is of the value's own class and equal to it: None, numbers (NaN equals NaN, -0.0 is not 0.0), str, bytes,
    dtypes, devices, slices, and tuples of these.
    """

    value: Any


@dataclass(frozen=True)
class ClassIs(Guard):
    """It is of exactly this class, and nobody has changed an attribute of that class or its bases."""

    value: type


@dataclass(frozen=True)
class Length(Guard):
    """A list or tuple with so many items."""

    value: int


@dataclass(frozen=True)
class Keys(Guard):
    """A dict with these keys in this order."""

    value: tuple[Any, ...]


@dataclass(frozen=True)
class Lacks(Guard):
    """A dict without this key."""

    value: Any


@dataclass(frozen=True)
class TensorLike(Guard):
    """A tensor with the class, dtype, device, shape, strides, offset (where its storage has been met), `requires_grad`, tape state and
    storage sharing of `value`, as they were before the program ran: input number `index` of the graph.
    """

    value: TensorBase
    index: int


@dataclass(frozen=True)
class NumberLike(Guard):
    """A number of exactly this class (float, or int of 64 bits), whatever it is: input number `index` of the graph, after all tensors,
    as a tensor without dimensions (float64 or int64).
    """

    value: type
    index: int


@dataclass
class Refusal:
    """Why a function was not captured whole, and where; `derivative`: it was, but Python has a part in its derivative."""

    why: str
    filename: str = ""
    line: int = 0
    derivative: bool = False

    def __str__(self) -> str:
        return f"{self.filename}:{self.line}: {self.why}" if self.line else self.why


@dataclass(frozen=True)
class Number:
    """A number of Python's that is returned, float or int: what lies in a tensor without dimensions."""

    tensor: TensorBase  # stands for the place; its elements are none


@dataclass(frozen=True, eq=False)
class Made:
    """An object that the call made and returns, made anew at each call: `cls` of `items` (those of a list, tuple or set, or pairs
    of keys and values of a dict), with `state` in its `__dict__`.

    Items and values of `state` are what `Capture.output` may be.  An object that is found at two places of a result is one `Made`.
    """

    cls: type
    items: tuple[Any, ...]
    state: dict[str, Any] | None = None


@dataclass(frozen=True)
class Look:
    """A tensor of one bool that the call has looked at: a later call is the same where it finds the same value there."""

    tensor: TensorBase  # stands for the place; its elements are none
    value: bool
    refusal: Refusal  # what refuses the capture where such guesses are not wanted
    own: bool  # the program's own, and not a check within this library


@dataclass
class Capture:
    """A call as it ran once: what it returned, the leaves that it called, and what both depend on.

    `refusal` is None where every later call that fulfils the guards does the same with the tensors that it finds at `inputs`.  What holds
    beside the guards is the state of the thread (gradients, autocast, modes, default dtype and device), the same before and
    after the call; and that nobody replaces code or defaults of a function.

    `output` says how to make the result anew: a `Source` for an object that was there before the call, an input among them; a
    tensor that the recording made; a `Made`; else a constant.  `writes` has what the call leaves in objects that were there before it: the
    places (entries of dicts, of an instance's `__dict__` and of lists, contents of cells, `grad` of tensors), each with what `output`
    says of a result; `cleared` those that it set to None first.  `freed` are nodes of the tape that a backward pass within the call has run
    through, after `ahead` calls.  `lines` has the program's file and line of each call of the recording.

    `numbers` are objects among the arguments of the recording's calls, each with the input that it is read from; the last inputs are
    these.  `looks` are what else the call depends on: values of tensors that it makes itself.  `again` has, of the recording's calls, those
    of checkpointed regions, which backward is to make again, each with the number of its region.
    """

    result: Any
    recording: Recording
    guards: list[Guard] = field(default_factory=list)
    inputs: list[tuple[Source, TensorBase]] = field(default_factory=list)
    refusal: Refusal | None = None
    output: Any = None
    writes: list[tuple[Source, Any]] = field(default_factory=list)
    freed: list[Any] = field(default_factory=list)
    ahead: int | None = None
    cleared: frozenset[Source] = frozenset()
    lines: list[tuple[str, int]] = field(default_factory=list)
    numbers: list[tuple[float, int]] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    again: dict[int, int] = field(default_factory=dict)

    def unless_guessed(self) -> Refusal | None:
        """Why it is not whole where the program's own looks at values are not guessed; checks within this library are."""
        return self.refusal or next((look.refusal for look in self.looks if look.own), None)
