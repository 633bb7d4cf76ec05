# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Calls of a user's `autograd.Function`."""
from libc.stdlib cimport calloc, free
from ..base.dtypes cimport dtype_of, CATEGORY, size_from
from ..base.callbacks import callbacks
from ..base.tensor cimport IN_FUNCTION, TensorBase, alias, runtime
from .modes cimport autocast_on, casting, set_casting, wants_grad
from .nodes cimport NOT_SAVED, Node
from .gradients cimport summed
from .engine import set_own_code
from .forward cimport pushed_level
from .history cimport attach, drop_base
from .saved cimport Slot, clear_slot, save_tensor, unpack_tensor
from .saved import SavedTensor
from .inplace cimport rebase
cimport cython


@cython.binding(False)
cdef class FunctionNode(Node):
    """A call of a user's `autograd.Function`."""

    cdef object function, context
    cdef list places          # of the tensors among the arguments
    cdef list sizes           # theirs
    cdef list categories      # and of what kind their elements are
    cdef list shapes          # of the outputs, dtypes and devices: for zeros where no gradient arrived
    cdef int slots
    cdef Slot* slot
    cdef list absent          # which saved entries were None: for backward, and after them for jvp
    cdef int ahead            # where those for jvp begin among these
    cdef bint fresh           # the call is being recorded: meanwhile
    cdef object pushed        # the outputs' tangents
    cdef int pushed_in        # and in which level
    cdef list kinds           # dtypes and devices of the tensors among the arguments: for tangents that are zero

    def name(self) -> str:
        return self.function.__name__ + "Backward"

    cdef object push(self, int number, list tangents, TensorBase out):
        cdef int k
        context = self.context
        if self.pushed is None or self.pushed_in != pushed_level():
            given = [None] * len(context.needs_input_grad)
            for k in range(self.edges):
                given[self.places[k]] = tangents[k]
                if tangents[k] is None and context._materialize:
                    dtype, device = self.kinds[k]
                    given[self.places[k]] = callbacks["zeros"](self.sizes[k], dtype=dtype, device=device)
            node, context._node = context._node, None
            context._forward = self.held(self.ahead, len(self.absent)) or self.saved()
            try:
                result = self.function.jvp(context, *given)
            finally:
                context._node, context._forward = node, ()
            result = result if isinstance(result, (tuple, list)) else (result,)
            if self.fresh:
                self.pushed, self.pushed_in = result, pushed_level()
        else:
            result = self.pushed
        if len(result) != self.outputs:
            raise RuntimeError(f"{self.name()}: jvp returned {len(result)} tangents for {self.outputs} outputs")
        result = result[number]
        return (<object>out).new_zeros((<object>out).shape) if result is None else result

    @property
    def saved_tensors(self):
        """What `save_for_backward` saved."""
        return self.saved()

    @property
    def _raw_saved_tensors(self):
        """What `save_for_backward` saved, before it is unpacked."""
        cdef int k, slot = 0
        result = []
        for k in range(self.ahead):
            result.append(SavedTensor(self, NOT_SAVED if self.absent[k] else slot))
            slot += not self.absent[k]
        return tuple(result)

    cdef void* saved_slot(self, int place):
        return &self.slot[place]

    def __getattr__(self, key):
        return getattr(self.context, key)

    def saved(self) -> tuple:
        return self.held(0, self.ahead)

    cdef tuple held(self, int first, int last):
        """The saved entries with these numbers."""
        cdef int k, position = first - sum(self.absent[:first])
        result = []
        for k in range(first, last):
            if self.absent[k]:
                result.append(None)
            else:
                result.append(unpack_tensor(&self.slot[position], self))
                position += 1
        return tuple(result)

    cdef list run(self, list grads):
        cdef int k
        if self.context._materialize:
            for k in range(len(grads)):
                if grads[k] is None and self.shapes[k] is not None:
                    grads[k] = callbacks["zeros"](self.shapes[k][0], dtype=self.shapes[k][1], device=self.shapes[k][2])
        self.context._node = self
        cdef unsigned int cast = casting()
        set_casting(autocast_on())  # a program's own code runs as it does around the pass
        try:
            result = self.function.backward(self.context, *grads)
        finally:
            set_casting(cast)
            self.context._node = None  # node -> context -> node would be a cycle
        return self.due(result if isinstance(result, tuple) else (result,))

    cdef list due(self, tuple result):
        """What `backward` returned, as the gradients of the tensors among the arguments.  That of one that wants none is not looked
        at, whatever its shape, but it is a tensor or None."""
        cdef int k, edge = 0
        cdef list wanted = []
        cdef int arguments = len(self.context.needs_input_grad)
        if len(result) > arguments and all([g is None for g in result[arguments:]]):
            result = result[:arguments]
        if len(result) != arguments:
            raise RuntimeError(f"function {self.name()} returned an incorrect number of gradients (expected {arguments}, got "
                               f"{len(result)})")
        for k in range(arguments):
            given = result[k]
            if edge == self.edges or <int>self.places[edge] != k:
                if given is not None:
                    raise RuntimeError(f"function {self.name()} returned a gradient different than None at position {k + 1}, but "
                                       "the corresponding forward input was not a Variable")
                continue
            if given is not None:
                if not isinstance(given, TensorBase):
                    raise RuntimeError(f"expected Variable or None (got {type(given).__name__}): {self.name()}, gradient "
                                       f"{k + 1}")
                given = summed(<TensorBase>given, self.sizes[edge], self.name(), edge) if self.targets[edge] != NULL else None
                if given is not None and CATEGORY[(<TensorBase>given).code] > 2 >= <int>self.categories[edge]:
                    raise RuntimeError(f"Function {self.name()} returned an invalid gradient at index {edge} - got "
                                       f"{dtype_of((<TensorBase>given).code)} for an input whose elements are real")
            wanted.append(given)
            edge += 1
        return wanted

    cdef void drop(self):
        cdef int k
        for k in range(self.slots):
            clear_slot(&self.slot[k])

    def __dealloc__(self):
        cdef int k
        for k in range(self.slots):
            clear_slot(&self.slot[k])
        free(self.slot)
        self.slots = 0


