# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What a pointwise operation leaves on the tape: its derivative is a pointwise operation, too."""
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from cpython.object cimport PyObject
from ..base.dtypes cimport CATEGORY, dtype_of, size_from
from ..base.tensor cimport OP_ADD, TensorBase, operator_for, runtime, same_shape
from ..tape.nodes cimport NOT_SAVED, Node
from ..tape.saved cimport Slot, clear_slot, refuse_freed, save_tensor, unpack_tensor
from ..tape.inplace cimport after_write, before_write, rebase
from ..tape.history cimport attach
from .interceptors cimport note_copy
from .kernels cimport MAX_OPERANDS, MAX_OUTPUTS, MAX_PARAMS, Operand
from .destination cimport NEW
from .pointwise cimport PointwiseOp, copied, run, sum_to, tape_writer
from ..base.callbacks import callbacks
from ..base.labels import backward_name, saved_name
cimport cython


MOST_OPERANDS, MOST_RESULTS = MAX_OPERANDS, MAX_OUTPUTS

cdef enum:
    MAX_SOURCES = MAX_OPERANDS + 2 * MAX_OUTPUTS

cdef enum:                    # where a node keeps what is no tensor, from there on
    NUMBER = 1000
    PARAMETER = 2000
    CONSTANT = 3000


cdef class Derivation:
    """How an operation's gradients are computed for one choice of inputs: which results are the incoming
    gradient itself, and the operation that computes the others from gradients, inputs, outputs and
    parameters.
    """

    cdef PointwiseOp op
    cdef int count
    cdef int kinds[MAX_SOURCES]        # of op's operands: 0 gradient, 1 input, 2 output
    cdef int numbers[MAX_SOURCES]
    cdef int params[MAX_PARAMS]        # op's parameters: which parameter of the forward operation
    cdef tuple direct                  # for each input: the number of the gradient that it is, -1 computed, -2 none
    cdef tuple summands                # where one kernel does not take all operands: (operation, which of the sources its operands are,
                                       # its parameters, the number of the computed gradient that it is a summand of)

    def __cinit__(self, op, tuple sources, tuple params, tuple direct, tuple summands=()):
        cdef int k
        self.op, self.direct, self.count, self.summands = op, direct, len(sources), summands
        for k in range(len(sources)):
            self.kinds[k], self.numbers[k] = sources[k]
        for k in range(len(params)):
            self.params[k] = params[k]


