# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A plan run in compiled code: prepared launches and calls one after another.

Every run has memory of its own (one arena, new results), so that runs of several threads, and one inside another, are apart.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from cpython.object cimport PyObject
from ..core.base.dtypes cimport U8
from ..core.base.tensor cimport MAX_DIMS, TensorBase, new_strided, new_tensor, pointer
from ..core.lib.products.blas cimport INTERRUPTED, OK
from ..core.lib.products.product_plan cimport ProductPlan
from ..core.loops.plans cimport LoopPlan
from ..core.tape.modes cimport grad_enabled, set_grad

cdef extern from "alloca.h" nogil:
    void* alloca(size_t n)


cdef class PreparedStep:
    """A launch: operand k lies `places[k] = (root, bytes)`."""

    cdef int count
    cdef int* roots
    cdef int64_t* offsets

    def __cinit__(self, plan, places):
        cdef int k
        self.count = <int>len(places)
        self.roots, self.offsets = <int*>calloc(self.count, sizeof(int)), <int64_t*>calloc(self.count, sizeof(int64_t))
        if self.roots == NULL or self.offsets == NULL:
            raise MemoryError
        for k in range(self.count):
            self.roots[k], self.offsets[k] = places[k]

    def __dealloc__(self):
        free(self.roots)
        free(self.offsets)

    cdef inline void find(self, char** bases, char** data) noexcept:
        """Where the operands lie in this run."""
        cdef int k
        for k in range(self.count):
            data[k] = bases[self.roots[k]] + self.offsets[k]

    cdef int launch(self, char** data, char* workspace) except -1:
        raise NotImplementedError


cdef class LoopStep(PreparedStep):
    """Loops, or rows: results, then inputs."""

    cdef readonly LoopPlan plan

    def __init__(self, LoopPlan plan not None, places):
        self.plan = plan

    cdef int launch(self, char** data, char* workspace) except -1:
        if self.plan.many:
            with nogil:
                self.plan.launch_at(data)
        else:
            self.plan.launch_at(data)
        return 0

    def __repr__(self):
        return repr(self.plan)


cdef class ProductStep(PreparedStep):
    """A product: the result, left, right, and an addend where there is one."""

    cdef readonly ProductPlan plan

    def __init__(self, ProductPlan plan not None, places):
        self.plan = plan

    cdef int launch(self, char** data, char* workspace) except -1:
        cdef int status
        with nogil:
            status = self.plan.launch(data[0], data[1], data[2], <const char**>(data + 3), workspace)
        if status == OK:
            return 0
        if status == INTERRUPTED:
            return -1         # the exception is set
        raise RuntimeError(f"{self.plan}: a dimension or stride does not fit into the 32 bits that the BLAS library counts with")

    def __repr__(self):
        return repr(self.plan)


cdef class CallStep:
    """A call of an operation; what stands for tensors among its arguments has `root` and `of(tensor of that root)`."""

    cdef readonly object operation
    cdef readonly tuple args
    cdef readonly dict kwargs
    cdef readonly list results      # (root, place) of each tensor that it returns; -1 for the root of another's

    def __init__(self, operation, tuple args, dict kwargs, list results):
        self.operation, self.args, self.kwargs, self.results = operation, args, kwargs, results

    def __repr__(self):
        return f"CallStep({self.operation.__name__})"


cdef class Geometry:
    """What a new tensor is like, or what a given one has to be like."""

    cdef int root, rank, code
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t at               # in the arena
    cdef object place

    def __cinit__(self, int root, place, int64_t at=0):
        cdef int d
        self.root, self.place, self.rank, self.at, self.code = root, place, <int>len(place.shape), at, place.dtype.code
        for d in range(self.rank):
            self.sizes[d], self.strides[d] = place.shape[d], place.stride[d]

    cdef bint matches(self, TensorBase t) noexcept:
        cdef int d
        if t.rank != self.rank or t.code != self.code or t.storage.on is not None:
            return False
        for d in range(self.rank):
            if t.sizes[d] != self.sizes[d] or (t.strides[d] != self.strides[d] and t.sizes[d] != 1):
                return False
        return True


