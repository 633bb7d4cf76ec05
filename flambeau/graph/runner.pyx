# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A plan run in compiled code: prepared launches and calls one after another.

Every run has memory of its own (an arena, memories that a step takes and a later one frees, new results), so that runs of several
threads, and one inside another, are apart.  Launches between which no memory changes hands are a stretch: short ones run under Python's
lock, long ones give it up once and look at signals now and then.

A memory belongs to the host or to a device. Steps on a device are queued on the thread's current stream there, in their order, so a memory
that is freed is safe to take again: what is queued on it runs first.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from ..core.base.device cimport Device
from ..core.base.dtypes cimport BOOL, F32, F64, I16, I32, I64, I8, ITEMSIZE, U16, U32, U64, U8, dtype
from ..core.base.memory cimport Storage, new_storage, new_storage_on, trade
from ..core.base.profiling cimport SPAN, begin as begin_entry, end as end_entry, profiling
from ..core.base.prepacked cimport enter_plan, leave_plan
from ..core.base.tensor cimport (
    MAX_DIMS, TensorBase, alias, bump_version, check_writable, data_address, find_contiguous, new_object, new_strided_on, new_tensor_on,
    pointer, set_rank,
)
from ..core.call.kernels cimport PARALLEL_FROM
from ..core.lib.products.blas cimport INTERRUPTED, OK
from ..core.lib.products.product_plan cimport ProductPlan
from ..core.loops.plans cimport LoopPlan, RowLoopPlan
from ..core.loops.rows cimport work_of
from ..core.tape.modes cimport casting, grad_enabled, set_casting, set_grad
from ..core.views.geometry cimport Shape
from ..core.views.strided cimport view_of

cdef extern from "alloca.h" nogil:
    void* alloca(size_t n)

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1
    void Py_XDECREF(PyObject* o)
    PyObject** PySequence_Fast_ITEMS(object o)
    Py_ssize_t Py_REFCNT(PyObject* o)
    object PyObject_Vectorcall(object callable, PyObject** args, size_t nargs, PyObject* names)

cdef enum:
    ALIGN = 64
    ON_STACK = 8192               # bytes of an arena that needs no allocation
    MOST_ROOTS = 4096             # whose bookkeeping is on the stack
    LOOK = 1 << 24                # elementary operations between two looks at signals


# --- steps ------------------------------
cdef class PreparedStep:
    """A launch: operand k lies `places[k] = (root, bytes)`.  A kind of its own sets `work` and `workspace`, and has `launch`."""

    def __cinit__(self, plan, places, *rest):
        cdef int k
        self.count = <int>len(places)
        self.roots, self.offsets = <int*>allocate(self.count, sizeof(int)), <int64_t*>allocate(self.count, sizeof(int64_t))
        for k in range(self.count):
            self.roots[k], self.offsets[k] = places[k]

    def __dealloc__(self):
        free(self.roots)
        free(self.offsets)

    cdef int launch(self, char** data, char* workspace) except -1 nogil:
        with gil:
            raise NotImplementedError(f"{type(self).__name__} has no launch")


cdef class LoopStep(PreparedStep):
    """Loops, or rows: results, then inputs; then, on a device, numbers of the host that the kernel is given by value, of those dtypes."""

    cdef readonly LoopPlan plan
    cdef int numbers
    cdef int* codes

    def __init__(self, LoopPlan plan not None, places, dtypes=()):
        cdef int k
        self.plan, self.numbers = plan, <int>len(dtypes)
        if plan.count + self.numbers != self.count:
            raise ValueError(f"LoopStep: {plan.count + self.numbers} places expected, got {self.count}")
        self.codes = <int*>allocate(self.numbers, sizeof(int))
        for k in range(self.numbers):
            self.codes[k] = (<dtype?>dtypes[k]).code
        self.work = work_of((<RowLoopPlan>plan).rows) if isinstance(plan, RowLoopPlan) else plan.loops.count
        if plan.many:
            self.work = max(self.work, <double>PARALLEL_FROM)

    def __dealloc__(self):
        free(self.codes)

    cdef int launch(self, char** data, char* workspace) except -1 nogil:
        if self.plan.device is None:
            return self.plan.launch_at(data)
        with gil:
            return self.launch_there(data)

    cdef int launch_there(self, char** data) except -1:
        cdef uint64_t* scalars = <uint64_t*>alloca((self.numbers + 1) * sizeof(uint64_t))
        cdef int k
        for k in range(self.numbers):
            scalars[k] = scalar_at(data[self.plan.count + k], self.codes[k])
        return self.plan.launch_there(data, scalars if self.numbers else NULL)

    def __repr__(self):
        return repr(self.plan)


