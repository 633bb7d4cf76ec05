"""Values that are read in the place of others, because they hold the same."""

from __future__ import annotations

from ..program import Program, Value
from ..trace import mapped


class Standing:
    """Which value of a program is read in the place of which; `enter` changes the program.

    >>> import flambeau as torch
    >>> from flambeau.graph.passes.standing import Standing
    >>> from flambeau.graph.program import Program
    >>> from flambeau.graph.trace import record
    >>> program = Program(record(lambda x: (x.exp(), x.exp().T + 1)[1], torch.zeros(2, 3))[0])
    >>> first, second = (call.results[0] for call in program.calls[:2])
    >>> standing = Standing(program)
    >>> standing.may(first, second)
    True
    >>> standing.put(first, second)
    >>> standing.enter()
    >>> program.calls[-1]
    %4: float32[3, 2] = add(%3, 1)
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.others: dict[Value, Value] = {}
        self.views: dict[Value, Value] = {}
        self.returned = {v.root for v in program.results()}
        self.read_otherwise = {v.root for v in program.values if v.dtype != v.root.dtype}

    def may(self, other: Value, value: Value) -> bool:
        """Whether `other` may be read wherever `value`, which a later call makes and which holds the same, is.

        Nothing is written to either; where the program returns the value, the other becomes a result, so it is none yet, and new memory.
        """
        program = self.program
        if value.root is not value or value in self.read_otherwise or program.is_written(value):
            return False
        if program.is_written(other) or value.device is not other.device:
            return False
        a, b = other.place, value.place
        if (a.shape, a.stride, a.dtype) != (b.shape, b.stride, b.dtype):
            return False
        if value in self.returned:
            return other.root is other and other.call is not None and other not in self.returned
        return True

    def put(self, other: Value, value: Value) -> None:
        """From now on `other` is read in the place of `value`."""
        self.others[value] = other
        if value in self.returned:
            self.returned.add(other.root)

    def of(self, value: Value) -> Value:
        """What is read in the place of a value, or of what it is a view of; itself where nothing is."""
        other = self.others.get(value.root)
        if other is None:
            return value
        if value is value.root:
            return other
        if value not in self.views:
            root = value.root
            offset = value.place.offset - root.place.offset + other.place.offset
            place = value.place._replace(storage=other.place.storage, offset=offset)
            self.views[value] = Value(value.number, place, other.root.call, other.root)
            self.program.values.append(self.views[value])
        return self.views[value]

    def enter(self) -> None:
        """Let calls read, and the program return, what stands for others."""
        if not self.others:
            return
        program = self.program
        for call in program.calls:
            arguments = mapped((call.args, call.kwargs), Value, self.of)
            if arguments != (call.args, call.kwargs):
                call.set_arguments(*arguments)
        program.outputs = mapped(program.outputs, Value, self.of)
        program.order()