cdef class Runner:
    """A program as steps, called with tensors of the geometry that it was recorded with; TypeError for others.

    What it is made of is added by `lower.plan`.  Roots are memories of the program, by number: those of inputs, constants, places in
    the arena, results, and what calls return.
    """

    cdef readonly int roots
    cdef readonly int64_t nbytes, workspace     # of the arena, and behind it for the length of a step
    cdef int widest               # operands of a step
    cdef list inputs, placed, made
    cdef list constants           # (root, tensor)
    cdef readonly list steps
    cdef object outputs           # a structure with references
    cdef tuple whole              # the roots that it returns where that is all
    cdef bint single

    def __init__(self, int roots, int64_t nbytes):
        self.roots, self.nbytes = roots, nbytes
        self.inputs, self.placed, self.made, self.constants, self.steps = [], [], [], [], []

    def add_input(self, int root, place) -> None:
        """The next argument of a call."""
        self.inputs.append(Geometry(root, place))

    def add_constant(self, int root, TensorBase tensor not None) -> None:
        """A tensor that is the same in all runs."""
        self.constants.append((root, tensor))

    def add_place(self, int root, int64_t at, place) -> None:
        """A memory in the arena, so many bytes from where that begins."""
        self.placed.append(Geometry(root, place, at))

    def add_result(self, int root, place) -> None:
        """A memory that a run makes anew, and returns."""
        self.made.append(Geometry(root, place))

    def add_step(self, step) -> None:
        """The next step."""
        self.steps.append(step)
        if isinstance(step, PreparedStep):
            self.widest = max(self.widest, (<PreparedStep>step).count)
        if type(step) is ProductStep:
            self.workspace = max(self.workspace, (<ProductStep>step).plan.workspace)

    def set_outputs(self, outputs) -> None:
        """What a run returns: a structure with references, which have `root`, `whole` and `of(tensor)`."""
        cdef tuple flat = outputs if type(outputs) is tuple else (outputs,)
        self.outputs = outputs
        self.single = type(outputs) is not tuple
        if all([getattr(x, "whole", False) for x in flat]):
            self.whole = tuple([x.root for x in flat])

    def __call__(self, *tensors):
        cdef char** bases
        cdef int k
        if len(tensors) != len(self.inputs):
            raise TypeError(f"the plan takes {len(self.inputs)} tensors, got {len(tensors)}")
        for k in range(len(tensors)):
            if not isinstance(tensors[k], TensorBase) or not (<Geometry>self.inputs[k]).matches(<TensorBase>tensors[k]):
                raise TypeError(mismatch(k, (<Geometry>self.inputs[k]).place, tensors[k]))
        bases = <char**>calloc(self.roots, sizeof(char*))
        if bases == NULL:
            raise MemoryError
        before = grad_enabled()
        set_grad(False)
        try:
            return self.run(tensors, bases)
        finally:
            set_grad(before)
            free(bases)

    cdef object run(self, tuple tensors, char** bases):
        cdef list known = [None] * self.roots       # a tensor over each root, where there is one
        cdef TensorBase arena = None
        cdef TensorBase t
        cdef Geometry g
        cdef int64_t size[1]
        cdef int k
        cdef char* workspace = NULL
        cdef char** data = <char**>alloca(self.widest * sizeof(char*))
        for k in range(len(tensors)):
            t = <TensorBase>tensors[k]
            g = <Geometry>self.inputs[k]
            known[g.root], bases[g.root] = t, pointer(t)
        for root, tensor in self.constants:
            known[root], bases[<int>root] = tensor, pointer(<TensorBase>tensor)
        if self.nbytes or self.workspace:
            size[0] = self.nbytes + self.workspace
            arena = new_tensor(1, size, U8)
            workspace = pointer(arena) + self.nbytes
            for g in self.placed:
                bases[g.root] = pointer(arena) + g.at
        for g in self.made:
            t = new_strided(g.rank, g.sizes, g.strides, g.code)
            known[g.root], bases[g.root] = t, pointer(t)
        for step in self.steps:
            if type(step) is CallStep:
                self.call(<CallStep>step, known, bases, arena)
            else:
                (<PreparedStep>step).find(bases, data)
                (<PreparedStep>step).launch(data, workspace)
        if self.whole is not None:
            return known[<int>self.whole[0]] if self.single else tuple([known[<int>root] for root in self.whole])
        return replaced(self.outputs, lambda reference: reference.of(self.tensor(reference.root, known, arena)))

    cdef int call(self, CallStep step, list known, char** bases, TensorBase arena) except -1:
        cdef list new = []
        cdef TensorBase t
        there = lambda reference: reference.of(self.tensor(reference.root, known, arena))
        result = step.operation(*replaced(step.args, there), **replaced(step.kwargs, there))
        collect(result, new)
        for (root, place), x in zip(step.results, new):
            t = <TensorBase>x
            if not Geometry(root, place).matches(t):
                raise RuntimeError(f"{step.operation.__name__}(): the plan was made for a result of {place.dtype} of shape "
                                   f"{list(place.shape)} with strides {place.stride}, got {t.dtype} of shape {list(t.shape)} with "
                                   f"strides {t.stride()}: its shape depends on values")
            if root >= 0:
                known[root], bases[<int>root] = t, pointer(t)
        return 0

    cdef object tensor(self, int root, list known, TensorBase arena):
        """A tensor over a root."""
        cdef Geometry g
        if known[root] is None:
            for g in self.placed:
                if g.root == root:
                    width = g.place.dtype.itemsize
                    whole = (<object>arena)[g.at:g.at + span(g) * width].view(g.place.dtype)
                    known[root] = whole.as_strided(g.place.shape, g.place.stride, whole.storage_offset())
        return known[root]

    def __repr__(self):
        return f"Runner({self.number(LoopStep, 'kernel')}, {self.number(ProductStep, 'product')}, {self.number(CallStep, 'call')}, {self.nbytes} bytes)"

    cdef str number(self, kind, str name):
        n = sum([type(step) is kind for step in self.steps])
        return f"{n} {name}{'' if n == 1 else 's'}"