@cython.no_gc
@cython.binding(False)
cdef class PointwiseNode(Node):
    """A recorded pointwise operation."""

    cdef PointwiseOp op
    cdef Derivation how
    cdef int slots
    cdef Slot* slot
    cdef Slot few[3]
    cdef Operand* numbers_          # operands that were numbers, by position in how.op's operands
    cdef double* params
    cdef object shapes              # for each input: None, or the shape its gradient is summed to
    cdef signed char codes[MAX_OPERANDS]

    def name(self):
        return self.op.label or backward_name(self.op.name)

    cdef list run(self, list grads):
        cdef Operand operands[MAX_SOURCES]
        cdef double params[MAX_PARAMS]
        cdef Derivation how = self.how
        cdef list held = [], result = []
        cdef int k, slot = 0, computed = 0
        cdef TensorBase t
        cdef object results = None, g
        if self.released and self.numbers_ != NULL:
            refuse_freed()                # PyTorch saves a number that the derivative reads as a tensor
        if how.count:
            for k in range(how.count):
                if how.kinds[k] == 0:
                    t = <TensorBase>grads[how.numbers[k]]
                    if t is None:
                        operands[k].tensor, operands[k].category, operands[k].real, operands[k].whole = NULL, 1, 0.0, 0
                    else:
                        operands[k].tensor = <PyObject*>t
                elif self.numbers_ != NULL and self.numbers_[k].category >= 0:
                    operands[k] = self.numbers_[k]
                else:
                    t = unpack_tensor(&self.slot[slot], self)
                    slot += 1
                    held.append(t)
                    operands[k].tensor = <PyObject*>t
            if how.summands:
                results = by_summands(how, operands, self.params)
            else:
                for k in range(how.op.params):
                    params[k] = self.params[how.params[k]]
                results = call_op(how.op, operands, params) if runtime.observers else run(how.op, operands, params, NULL, NEW)
        for k in range(self.op.operands):
            number = <int>how.direct[k]
            if number == -2:
                g = None
            elif number >= 0:
                g = grads[number]
            else:
                g = results[computed] if how.summands or how.op.outputs > 1 else results
                computed += 1
            if g is not None:
                if self.shapes is not None and self.shapes[k] is not None:
                    g = sum_to(<TensorBase>g, self.shapes[k])
                if (<TensorBase>g).code != self.codes[k]:
                    g = g.to(dtype_of(self.codes[k]))
            result.append(g)
        results = None
        return result

    cdef object push(self, int number, list tangents, TensorBase out):
        """By a kernel of its own where result and operands are real."""
        cdef Operand operands[MAX_OPERANDS]
        cdef double params[MAX_PARAMS]
        cdef Derivation how = self.how
        cdef PointwiseOp op
        cdef list saved = [], held = []
        cdef int k, mask = 0, n = 0, slot = 0, moving = 0
        cdef bint real = CATEGORY[out.code] == 2
        cdef TensorBase t
        for k in range(self.edges):
            if self.targets[k] != NULL:
                mask |= 1 << k
                moving += 1
                real = real and CATEGORY[self.codes[k]] == 2
        if not real or moving + how.count > MAX_OPERANDS:
            return None
        for k in range(how.count):
            if how.kinds[k] == 0:
                continue
            if self.numbers_ != NULL and self.numbers_[k].category >= 0:
                real = real and self.numbers_[k].category != 3
            else:
                t = unpack_tensor(&self.slot[len(saved)], self)
                saved.append(t)
                real = real and CATEGORY[t.code] != 3
        if not real:
            return None
        known = self.op.derivations.get((mask, number))
        if known is None:
            known = self.op.derivations[mask, number] = self.op.declaration.tangent(mask, number)
        if known[0] is None:
            return (<object>out).new_zeros((<object>out).shape)
        op = known[0]
        for k in known[1]:
            if tangents[k] is None:
                operands[n].tensor, operands[n].category, operands[n].real, operands[n].whole = NULL, 1, 0.0, 0
            else:
                t = <TensorBase>tangents[k]
                if t.code != out.code:
                    t = converted(t, out.code)
                    held.append(t)
                operands[n].tensor = <PyObject*>t
            n += 1
        for k in range(how.count):
            if how.kinds[k] == 0:
                continue
            if self.numbers_ != NULL and self.numbers_[k].category >= 0:
                operands[n] = self.numbers_[k]
            else:
                operands[n].tensor = <PyObject*><TensorBase>saved[slot]
                slot += 1
            n += 1
        for k in range(op.params):
            params[k] = self.params[how.params[k]]
        t = <TensorBase>(call_op(op, operands, params) if runtime.observers else run(op, operands, params, NULL, NEW))
        if t.code != out.code:
            t = converted(t, out.code)
        if not same_shape(t, out):
            t = (<object>t).expand((<object>out).shape)
        return t

    cdef void drop(self):
        cdef int k
        for k in range(self.slots):
            clear_slot(&self.slot[k])

    cdef str read_name(self, Derivation how, int k):
        """What stands behind a derivation's operand, "" for a gradient."""
        cdef int number = how.numbers[k]
        if how.kinds[k] == 0:
            return ""
        if how.kinds[k] == 1:
            return saved_name(self.op.names[number], number == 0)
        return "result" if self.op.outputs == 1 else f"result{number}"

    cdef dict saved_places(self):
        cdef dict result = {}
        cdef Derivation every = all_derivation(self)
        cdef int k, j, slot = 0
        for k in range(every.count):
            result[self.read_name(every, k)] = NOT_SAVED
        for _, _, numbers, _ in every.summands or ((None, None, [every.params[j] for j in range(0 if every.op is None else every.op.params)], 0),):
            for j in numbers:
                result[self.op.names[self.op.operands + j]] = PARAMETER + j
        for k in range(self.how.count):
            if self.how.kinds[k] == 0:
                continue
            if self.numbers_ != NULL and self.numbers_[k].category >= 0:
                result[self.read_name(self.how, k)] = NUMBER + k
            else:
                result[self.read_name(self.how, k)] = slot
                slot += 1
        result.pop("", None)
        for name in self.constants():
            result[name] = CONSTANT
        return result

    cdef dict constants(self):
        """Numbers that PyTorch's operation is given where this one is for them alone."""
        return {} if self.op.entry is None else self.op.entry.details.get("constants", {})

    cdef object saved_value(self, str name, int place):
        if place < NUMBER:
            return unpack_tensor(&self.slot[place], self)
        if place == CONSTANT:
            return self.constants()[name]
        if place >= PARAMETER:
            return self.params[place - PARAMETER]
        if name not in ("self", "other"):
            return number_of(&self.numbers_[place - NUMBER])
        if self.released:
            refuse_freed()
        return callbacks["as_tensor"](number_of(&self.numbers_[place - NUMBER]))

    cdef void* saved_slot(self, int place):
        return &self.slot[place] if place < NUMBER else NULL

    def __dealloc__(self):
        cdef int k
        for k in range(self.slots):
            clear_slot(&self.slot[k])
        if self.slot != self.few:
            free(self.slot)
        self.slots = 0
        free(self.numbers_)
        free(self.params)


