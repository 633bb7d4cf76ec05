# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Operations whose derivative is a Python function over operations."""
from libc.stdlib cimport calloc, free
from ..base.dtypes cimport CATEGORY
from ..base.tensor cimport TensorBase, runtime
from .nodes cimport Node
from .history cimport attach, drop_base
from .saved cimport Slot, clear_slot, save_tensor, unpack_tensor
from .inplace cimport after_write, before_write, rebase
from ..base.callbacks import callbacks
from ..base.labels import saved_name
from ..base.parameters import described
cimport cython


cdef object derivative_op = None  # a formula as an operation
cdef object decomposed_op = None  # a formula of operations alone, as a composite


def set_derivative_ops(operation, composite) -> None:
    """The operations that interceptors see in place of what a formula calls: one of them whole, one as a composite."""
    global derivative_op, decomposed_op
    derivative_op, decomposed_op = operation, composite


@cython.binding(False)
cdef class FormulaNode(Node):
    """An operation whose derivative is a Python function over operations: `formula(grads, *saved, *extra)`.
    """

    def name(self) -> str:
        return self.label

    cdef list run(self, list grads):
        cdef list arguments
        cdef int k
        arguments = [grads[0] if self.outputs == 1 else tuple(grads)]
        for k in range(self.slots):
            arguments.append(unpack_tensor(&self.slot[k], self))
        arguments.extend(self.extra)
        if runtime.interceptors:
            result = (decomposed_op if self.declared else derivative_op)(self.label, self.formula, *arguments)
        else:
            result = self.formula(*arguments)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    cdef void drop(self):
        cdef int k
        for k in range(self.slots):
            clear_slot(&self.slot[k])

    cdef dict saved_places(self):
        if self.operation is not None:
            names = self.operation.saved_names(self.label)
        else:
            try:
                names = [saved_name(n, True) for n, _, _, _ in described(self.formula)][1:]
            except (TypeError, ValueError):
                return {}
            names = ["result" if n == "out" else n for n in names]
        return {names[k]: k for k in range(min(len(names), self.slots + len(self.extra))) if names[k] is not None}

    cdef object saved_value(self, str name, int place):
        if place < self.slots:
            return unpack_tensor(&self.slot[place], self)
        value = self.extra[place - self.slots]
        return value[0] if name == "dim" and self.operation is not None and self.operation.one_dim else value

    cdef void* saved_slot(self, int place):
        return &self.slot[place] if place < self.slots else NULL

    def __dealloc__(self):
        cdef int k
        for k in range(self.slots):
            clear_slot(&self.slot[k])
        free(self.slot)
        self.slots = 0


cdef bint in_slices(tuple tensors):
    """Whether one of them is a tensor inside of `vmap`, whose elements have the history."""
    for t in tensors:
        if t is not None and t._is_batched:
            return True
    return False


def record(str label, formula, tuple inputs, outputs, tuple saved=(), tuple extra=(), written=None) -> None:
    """Put an operation on the tape.

    `formula(grad, *saved, *extra)` returns a gradient (or None) for each of `inputs`; with several outputs,
    `grad` is a tuple.  `saved` are tensors (inputs or outputs); `extra` is anything else.  `written` is the
    input that an in-place operation overwrote, which then gets the new history.
    """
    if runtime.interceptors and in_slices(inputs):
        callbacks["record of slices"](label, formula, inputs, outputs, saved, extra, written)
        return
    cdef FormulaNode node = FormulaNode.__new__(FormulaNode)
    cdef int k, number
    cdef TensorBase t
    node.label, node.formula, node.extra = label, formula, extra
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    node.outputs = len(outputs)
    node.set_edges(len(inputs))
    if written is not None:
        before_write(<TensorBase?>written)
    try:
        for k in range(node.edges):
            if inputs[k] is not None:
                node.connect(k, <TensorBase?>inputs[k])
    finally:
        if written is not None:
            after_write(<TensorBase>written)
    if saved:
        node.slot = <Slot*>calloc(len(saved), sizeof(Slot))
        if node.slot == NULL:
            raise MemoryError
        node.slots = len(saved)
        for k in range(node.slots):
            t = <TensorBase?>saved[k]
            number = -1
            for j, out in enumerate(outputs):
                if out is t:
                    number = j
            save_tensor(&node.slot[k], t, number, <TensorBase>written)
    for k in range(node.outputs):
        if outputs[k] is written and written is not None:
            rebase(<TensorBase>written, node, k)
        elif outputs[k] is not None:
            drop_base(<TensorBase?>outputs[k], inputs)
            if CATEGORY[(<TensorBase>outputs[k]).code] >= 2:
                attach(<TensorBase>outputs[k], node, k)


cdef class Rule:
    """The derivative of a leaf operation: `formula`, and what its parameters are."""

    def __init__(self, formula, str label, tuple sources, tuple outputs, tuple names=()):
        self.formula, self.label, self.sources, self.outputs, self.names = formula, label, sources, outputs, names