cdef uint64_t scalar_at(const char* place, int code) noexcept:
    """An element as a kernel is given numbers: the bits of a double, or 64 bits of an integer."""
    cdef double real
    cdef uint64_t bits
    if code == F32 or code == F64:
        real = (<const float*>place)[0] if code == F32 else (<const double*>place)[0]
        memcpy(&bits, &real, 8)
        return bits
    if code == BOOL or code == U8:
        return (<const uint8_t*>place)[0]
    if code == I8:
        return <uint64_t><int64_t>(<const int8_t*>place)[0]
    if code == I16:
        return <uint64_t><int64_t>(<const int16_t*>place)[0]
    if code == I32:
        return <uint64_t><int64_t>(<const int32_t*>place)[0]
    if code == U16:
        return (<const uint16_t*>place)[0]
    if code == U32:
        return (<const uint32_t*>place)[0]
    return (<const uint64_t*>place)[0]     # int64, uint64


cdef class ProductStep(PreparedStep):
    """A product: the result, left, right, and an addend where there is one."""

    cdef readonly ProductPlan plan

    def __init__(self, ProductPlan plan not None, places):
        self.plan = plan
        self.work, self.workspace = plan.p.work / 8, plan.workspace      # several multiplications an instruction

    cdef int launch(self, char** data, char* workspace) except -1 nogil:
        cdef int status = self.plan.launch(data[0], data[1], data[2], <const char**>(data + 3), workspace)
        if status == OK:
            return 0
        if status == INTERRUPTED:
            return -1         # the exception is set
        with gil:
            raise RuntimeError(f"{self.plan}: a dimension or stride does not fit into the 32 bits that the BLAS library counts with")

    def __repr__(self):
        return repr(self.plan)


cdef class CallStep:
    """A call of an operation, with `Reference`s in the place of tensors among its arguments."""

    cdef readonly object operation
    cdef readonly tuple args
    cdef readonly dict kwargs
    cdef readonly list results      # (root, place) of each tensor that it returns; -1 for the root of another's
    cdef tuple names, values
    cdef list layouts

    def __init__(self, operation, tuple args, dict kwargs, list results):
        self.operation, self.args, self.kwargs, self.results = operation, args, kwargs, results
        self.names = tuple(kwargs) if kwargs else None
        self.values = (*args, *kwargs.values())
        self.layouts = [Geometry(root, place) for root, place in results]

    def __repr__(self):
        return f"CallStep({self.operation.__name__})"