def record_function(function, context, tuple arguments, tuple outputs) -> tuple:
    """Put a call of an `autograd.Function` on the tape; returns the outputs, with history."""
    cdef FunctionNode node = FunctionNode.__new__(FunctionNode)
    cdef int k, number, position = 0
    cdef TensorBase t
    cdef list made = []
    node.function, node.context = function, context
    node.places = [k for k in range(len(arguments)) if isinstance(arguments[k], TensorBase)]
    node.sizes = [arguments[k].shape for k in node.places]
    node.categories = [CATEGORY[(<TensorBase>arguments[k]).code] for k in node.places]
    node.kinds = [(arguments[k].dtype, arguments[k].device) for k in node.places]
    node.outputs = len(outputs)
    node.shapes = []
    node.set_edges(len(node.places))
    for k in range(node.edges):
        t = <TensorBase>arguments[node.places[k]]
        if wants_grad(t):
            node.connect(k, t)
    dirty = {id(d) for d in context._dirty}
    constant = {id(c) for c in context._constant}
    if not dirty <= {id(o) for o in outputs}:
        raise RuntimeError(f"{node.name()}: Some elements marked as dirty during the forward method were not returned as output. The "
                           "inputs that are modified inplace must all be outputs of the Function.")
    given = {id(a) for a in arguments}
    for k in range(node.outputs):
        out = outputs[k]
        if not isinstance(out, TensorBase):
            made.append(out)
            node.shapes.append(None)
            continue
        t = <TensorBase>out
        if id(out) in given and id(out) not in dirty:  # an input returned as it is: a view with history of its own
            t = alias(t, t.rank, t.sizes, t.strides, t.offset)
            t.base = (<TensorBase>out).base if (<TensorBase>out).base is not None else <TensorBase>out
        if t.base is not None and id(out) not in dirty:
            t.made = IN_FUNCTION
        node.shapes.append((size_from(t.rank, t.sizes), dtype_of(t.code), (<object>t).device))
        made.append(t)
    saved = context._to_save
    node.ahead, node.fresh = len(saved), True
    if runtime.forward and context._forward is not saved:
        saved = (*saved, *context._forward)
    node.absent = [s is None for s in saved]
    node.slot = <Slot*>calloc(len(saved) + 1, sizeof(Slot))
    for s in saved:
        if s is None:
            continue
        number = -1
        for k in range(node.outputs):
            if outputs[k] is s and id(s) not in given:
                number = k
        save_tensor(&node.slot[node.slots], <TensorBase>s, number)
        node.slots += 1
    context._to_save = ()
    for k in range(node.outputs):
        if isinstance(made[k], TensorBase) and id(outputs[k]) not in constant and CATEGORY[(<TensorBase>made[k]).code] >= 2:
            if id(outputs[k]) in dirty:
                if wants_grad(<TensorBase>made[k]) and (<TensorBase>made[k]).grad_fn_now() is None:
                    raise RuntimeError(f"{node.name()}: a leaf Variable that requires grad has been used in an in-place operation.")
                rebase(<TensorBase>made[k], node, k)
            else:
                drop_base(<TensorBase>made[k], arguments)
                attach(<TensorBase>made[k], node, k)
    node.fresh, node.pushed = False, None
    context._forward = ()
    return tuple(made)


set_own_code(FunctionNode)