cdef Derivation all_derivation(PointwiseNode node):
    """The derivation where every operand wants a gradient that can have one."""
    cdef PointwiseOp op = node.op
    cdef int mask = 0, k
    for key, how in op.derivations.items():
        if how is node.how:
            mask = <int>key & ~0xFFFF
    for k in range(op.operands):
        if op.names[k] not in op.declaration.raw:
            mask |= 1 << k
    derivation = op.derivations.get(mask)
    if derivation is None:
        derivation = op.derivations[mask] = op.declaration.derivation(mask & 0xFFFF, mask >> 16)
    return <Derivation>derivation


cdef object number_of(const Operand* operand):
    """A number among the operands as Python's."""
    if operand.category == 3:
        return complex(operand.real, operand.imag)
    if operand.category == 2:
        return operand.real
    return (bool(operand.whole) if operand.category == 0 else
            int(operand.real) if operand.whole < 0 < operand.real else operand.whole)


cdef TensorBase converted(TensorBase t, int code):
    """A tangent in that dtype, by a call that interceptors see."""
    return <TensorBase>(<object>t).to(dtype_of(code)) if runtime.observers else copied(t, code, False)


cdef list by_summands(Derivation how, Operand* sources, double* given):
    """The gradients of a derivation in parts; None where no gradient arrived for any summand."""
    cdef Operand operands[MAX_OPERANDS]
    cdef double params[MAX_PARAMS]
    cdef PointwiseOp op
    cdef list result = []
    cdef int k, source
    cdef bint arrived
    for part in how.summands:
        op, places, numbers, number = part
        arrived = False
        for k in range(op.operands):
            source = places[k]
            operands[k] = sources[source]
            arrived = arrived or (how.kinds[source] == 0 and operands[k].tensor != NULL)
        for k in range(op.params):
            params[k] = given[<int>numbers[k]]
        while len(result) <= number:
            result.append(None)
        if arrived:
            term = call_op(op, operands, params) if runtime.observers else run(op, operands, params, NULL, NEW)
            result[number] = term if result[number] is None else runtime.binary(operator_for(OP_ADD), result[number], term)
    return result


cdef object call_op(PointwiseOp op, Operand* operands, double* params):
    """The call as a program would make it, so that interceptors see it."""
    cdef int k
    cdef list args = []
    for k in range(op.operands):
        if operands[k].tensor != NULL:
            args.append(<object>operands[k].tensor)
        else:
            args.append(number_of(&operands[k]))
    for k in range(op.params):
        args.append(params[k])
    return op(*args)


cdef inline int wanted_inputs(PointwiseOp op, Operand* operands):
    """Bit k: operand k wants a gradient; bit 16 + k: it is complex."""
    cdef int k, mask = 0
    cdef TensorBase t
    for k in range(op.operands):
        if operands[k].tensor != NULL:
            t = <TensorBase>operands[k].tensor
            if CATEGORY[t.code] >= 2:
                if t.requires:
                    mask |= 1 << k
                if CATEGORY[t.code] == 3:
                    mask |= 1 << (16 + k)
        elif operands[k].category == 3:
            mask |= 1 << (16 + k)
    return mask