cdef TensorBase retyped(TensorBase t, object dtype):
    """What lies from a tensor's first element to its last, in one dimension of another dtype, whatever the tensor's own are."""
    cdef int64_t span = 1
    cdef int d
    for d in range(t.rank):
        span = 0 if span == 0 or t.sizes[d] == 0 else span + (t.sizes[d] - 1) * t.strides[d]
    span -= span % max(1, dtype.itemsize // t.width)
    return (<object>t).as_strided((span,), (1,), t.offset).view(dtype)


cdef class Reference:
    """A tensor of a run: which root it lies in, how, and how many elements from where that begins; `whole`: it is the root's own.

    `number`: not the tensor is meant, but the number that it holds, float64 or int64.
    """

    cdef readonly int root
    cdef readonly object place
    cdef readonly bint whole, number
    cdef int64_t offset
    cdef Geometry geometry

    def __init__(self, int root, place, int64_t offset, bint whole, bint number=False):
        self.root, self.place, self.offset, self.whole, self.number = root, place, offset, whole, number
        self.geometry = Geometry(root, place)

    cdef TensorBase of(self, TensorBase t):
        """As an operand, which no tape sees."""
        if self.whole:
            return t
        if self.geometry.layout.code != t.code:
            t = retyped(t, self.place.dtype)
        return alias(t, self.geometry.layout.rank, self.geometry.layout.sizes,
                     self.geometry.layout.sizes + self.geometry.layout.rank, t.offset + self.offset)

    cdef TensorBase view(self, TensorBase t):
        """As a result: a view, as the program has made one."""
        cdef Shape s
        cdef Layout* own = &self.geometry.layout
        cdef int d
        if self.whole:
            return t
        if own.code != t.code:
            t = retyped(t, self.place.dtype)
        s.rank, s.offset = own.rank, t.offset + self.offset
        for d in range(own.rank):
            s.sizes[d], s.strides[d] = own.sizes[d], own.sizes[own.rank + d]
        return view_of(t, &s)


cdef class Geometry:
    """What a tensor is like."""

    cdef Layout layout
    cdef object place

    def __cinit__(self, int root, place, int64_t at=0, int home=-1):
        cdef Layout* own = &self.layout
        cdef int64_t step = 1
        cdef int d
        own.root, own.rank, own.code, own.at, own.home = root, <int>len(place.shape), place.dtype.code, at, home
        self.place, own.on = place, <PyObject*>place.device     # devices live as long as the process
        own.sizes = <int64_t*>allocate(2 * own.rank, sizeof(int64_t))
        own.dense = True
        for d in range(own.rank):
            own.sizes[d], own.sizes[own.rank + d] = place.shape[d], place.stride[d]
        for d in range(own.rank - 1, -1, -1):
            own.dense = own.dense and own.sizes[own.rank + d] == step
            step *= max(own.sizes[d], <int64_t>1)

    def __dealloc__(self):
        free(self.layout.sizes)


cdef int64_t nbytes_of(const Layout* own) noexcept:
    """From the first element to the last."""
    cdef int64_t count = 1
    cdef int d
    for d in range(own.rank):
        if own.sizes[d] == 0:
            return 0
        count += (own.sizes[d] - 1) * own.sizes[own.rank + d]
    return count * ITEMSIZE[own.code]


cdef bint matches(const Layout* own, TensorBase t) noexcept:
    """Whether a tensor is like that, and where that is."""
    cdef int d
    if t.rank != own.rank or t.code != own.code or <PyObject*>t.storage.on != own.on:
        return False
    for d in range(own.rank):
        if t.sizes[d] != own.sizes[d] or (t.strides[d] != own.sizes[own.rank + d] and t.sizes[d] != 1):
            return False
    return True


cdef inline char* base_of(TensorBase t) except? NULL:
    """Where a tensor begins, in the memory of the host or of its device."""
    return pointer(t) if t.storage.on is None else data_address(t)


cdef inline int launch_step(PyObject* step, char** data, char* workspace) except -1 nogil:
    """A borrowed step's launch, without Python's lock."""
    return (<PreparedStep>step).launch(data, workspace)


# --- runs ------------------------------
cdef class Runner:
    """A program as steps, called with tensors of the geometry that it was recorded with; TypeError for others.

    What it is made of is added by `lower.plan`, its outputs last.  Roots are memories of the program, by number: those of inputs,
    constants, places in the arena, results, and what calls return.  `memory` says how many bytes a run takes.  Workspaces of `late` bytes
    and more are taken for their step alone; 0: none is.
    """

    def __init__(self, int roots, int64_t nbytes, memory=None, int64_t late=0):
        self.roots, self.nbytes, self.memory, self.late = roots, nbytes, memory, late
        self.places, self.constants, self.steps, self.held = [[], [], []], [], [], []
        self.drop_lists, self.take_lists, self.free_lists, self.written_roots, self.memory_sizes = [], [], [], [], [nbytes]
        self.ends, self.memory_devices = [], [None]

    def __dealloc__(self):
        free(self.inputs)
        free(self.placed)
        free(self.made)
        free(self.place_of)
        free(self.drops)
        free(self.takes)
        free(self.frees)
        free(self.sizes)
        free(self.written)
        free(self.launches)
        free(self.operands)
        free(self.stretches)

    def add_input(self, int root, place, int over=-1, int64_t at=0, bint donated=False, bint unused=False) -> None:
        """The next argument of a call; one that shares memory with argument `over` lies so many bytes from where that begins.

        A step may drop one that is `donated`.  One that is `unused` may be any tensor.
        """
        cdef Geometry own = Geometry(root, place, at, over)
        own.layout.donated, own.layout.unused = donated, unused
        self.places[0].append(own)

    def add_constant(self, int root, TensorBase tensor not None, place) -> None:
        """A tensor that is the same in all runs."""
        self.constants.append((tensor, Geometry(root, place)))

    def add_memory(self, int64_t nbytes, Device device=None) -> int:
        """A memory, of the host or a device, that a step takes and a later one frees; its number."""
        self.memory_sizes.append(nbytes)
        self.memory_devices.append(device)
        return len(self.memory_sizes) - 1

    def add_place(self, int root, int64_t at, place, int home=-1, int memory=0) -> None:
        """A value in the arena or another memory, or in that of the root `home`, so many bytes from where that begins."""
        self.places[1].append(Geometry(root, place, at, -1 - memory if home < 0 else home))

    def add_result(self, int root, place, bint late=False) -> int:
        """A memory that a run makes anew, and returns; its number.  One that is `late` is made before the step that takes it."""
        cdef Geometry own = Geometry(root, place)
        own.layout.late = late
        self.places[2].append(own)
        return len(self.places[2]) - 1

    def add_written(self, int root) -> None:
        """An input or a constant that launches write to."""
        self.written_roots.append(root)

    def add_step(self, step, drops=(), takes=(), frees=(), bint ends=False) -> None:
        """The next step, after which nothing reads the tensors over the roots `drops`: at once, where it `ends` a stretch.

        It is the first to touch the memories `takes` (results as -1 less their number), and the last to touch `frees`.
        """
        if not isinstance(step, (PreparedStep, CallStep)):
            raise TypeError(f"Runner.add_step(): a prepared step or a CallStep expected, got {type(step).__name__}")
        self.steps.append(step)
        self.drop_lists.append(list(drops))
        self.take_lists.append(list(takes))
        self.free_lists.append(list(frees))
        self.ends.append(ends)

    @property
    def unused(self) -> list:
        """The numbers of inputs that no step reads."""
        return [k for k in range(len(self.places[0])) if (<Geometry>self.places[0][k]).layout.unused]

    @property
    def input_count(self) -> int:
        """How many tensors it takes."""
        return len(self.places[0])

    def describe(self, report, list names) -> None:
        """What the steps compute, and the name of each."""
        if len(names) != len(self.steps):
            raise ValueError(f"Runner.describe(): {len(self.steps)} names expected, got {len(names)}")
        self.report = report
        self.launch_names = [name for name, step in zip(names, self.steps) if not isinstance(step, CallStep)]

    def set_outputs(self, outputs) -> None:
        """What a run returns: a structure with `Reference`s.  Steps and memories have been added."""
        cdef tuple items = outputs if type(outputs) is tuple else (outputs,)
        self.outputs, self.single = outputs, type(outputs) is not tuple
        self.whole = all([type(x) is Reference and (<Reference>x).whole for x in items])
        self.finish()

    def __call__(self, *tensors):
        return self.call(PySequence_Fast_ITEMS(tensors), len(tensors))

    def consume(self, list tensors not None):
        """As a call, of a list that is empty then: those that are donated die with their last reader where nothing else holds them."""
        self.check(PySequence_Fast_ITEMS(tensors), len(tensors))
        return self.run(PySequence_Fast_ITEMS(tensors), tensors)

    cdef object call(self, PyObject** tensors, Py_ssize_t n):
        self.check(tensors, n)
        return self.run(tensors)

    cdef int check(self, PyObject** tensors, Py_ssize_t n) except -1:
        cdef Layout* own
        cdef TensorBase t, first
        cdef Py_ssize_t k, i
        if not self.complete:
            raise RuntimeError("Runner: its outputs have not been set")
        if n != self.given_count:
            raise TypeError(f"the plan takes {self.given_count} tensors, got {n}")
        for k in range(n):
            own = &self.inputs[k]
            if own.unused:
                continue
            if not isinstance(<object>tensors[k], TensorBase) or not matches(own, <TensorBase>tensors[k]):
                raise TypeError(mismatch(k, (<Geometry>self.places[0][k]).place, <object>tensors[k]))
            if own.home >= 0:
                t, first = <TensorBase>tensors[k], <TensorBase>tensors[own.home]
                if t.storage is not first.storage or t.offset * t.width - first.offset * first.width != own.at:
                    raise TypeError(f"the plan was made for argument {k} over the memory of argument {own.home}, {own.at} bytes from where "
                                    "that begins, got another place")
        return 0

    cdef object run(self, PyObject** tensors, list consumed=None):
        cdef Run r
        cdef int k, total = self.roots + self.memory_count, given = self.given_count + <int>len(self.constants)
        cdef void* memory = NULL
        cdef size_t nbytes = total * (sizeof(char*) + sizeof(PyObject*)) + given * sizeof(PyObject*)
        cdef PyObject** storages
        cdef bint grad
        cdef unsigned int casts
        if total > MOST_ROOTS:
            memory = calloc(nbytes, 1)
            if memory == NULL:
                raise MemoryError
            r.known = <PyObject**>memory
        else:
            r.known = <PyObject**>alloca(nbytes)
            memset(r.known, 0, nbytes)
        r.memories = r.known + self.roots
        r.bases = <char**>(r.known + total)
        storages = <PyObject**>(r.bases + total)
        enter_plan()
        try:
            if not self.calls:
                self.execute(&r, tensors, storages, consumed)
            else:
                grad, casts = grad_enabled(), casting()
                set_grad(False)
                set_casting(0)
                try:
                    self.execute(&r, tensors, storages, consumed)
                finally:
                    set_grad(grad)
                    set_casting(casts)
            return self.result(self.outputs, &r)
        finally:
            leave_plan()
            for k in range(self.written_count):
                if r.known[self.written[k]] != NULL:   # another thread may have read it meanwhile
                    (<TensorBase>r.known[self.written[k]]).storage.writes += 1
            for k in range(total):
                Py_XDECREF(r.known[k])
            for k in range(given):
                Py_XDECREF(storages[k])
            free(memory)

    cdef object execute(self, Run* r, PyObject** tensors, PyObject** storages, list consumed):
        """All steps; what inputs lie in is held meanwhile, as another thread may set them to other memory."""
        cdef Layout* own
        cdef Stretch* s
        cdef TensorBase t
        cdef Storage arena
        cdef int64_t nbytes = self.nbytes + self.workspace
        cdef char* begin = NULL
        cdef char* workspace
        cdef double since = 0
        cdef int k, i
        cdef list constants = self.constants
        for k in range(self.given_count):
            t = <TensorBase>tensors[k]
            own = &self.inputs[k]
            if not own.donated:
                storages[k] = <PyObject*>t.storage
                Py_INCREF(t.storage)
            r.bases[own.root], r.known[own.root] = base_of(t), <PyObject*>t
            Py_INCREF(t)
        if consumed is not None:
            t = None
            consumed.clear()
        for k in range(len(constants)):
            t, own = <TensorBase>(<tuple>constants[k])[0], &(<Geometry>(<tuple>constants[k])[1]).layout
            if not matches(own, t):
                raise RuntimeError(f"the plan was made with a constant of another geometry than {t.dtype} of shape {list(t.shape)} with "
                                   f"strides {t.stride()}")
            storages[self.given_count + k] = <PyObject*>t.storage
            Py_INCREF(t.storage)
            r.bases[own.root], r.known[own.root] = base_of(t), <PyObject*>t
            Py_INCREF(t)
        for k in range(self.written_count):
            check_writable(<TensorBase>r.known[self.written[k]], "compiled function")
            bump_version(<TensorBase>r.known[self.written[k]])
        if nbytes:
            if nbytes <= ON_STACK and not self.calls:
                begin = <char*>((<uintptr_t>alloca(nbytes + ALIGN) + ALIGN - 1) & ~<uintptr_t>(ALIGN - 1))
            else:
                arena = new_storage(nbytes)
                begin, r.memories[0] = arena.data, <PyObject*>arena
                Py_INCREF(arena)
        r.bases[self.roots] = begin
        for k in range(self.made_count):
            if not self.made[k].late:
                self.make(&self.made[k], r)
        for k in range(self.stretch_count):
            s = &self.stretches[k]
            for i in range(s.take_begin, s.take_end):
                self.take(self.takes[i], r)
            if s.call != NULL:
                self.run_call(s, r)
            else:
                workspace = begin + self.nbytes
                if s.workspace:
                    arena = new_storage(s.workspace)
                    workspace = arena.data
                if profiling.on and self.launch_names is not None:
                    self.launch_profiled(s, r.bases, workspace)
                elif s.releases:
                    with nogil:
                        self.launch_all(s, r.bases, workspace)
                else:
                    self.launch_all(s, r.bases, workspace)
                arena = None
                since += s.work
            if since > LOOK:
                since = 0
                PyErr_CheckSignals()
            for i in range(s.drop_begin, s.drop_end):
                let_go(&r.known[self.drops[i]])
            for i in range(s.free_begin, s.free_end):
                let_go(&r.memories[self.frees[i]])

    cdef int make(self, Layout* own, Run* r) except -1:
        """The tensor of a result."""
        cdef TensorBase t
        if own.dense:
            t = new_tensor_on(<Device>own.on, own.rank, own.sizes, own.code)
        else:
            t = new_strided_on(<Device>own.on, own.rank, own.sizes, own.sizes + own.rank, own.code)
        r.bases[own.root], r.known[own.root] = base_of(t), <PyObject*>t
        Py_INCREF(t)
        return 0

    cdef int take(self, int which, Run* r) except -1:
        """Memory that the next stretch is the first to touch."""
        cdef Storage storage
        if which < 0:
            return self.make(&self.made[-1 - which], r)
        storage = new_storage_on(<Device>self.memory_devices[which], self.sizes[which])
        r.bases[self.roots + which] = storage.data if storage.on is None else <char*><uintptr_t>storage.address
        r.memories[which] = <PyObject*>storage
        Py_INCREF(storage)
        return 0

    cdef int launch_all(self, const Stretch* s, char** bases, char* workspace) except -1 nogil:
        cdef char** data = <char**>alloca(self.widest * sizeof(char*))
        cdef const Launch* l
        cdef double since = 0
        cdef int k, i
        for k in range(s.begin, s.end):
            l = &self.launches[k]
            for i in range(l.count):
                data[i] = bases[l.operands[i].root] + l.operands[i].offset
            if l.kernel != NULL:
                l.kernel(data, l.geometry, l.scalars)
            else:
                launch_step(l.step, data, workspace)
            since += l.work
            if since > LOOK:
                since = 0
                with gil:
                    PyErr_CheckSignals()
        return 0

    cdef int launch_profiled(self, const Stretch* s, char** bases, char* workspace) except -1:
        """The same, each with an entry of its own."""
        cdef Stretch one = s[0]
        cdef int64_t entry
        cdef int k
        for k in range(s.begin, s.end):
            one.begin, one.end = k, k + 1
            entry = begin_entry(<str>self.launch_names[k], SPAN)
            try:
                with nogil:
                    self.launch_all(&one, bases, workspace)
            finally:
                end_entry(entry)
        return 0

    cdef int run_call(self, Stretch* s, Run* r) except -1:
        cdef CallStep step = <CallStep>s.call
        cdef list values = [], new
        cdef TensorBase t
        cdef Geometry g
        cdef int k
        for x in step.values:
            values.append(self.fill(x, r))
        result = PyObject_Vectorcall(step.operation, PySequence_Fast_ITEMS(values), len(step.args),
                                     NULL if step.names is None else <PyObject*>step.names)
        if isinstance(result, TensorBase):
            new = [result]
        else:
            new = []
            collect(result, new)
        if len(new) != len(step.layouts):
            raise RuntimeError(f"{step.operation.__name__}(): the plan was made for {len(step.layouts)} tensors as results, got {len(new)}")
        for k in range(len(new)):
            t, g = <TensorBase>new[k], <Geometry>step.layouts[k]
            if not matches(&g.layout, t):
                raise RuntimeError(f"{step.operation.__name__}(): the plan was made for a result of {g.place.dtype} of shape "
                                   f"{list(g.place.shape)} with strides {g.place.stride}, got {t.dtype} of shape {list(t.shape)} with "
                                   f"strides {t.stride()}: its shape depends on values")
            if g.layout.root >= 0:
                Py_XDECREF(r.known[g.layout.root])
                r.known[g.layout.root], r.bases[g.layout.root] = <PyObject*>t, base_of(t)
                Py_INCREF(t)
        return 0

    cdef object fill(self, object x, Run* r):
        """An argument with its references replaced."""
        cdef TensorBase t
        if type(x) is Reference:
            t = self.tensor((<Reference>x).root, r)
            if not (<Reference>x).number:
                return (<Reference>x).of(t)
            if t.code == F64:
                return (<double*>pointer(t))[0]
            return (<int64_t*>pointer(t))[0]
        if type(x) is tuple:
            return tuple([self.fill(y, r) for y in <tuple>x])
        if type(x) is list:
            return [self.fill(y, r) for y in <list>x]
        if type(x) is dict:
            return {key: self.fill(y, r) for key, y in (<dict>x).items()}
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return type(x)(*[self.fill(y, r) for y in x])
        return x

    cdef TensorBase tensor(self, int root, Run* r):
        """A tensor over a root."""
        cdef TensorBase t
        cdef Layout* own
        cdef int d
        if r.known[root] == NULL:
            own = &self.placed[self.place_of[root]]
            t = new_object()
            set_rank(t, own.rank)
            t.count = 1
            for d in range(own.rank):
                t.sizes[d], t.strides[d] = own.sizes[d], own.sizes[own.rank + d]
                t.count *= own.sizes[d]
            t.code, t.width = own.code, ITEMSIZE[own.code]
            t.storage = <Storage>r.memories[-1 - own.home] if own.home < 0 else (<TensorBase>r.known[own.home]).storage
            t.offset = own.at // t.width
            find_contiguous(t)
            r.known[root] = <PyObject*>t
            Py_INCREF(t)
        return <TensorBase>r.known[root]

    cdef object result(self, object x, Run* r):
        """A result with its references replaced; what is returned twice is one object."""
        if not self.whole:
            return viewed(self, x, r, {})
        if self.single:
            return self.tensor((<Reference>x).root, r)
        return tuple([self.tensor((<Reference>y).root, r) for y in <tuple>x])

    def __repr__(self):
        return f"Runner({self.number(LoopStep, 'kernel')}, {self.number(PreparedStep, 'product')}, {self.number(CallStep, 'call')}, {self.nbytes} bytes)"

    def number(self, kind, str name) -> str:
        """How many steps of a kind there are, in words."""
        n = sum([isinstance(step, kind) and (kind is LoopStep or not isinstance(step, LoopStep)) for step in self.steps])
        return f"{n} {name}{'' if n == 1 else 's'}"

    # --- steps and memories as arrays ------------------------------
    cdef int finish(self) except -1:
        cdef int k, i, d, operands = 0, first = 0, taken = 0, dropped = 0, freed = 0
        cdef bint begins              # a new stretch
        cdef Layout* own
        cdef Launch* l
        cdef Stretch* s = NULL
        cdef PreparedStep step
        cdef LoopPlan plan
        cdef double work = 0
        if self.complete:
            raise RuntimeError("Runner: its outputs have been set")
        self.inputs, self.placed, self.made = layouts(self.places[0]), layouts(self.places[1]), layouts(self.places[2])
        self.given_count, self.placed_count, self.made_count = [len(x) for x in self.places]
        self.place_of = <int*>allocate(self.roots, sizeof(int))
        for k in range(self.roots):
            self.place_of[k] = -1
        for k in range(self.placed_count):
            self.place_of[self.placed[k].root] = k
        self.written_count = <int>len(self.written_roots)
        self.written = <int*>allocate(self.written_count, sizeof(int))
        for k in range(self.written_count):
            self.written[k] = self.written_roots[k]
        self.memory_count = <int>len(self.memory_sizes)
        self.sizes = <int64_t*>allocate(self.memory_count, sizeof(int64_t))
        for k in range(self.memory_count):
            self.sizes[k] = self.memory_sizes[k]
        self.drops, self.takes, self.frees = numbers(self.drop_lists), numbers(self.take_lists), numbers(self.free_lists)
        for k in range(len(self.steps)):
            if isinstance(self.steps[k], PreparedStep):
                self.launch_count += 1
                step = <PreparedStep>self.steps[k]
                operands += step.count
                self.widest = max(self.widest, step.count)
                if not self.is_late(step.workspace):
                    self.workspace = max(self.workspace, step.workspace)
            else:
                self.calls = True
        self.launches = <Launch*>allocate(self.launch_count, sizeof(Launch))
        self.operands = <Operand*>allocate(operands, sizeof(Operand))
        self.stretches = <Stretch*>allocate(len(self.steps), sizeof(Stretch))
        operands = 0
        for k in range(len(self.steps)):
            begins = s == NULL or s.call != NULL or s.workspace != 0 or isinstance(self.steps[k], CallStep)
            if isinstance(self.steps[k], PreparedStep):
                begins = begins or self.is_late((<PreparedStep>self.steps[k]).workspace)
            for which in self.take_lists[k]:
                begins = begins or which >= 0 or self.is_late(nbytes_of(&self.made[-1 - <int>which]))
            if begins or self.ends[k - 1] or self.free_lists[k - 1]:
                s = &self.stretches[self.stretch_count]
                self.stretch_count += 1
                s.begin, s.take_begin, s.drop_begin, s.free_begin, work = first, taken, dropped, freed, 0
            if isinstance(self.steps[k], CallStep):
                s.call = <PyObject*>self.steps[k]
            else:
                step, l = <PreparedStep>self.steps[k], &self.launches[first]
                first += 1
                l.step, l.count, l.work, l.operands = <PyObject*>step, step.count, step.work, self.operands + operands
                operands += step.count
                for i in range(step.count):
                    d = self.place_of[step.roots[i]]
                    l.operands[i].root, l.operands[i].offset = step.roots[i], step.offsets[i]
                    if d >= 0:
                        own = &self.placed[d]
                        l.operands[i].root = self.roots - 1 - own.home if own.home < 0 else own.home
                        l.operands[i].offset += own.at
                if type(step) is LoopStep:
                    plan = (<LoopStep>step).plan
                    s.away = s.away or plan.device is not None
                    if plan.geometry != NULL and plan.offsets == NULL and plan.repeated < 0 and not plan.many:
                        l.kernel, l.geometry, l.scalars = plan.run, plan.geometry, plan.scalars
                work += step.work
                s.end, s.work, s.releases = first, work, work >= PARALLEL_FROM and not s.away
                s.workspace = step.workspace if self.is_late(step.workspace) else 0
            taken += <int>len(self.take_lists[k])
            dropped += <int>len(self.drop_lists[k])
            freed += <int>len(self.free_lists[k])
            s.take_end, s.drop_end, s.free_end = taken, dropped, freed
        self.complete = True
        return 0

    cdef bint is_late(self, int64_t nbytes) noexcept:
        return 0 < self.late <= nbytes


cdef inline void let_go(PyObject** held) noexcept:
    """Give up a reference, if there is one."""
    cdef PyObject* o = held[0]
    held[0] = NULL
    Py_XDECREF(o)


cdef int* numbers(list lists) except NULL:
    """All of these lists, one after another."""
    cdef list flat = [x for own in lists for x in own]
    cdef int* to = <int*>allocate(len(flat), sizeof(int))
    cdef int k
    for k in range(len(flat)):
        to[k] = flat[k]
    return to


cdef void* allocate(size_t count, size_t size) except NULL:
    cdef void* memory = calloc(max(count, <size_t>1), size)
    if memory == NULL:
        raise MemoryError
    return memory


cdef Layout* layouts(list geometries) except NULL:
    """An array of them; the sizes stay with the geometries."""
    cdef Layout* to = <Layout*>allocate(len(geometries), sizeof(Layout))
    cdef int k
    for k in range(len(geometries)):
        to[k] = (<Geometry>geometries[k]).layout
    return to


cdef str mismatch(int k, place, given):
    where = "CPU" if place.device is None else str((<Device>place.device).place)
    wanted = f"a {where} tensor of {place.dtype}, shape {list(place.shape)} and strides {place.stride}"
    if not isinstance(given, TensorBase):
        return f"the plan was made for {wanted} as argument {k}, got {type(given).__name__}"
    return (f"the plan was made for {wanted} as argument {k}, got {given.dtype} on {given.device} of shape {list(given.shape)} and strides "
            f"{given.stride()}")


cdef object viewed(Runner runner, object x, Run* r, dict views):
    """A structure with its references replaced."""
    if type(x) is Reference:
        if x not in views:
            views[x] = (<Reference>x).view(runner.tensor((<Reference>x).root, r))
        return views[x]
    if type(x) is tuple:
        return tuple([viewed(runner, y, r, views) for y in <tuple>x])
    if type(x) is list:
        return [viewed(runner, y, r, views) for y in <list>x]
    if type(x) is dict:
        return {key: viewed(runner, y, r, views) for key, y in (<dict>x).items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*[viewed(runner, y, r, views) for y in x])
    return x


cdef int collect(object x, list result) except -1:
    """The tensors of a result."""
    if isinstance(x, TensorBase):
        result.append(x)
    elif isinstance(x, (tuple, list)):
        for y in x:
            collect(y, result)
    elif isinstance(x, dict):
        for y in x.values():
            collect(y, result)
    return 0


# --- results in memory that is written again ------------------------------
def is_held(TensorBase t not None) -> bool:
    """Whether others hold the memory of a tensor, of which the caller has one."""
    return Py_REFCNT(<PyObject*>t.storage) > 1


def is_exposed(TensorBase t not None) -> bool:
    """Whether the address of its memory was given away."""
    return t.storage.exposed


def moved_out(TensorBase t not None) -> TensorBase:
    """A tensor over the memory of this one, which lies in new memory, with its elements, from then on: so do all over the same storage."""
    cdef Storage held = t.storage, new = new_storage_on(t.storage.on, t.storage.length)
    cdef TensorBase result
    if held.length:
        held.on.copy_within(new.address, held.address, held.length)
    trade(held, new)
    new.inference = held.inference
    result = alias(t, t.rank, t.sizes, t.strides, t.offset)
    result.storage = new
    return result


def results_of(list tensors not None) -> tuple:
    """New tensors over the memory of these."""
    cdef TensorBase t
    return tuple([alias(t, t.rank, t.sizes, t.strides, t.offset) for t in tensors])


def note_writes(TensorBase t not None) -> None:
    """Before something else than a plan writes to an input as the plan does."""
    check_writable(t, "compiled function")
    bump_version(t)