cdef int64_t span(Geometry g):
    """How many elements from the first to the last."""
    cdef int64_t last = 0
    cdef int d
    for d in range(g.rank):
        last += (g.sizes[d] - 1) * g.strides[d] if g.sizes[d] else 0
    return last + 1


cdef str mismatch(int k, place, given):
    wanted = f"a CPU tensor of {place.dtype}, shape {list(place.shape)} and strides {place.stride}"
    if not isinstance(given, TensorBase):
        return f"the plan was made for {wanted} as argument {k}, got {type(given).__name__}"
    return (f"the plan was made for {wanted} as argument {k}, got {given.dtype} on {given.device} of shape {list(given.shape)} and strides "
            f"{given.stride()}")


cdef object replaced(object x, change):
    """A structure with its references replaced."""
    if type(x) is tuple:
        return tuple([replaced(y, change) for y in x])
    if type(x) is list:
        return [replaced(y, change) for y in x]
    if type(x) is dict:
        return {key: replaced(y, change) for key, y in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*[replaced(y, change) for y in x])
    return change(x) if hasattr(x, "whole") else x


cdef int collect(object x, list found) except -1:
    """The tensors of a result."""
    if isinstance(x, TensorBase):
        found.append(x)
    elif isinstance(x, (tuple, list)):
        for y in x:
            collect(y, found)
    elif isinstance(x, dict):
        for y in x.values():
            collect(y, found)
    return 0