cdef Derivation derivation_for(PointwiseOp op, Operand* operands):
    cdef int mask = wanted_inputs(op, operands)
    known = op.derivations.get(mask)
    if known is None:
        known = op.declaration.derivation(mask & 0xFFFF, mask >> 16)
        op.derivations[mask] = known
    return <Derivation>known


cdef int record_pointwise(PointwiseOp op, Operand* operands, double* params, object results, int common, TensorBase written,
                          TensorBase original) except -1:
    """Put the call on the tape, keeping just what its derivative reads."""
    cdef PointwiseNode node
    cdef Derivation how
    cdef TensorBase t, out
    cdef int k, mask, slot = 0, saved = 0
    out = <TensorBase>results if op.outputs == 1 else <TensorBase>results[0]
    if op.outputs == 1 and CATEGORY[out.code] < 2:
        return 0
    mask = wanted_inputs(op, operands)
    how = derivation_for(op, operands)
    node = PointwiseNode.__new__(PointwiseNode)
    node.op, node.how, node.outputs = op, how, op.outputs
    node.set_edges(op.operands)
    shapes = None
    if written is not None:
        before_write(written)
    for k in range(op.operands):
        if mask >> k & 1:
            t = <TensorBase>operands[k].tensor
            node.codes[k] = t.code
            node.connect(k, t)
            if not same_shape(t, out):
                if shapes is None:
                    shapes = [None] * op.operands
                shapes[k] = size_from(t.rank, t.sizes)
    if written is not None:
        after_write(written)
    node.shapes = shapes
    for k in range(how.count):
        saved += how.kinds[k] != 0
    if saved:
        if saved <= 3:
            node.slot = node.few
        else:
            node.slot = <Slot*>calloc(saved, sizeof(Slot))
            if node.slot == NULL:
                raise MemoryError
        node.slots = saved  # empty ones too are cleared, should a hook on saved tensors raise
        for k in range(how.count):
            if how.kinds[k] == 1:
                if operands[how.numbers[k]].tensor == NULL:
                    if node.numbers_ == NULL:
                        node.numbers_ = no_numbers(how.count)
                    node.numbers_[k] = operands[how.numbers[k]]
                    continue
                t = <TensorBase>operands[how.numbers[k]].tensor
                save_tensor(&node.slot[slot], original if t is written else t, -1, written)
                slot += 1
            elif how.kinds[k] == 2:
                save_tensor(&node.slot[slot], <TensorBase>(results if op.outputs == 1 else results[how.numbers[k]]), how.numbers[k])
                slot += 1
        node.slots = slot
    if op.params and params != NULL:
        node.params = <double*>calloc(op.params, sizeof(double))
        memcpy(node.params, params, op.params * sizeof(double))
    if written is not None:
        rebase(written, node, 0)
    elif op.outputs == 1:
        attach(out, node, 0)
    else:
        for k in range(op.outputs):
            if CATEGORY[(<TensorBase>results[k]).code] >= 2:
                attach(<TensorBase>results[k], node, k)
    return 0


cdef Operand* no_numbers(int n) except NULL:
    cdef Operand* made = <Operand*>calloc(n, sizeof(Operand))
    cdef int k
    if made == NULL:
        raise MemoryError
    for k in range(n):
        made[k].category = -1
    return made


cdef TensorBase overwritten_input(PointwiseOp op, Operand* operands, TensorBase out):
    """A copy of what an in-place operation is about to overwrite, where its derivative reads that."""
    cdef Derivation how = derivation_for(op, operands)
    cdef TensorBase kept
    cdef int k
    for k in range(how.count):
        if how.kinds[k] == 1 and operands[how.numbers[k]].tensor == <PyObject*>out:
            kept = copied(out, out.code, False)
            note_copy(out, kept)
            return kept
    return None


tape_writer.record = record_pointwise
tape_writer.overwritten = overwritten_input