@cython.binding(False)
cdef class LeafNode(Node):
    """A leaf operation that was recorded.  It saves arguments and results; its formula calls operations alone."""

    def name(self) -> str:
        return self.rule.label

    cdef list run(self, list grads):
        cdef list arguments = []
        cdef int k, source, slot = 0
        for k in range(<int>len(grads)):
            if grads[k] is not None:
                break
        else:
            return [None] * self.edges
        for k in range(<int>len(self.rule.sources)):
            source = self.rule.sources[k]
            if source == GRADS:
                arguments.append(tuple(grads))
            elif source == NEEDS:
                arguments.append(tuple([self.targets[j] != NULL for j in range(self.edges)]))
            elif source < 0:
                arguments.append(grads[GRAD - source])
            elif self.values[k] is SAVED:
                arguments.append(unpack_tensor(&self.slot[slot], self))
                slot += 1
            elif isinstance(self.values[k], Several):
                several = []
                for value in (<Several>self.values[k]).items:
                    if value is SAVED:
                        value = unpack_tensor(&self.slot[slot], self)
                        slot += 1
                    several.append(value)
                arguments.append(several)
            else:
                arguments.append(self.values[k])
        result = self.rule.formula(*arguments)
        arguments = list(result) if isinstance(result, (tuple, list)) else [result]
        return arguments + [None] * (self.edges - len(arguments))

    cdef void drop(self):
        cdef int k
        for k in range(self.slots):
            clear_slot(&self.slot[k])

    cdef dict saved_places(self):
        cdef int k
        return {self.rule.names[k]: k for k in range(<int>len(self.rule.names)) if self.rule.names[k] is not None}

    cdef int first_slot(self, int place):
        """The slot of what the formula's parameter at that place is given, or of its first tensor."""
        cdef int k, slot = 0
        for k in range(place):
            value = self.values[k]
            if value is SAVED:
                slot += 1
            elif isinstance(value, Several):
                slot += sum([item is SAVED for item in (<Several>value).items])
        return slot

    cdef object saved_value(self, str name, int place):
        cdef int slot = self.first_slot(place)
        value = self.values[place]
        if value is SAVED:
            return unpack_tensor(&self.slot[slot], self)
        if isinstance(value, Several):
            result = []
            for item in (<Several>value).items:
                if item is SAVED:
                    item = unpack_tensor(&self.slot[slot], self)
                    slot += 1
                result.append(item)
            return tuple(result)
        return value

    cdef void* saved_slot(self, int place):
        return &self.slot[self.first_slot(place)] if self.values[place] is SAVED else NULL

    def __dealloc__(self):
        cdef int k
        for k in range(self.slots):
            clear_slot(&self.slot[k])
        free(self.slot)
        self.slots = 0


cdef object SAVED = object()     # stands in `values` for a tensor in a slot


cdef class Several:
    """A sequence among what a formula reads."""

    cdef list items           # SAVED stands for tensors

    def __init__(self, list items):
        self.items = items


cdef object save(LeafNode node, object value, Rule rule, object results, TensorBase written):
    """SAVED for a tensor, which gets the next slot; anything else as it is.  `results` are those that it may be, None for an argument."""
    cdef int number = -1, j
    if not isinstance(value, TensorBase):
        return value
    if results is not None:
        for j in range(node.outputs):
            if (<tuple>results)[<int>rule.outputs[j]] is value:
                number = j
    save_tensor(&node.slot[node.slots], <TensorBase>value, number, written)
    node.slots += 1
    return SAVED


cdef int record_leaf(Rule rule, list inputs, tuple results, list values, TensorBase written) except -1:
    """Put a leaf operation on the tape: `values` are what the formula reads of arguments and results."""
    cdef LeafNode node = LeafNode.__new__(LeafNode)
    cdef int k
    cdef bint of_results
    cdef TensorBase t
    node.rule, node.outputs = rule, <int>len(rule.outputs)
    node.set_edges(<int>len(inputs))
    if written is not None:
        before_write(written)
    try:
        for k in range(node.edges):
            if isinstance(inputs[k], TensorBase):
                node.connect(k, <TensorBase>inputs[k])
    finally:
        if written is not None:
            after_write(written)
    cdef int tensors = 0
    for value in values:
        if isinstance(value, (list, tuple)):
            tensors += sum([isinstance(item, TensorBase) for item in value])
        else:
            tensors += isinstance(value, TensorBase)
    if tensors:
        node.slot = <Slot*>calloc(tensors, sizeof(Slot))
        if node.slot == NULL:
            raise MemoryError
    for k in range(<int>len(values)):
        value = values[k]
        # an argument that is the tensor written to is what it was before, and no result
        of_results = RESULT <= <int>rule.sources[k] < SHAPE
        if isinstance(value, (list, tuple)) and any([isinstance(item, TensorBase) for item in value]):
            values[k] = Several([save(node, item, rule, results if of_results else None, written) for item in value])
        else:
            values[k] = save(node, value, rule, results if of_results else None, written)
    node.values = tuple(values)
    for k in range(node.outputs):
        if results[<int>rule.outputs[k]] is None:      # one of several that was not wanted
            continue
        t = <TensorBase?>results[<int>rule.outputs[k]]
        if t is written:
            rebase(t, node, k)
        else:
            drop_base(t, inputs)
            if CATEGORY[t.code] >= 2:
                attach(t, node, k)
    return 0
