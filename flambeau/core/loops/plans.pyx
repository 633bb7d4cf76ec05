# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Plans as objects: a kernel and the geometry of its operands, made once and launched again and again.

`planning.pyx` makes them.  What an eager call finds out each time (how to walk, by which kernel, in which stages) is in the plan; a
launch takes places.  Plans go by the same loops and cuts as eager calls, so their results have the same bits.
"""
from collections import namedtuple
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from cpython.object cimport PyObject
from ..base.device cimport MAX_ARGUMENTS, Device
from ..base.dtypes cimport ITEMSIZE, dtype_of, size_from
from ..base.tensor cimport TensorBase, bump_version, check_writable, data_address, new_strided_on, new_tensor_on
from ..tape.modes cimport grad_enabled, wants_grad
from ..call.kernels cimport BROADCAST, PARALLEL_FROM, STRIDED, Launch, access_of, device_launcher
from ..call.layout cimport HEAD, in_one_call, launch_plan
from ..call.overlap cimport meet, same_steps
from .rows cimport Rows, launch, launch_stages, new_rows, plan_stages, work_of

cdef extern from "alloca.h" nogil:
    void* alloca(size_t n)

cdef enum:
    ROW_HEAD = 6              # of a row kernel's geometry, before the strides; see codegen/schedule_cpu_rows.py
    APART = 64                # bytes that blocks' states begin at multiples of

cdef str LETTERS = "cbs"      # codegen.kernels.CONTIGUOUS, BROADCAST, STRIDED

Geometry = namedtuple("Geometry", ("dtype", "shape", "strides", "offset"), defaults=(0,))
Geometry.__doc__ = """An operand of a plan without its elements: strides, and how far its first element stands from the place that a launch gives, in
elements."""


cdef void* allocate(size_t count, size_t size) except NULL:
    cdef void* memory = calloc(max(count, <size_t>1), size)
    if memory == NULL:
        raise MemoryError
    return memory


cdef class LoopPlan:
    """A pointwise kernel and the loops over its operands; see `planning.loop_plan` and `plan_of`.

    Plans are equal where they do the same to operands of the same geometry.
    """

    def __cinit__(self):
        self.repeated = -1

    def __init__(self):
        if self.structure is None:
            raise TypeError(f"{type(self).__name__} is made by the functions of planning")

    def __dealloc__(self):
        free(self.geometry)
        free(self.scalars)
        free(self.codes)
        free(self.ranks)
        free(self.sizes)
        free(self.strides)
        free(self.offsets)
        free(self.width)
        free(self.loops.strides)

    cdef int reserve(self, str name, int count, int outputs, int pitch, Device device) except -1:
        """Room for operands of at most `pitch` dimensions."""
        self.name, self.count, self.outputs, self.pitch, self.device = name, count, outputs, max(pitch, 1), device
        self.codes, self.ranks = <int*>allocate(count, sizeof(int)), <int*>allocate(count, sizeof(int))
        self.width = <int*>allocate(count, sizeof(int))
        self.sizes = <int64_t*>allocate(count * self.pitch, sizeof(int64_t))
        self.strides = <int64_t*>allocate(count * self.pitch, sizeof(int64_t))
        return 0

    cdef void describe(self, int k, int code, int rank, const int64_t* sizes, const int64_t* strides) noexcept:
        """The geometry of operand k."""
        self.codes[k], self.ranks[k], self.width[k] = code, rank, ITEMSIZE[code]
        memcpy(self.sizes + k * self.pitch, sizes, rank * sizeof(int64_t))
        memcpy(self.strides + k * self.pitch, strides, rank * sizeof(int64_t))

    cdef int keep_scalars(self, const uint64_t* scalars, int n) except -1:
        self.scalars = <uint64_t*>allocate(n, sizeof(uint64_t))
        memcpy(self.scalars, scalars, n * sizeof(uint64_t))
        return 0

    cdef int settle(self, object key, int scalars) except -1:
        """What equal plans have in common: kernels (by `key`), operands, loops and scalars."""
        self.structure = (type(self), key, self.outputs, self.operands, self.loop_sizes(), self.loop_strides(),
                          tuple([self.scalars[k] for k in range(scalars)]), self.device)
        return 0

    # --- what it is ---
    @property
    def operands(self) -> tuple:
        """The geometry of each operand, results first."""
        return tuple([Geometry(dtype_of(self.codes[k]), tuple(size_from(self.ranks[k], self.sizes + k * self.pitch)),
                               tuple([self.strides[k * self.pitch + d] for d in range(self.ranks[k])]),
                               0 if self.offsets == NULL else self.offsets[k] // self.width[k]) for k in range(self.count)])

    def loop_sizes(self) -> tuple:
        """How often each loop turns, the outermost first."""
        return tuple([self.loops.sizes[d] for d in range(self.loops.rank - 1, -1, -1)])

    def loop_strides(self) -> tuple:
        """For each operand, how far it moves with each loop, in elements."""
        return tuple([tuple([self.loops.strides[k * self.loops.pitch + d] for d in range(self.loops.rank - 1, -1, -1)])
                      for k in range(self.loops.operands)])

    def accesses(self) -> tuple:
        """How the innermost loop walks over each operand: "c" (contiguous), "b" (one element) or "s" (strided)."""
        return tuple([letter(self.loops.strides[k * self.loops.pitch], k < self.outputs) for k in range(self.count)])

    def __repr__(self):
        results, inputs = self.spelled(0, self.outputs), self.spelled(self.outputs, self.count)
        return f"{type(self).__name__}({self.name}: {self.walked()}; {results} from {inputs})"

    def walked(self) -> str:
        return "loops " + " x ".join(map(str, self.loop_sizes()))

    def spelled(self, int begin, int end) -> str:
        strides, access = self.loop_strides(), self.accesses()
        return ", ".join([f"{dtype_of(self.codes[k]).name} {strides[k]} {access[k]}" for k in range(begin, end)]) or "nothing"

    def __eq__(self, other):
        return isinstance(other, LoopPlan) and self.structure == (<LoopPlan>other).structure

    def __hash__(self):
        return hash(self.structure)

    # --- launches ---
    cdef int launch_at(self, char** data) except -1 nogil:
        cdef char** places
        if self.offsets == NULL and self.repeated < 0:
            if self.geometry == NULL:
                return self.launch_loops(data)
            self.run(data, self.geometry, self.scalars)
            return 0
        places = <char**>alloca((self.count + 1) * sizeof(char*))
        self.shift(places, data)
        if self.geometry == NULL:
            return self.launch_loops(places)
        self.run(places, self.geometry, self.scalars)
        return 0

    cdef void shift(self, char** places, char** data) noexcept nogil:
        """Where the kernel's operands stand."""
        cdef int k
        for k in range(self.count):
            places[k] = data[k] + (0 if self.offsets == NULL else self.offsets[k])
        if self.repeated >= 0:
            places[self.count] = places[self.repeated]

    cdef int prepare(self) except -1:
        """What a launch need not find out again."""
        cdef int64_t* geometry
        self.check_arguments()
        geometry = <int64_t*>allocate(HEAD + 2 * self.count, sizeof(int64_t))
        self.many = self.loops.count >= PARALLEL_FROM // self.outputs
        if self.device is None and in_one_call(&self.loops, self.outputs, geometry):
            self.geometry = geometry
        else:
            free(geometry)
        return 0

    cdef int arguments(self) except -1:
        """How many arguments a launch on a device has, beside scalars (`launch.pyx`)."""
        return self.loops.operands * (2 + self.loops.rank) + self.loops.rank + 1

    cdef int check_arguments(self) except -1:
        cdef int scalars = 0 if self.family is None else <int>len(self.family.narrow)
        if self.device is not None and self.arguments() + scalars > MAX_ARGUMENTS:
            raise NotImplementedError(f"{self.name}: {self.count} operands are more than one launch on a device takes")
        return 0

    cdef int launch_loops(self, char** data) except -1 nogil:
        cdef Launch work
        work.run, work.plan, work.data, work.width, work.scalars = self.run, &self.loops, data, self.width, self.scalars
        work.outputs = self.outputs
        launch_plan(&work)
        return 0

    cdef int launch_there(self, char** data, const uint64_t* scalars) except -1:
        """`launch_at` on the plan's device, with other scalars than the plan's own where they are given."""
        cdef char** places = data
        cdef const uint64_t* numbers = self.scalars
        if scalars != NULL:
            numbers = scalars
        if self.offsets != NULL or self.repeated >= 0:
            places = <char**>alloca((self.count + 1) * sizeof(char*))
            self.shift(places, data)
        return self.launch_away(places, numbers)

    cdef int launch_away(self, char** data, const uint64_t* scalars) except -1:
        cdef Launch work
        work.run, work.plan, work.data, work.width, work.scalars = self.run, &self.loops, data, self.width, scalars
        work.outputs = self.outputs
        return device_launcher.pointwise(self.device, self.family, &work)

    def launch(self, tensors, out=None):
        """Compute on inputs of the planned geometry; returns new results, or `out` (a tensor, or a tuple of several), written over.

        Nothing is recorded, and modes do not intercept it.  TypeError where something is no tensor, ValueError where a tensor is of another
        dtype, shape, layout or device than planned, RuntimeError where a result must not be written or lies over what is read.
        """
        cdef tuple inputs = tuple(tensors), results
        cdef char** data = <char**>alloca((self.count + 1) * sizeof(char*))
        cdef int k
        if len(inputs) != self.count - self.outputs:
            raise TypeError(f"{self.name}.launch(): {self.count - self.outputs} tensors expected, got {len(inputs)}")
        for k in range(<int>len(inputs)):
            self.check(inputs[k], self.outputs + k, "input", k)
        if out is None:
            results = tuple([self.new_result(k) for k in range(self.outputs)])
        else:
            results = tuple(out) if isinstance(out, (tuple, list)) else (out,)
            if len(results) != self.outputs:
                raise TypeError(f"{self.name}.launch(): out= takes {self.outputs} tensors, got {len(results)}")
            for k in range(self.outputs):
                self.check(results[k], k, "result", k)
                self.check_written(results, k, inputs)
        for k in range(self.outputs):
            data[k] = data_address(<TensorBase>results[k])
        for k in range(self.outputs, self.count):
            data[k] = data_address(<TensorBase>inputs[k - self.outputs])
        if self.device is not None:
            self.launch_there(data, NULL)
        elif self.many:
            with nogil:
                self.launch_at(data)
        else:
            self.launch_at(data)
        if out is not None:
            for k in range(self.outputs):
                bump_version(<TensorBase>results[k])
            return out
        return results[0] if self.outputs == 1 else results

    cdef TensorBase new_result(self, int k):
        if self.offsets != NULL and self.offsets[k]:
            raise ValueError(f"{self.name}.launch(): result {k} stands at an offset: give it as out=")
        return new_strided_on(self.device, self.ranks[k], self.sizes + k * self.pitch, self.strides + k * self.pitch, self.codes[k])

    cdef int check(self, object given, int k, str kind, int number) except -1:
        """ValueError for a tensor of another geometry than operand k's."""
        cdef TensorBase t
        cdef int d, rank = self.ranks[k]
        cdef const int64_t* sizes = self.sizes + k * self.pitch
        cdef const int64_t* strides = self.strides + k * self.pitch
        cdef bint fits
        if not isinstance(given, TensorBase):
            raise TypeError(f"{self.name}.launch(): {kind} {number} must be Tensor, not {type(given).__name__}")
        t = <TensorBase>given
        fits = t.code == self.codes[k] and t.rank == rank
        for d in range(rank):
            fits = fits and t.sizes[d] == sizes[d] and (t.strides[d] == strides[d] or sizes[d] <= 1 or t.count == 0)
        if not fits:
            raise ValueError(f"{self.name}.launch(): {kind} {number} is planned as {dtype_of(self.codes[k])} of shape "
                             f"{list(size_from(rank, sizes))} with strides {[strides[d] for d in range(rank)]}, got {t.dtype} of shape "
                             f"{list((<object>t).shape)} with strides {[t.strides[d] for d in range(t.rank)]}")
        if t.storage.on is not self.device:
            raise ValueError(f"{self.name}.launch(): {kind} {number} is planned on {place(self.device)}, got one on {t.device}")
        if self.offsets != NULL and self.offsets[k] and t.count:
            first = t.offset + self.offsets[k] // self.width[k]
            low = first + sum([(sizes[d] - 1) * strides[d] for d in range(rank) if strides[d] < 0])
            high = first + sum([(sizes[d] - 1) * strides[d] for d in range(rank) if strides[d] > 0])
            if low < 0 or (high + 1) * self.width[k] > t.storage.length:
                raise ValueError(f"{self.name}.launch(): {kind} {number} reaches from element {low} to {high} of a storage of "
                                 f"{t.storage.length} bytes")
        return 0

    cdef int check_written(self, tuple results, int k, tuple inputs) except -1:
        """RuntimeError where result k cannot be written."""
        cdef TensorBase out = <TensorBase>results[k], t
        cdef int i
        check_writable(out, self.name)
        if grad_enabled() and wants_grad(out):
            raise RuntimeError(f"{self.name}.launch(): a result that requires grad cannot be written, since nothing is recorded")
        for i in range(k + 1, self.outputs):
            if (<TensorBase>results[i]).storage is out.storage and self.crosses(out, k, <TensorBase>results[i], i, False):
                raise RuntimeError(f"{self.name}.launch(): results {k} and {i} share elements")
        for i in range(<int>len(inputs)):
            t = <TensorBase>inputs[i]
            if t.storage is out.storage and self.crosses(out, k, t, self.outputs + i, self.in_place()):
                raise RuntimeError(f"{self.name}.launch(): result {k} shares elements with input {i}, which is read: clone the input")
        return 0

    cdef bint crosses(self, TensorBase a, int k, TensorBase b, int i, bint exactly):
        """Whether two operands over one storage share bytes; the same elements in the same order do no harm where `exactly` is set."""
        if self.offsets != NULL and (self.offsets[k] or self.offsets[i]):
            return a.count != 0 and b.count != 0     # how far apart they are is not looked into
        if exactly and a.offset == b.offset and a.width == b.width and a.rank == b.rank and same_steps(a, b):
            return False
        return meet(a, b)

    cdef bint in_place(self) noexcept:
        """Whether a result may be written over an input of the same geometry."""
        return True


cdef str letter(int64_t stride, bint written):
    cdef int access = access_of(stride)
    return LETTERS[STRIDED if written and access == BROADCAST else access]


cdef int arguments_of(const Rows* rows) noexcept:
    cdef int outer = rows.outer + 1, axes = outer + (2 if rows.r1 != 1 else 1)
    return rows.operands * (2 + axes) + axes + outer + 2


cdef str place(Device device):
    return "cpu" if device is None else str(device.place)


cdef class RowLoopPlan(LoopPlan):
    """A kernel along rows and the loops over its operands; see `planning.row_plan` and `plan_of`."""

    def __dealloc__(self):
        free(self.rows)
        free(self.stages.part)
        free(self.stages.last)
        free(self.state_codes)

    @property
    def along(self) -> bool:
        """Whether lanes run along the row, else across rows."""
        return self.rows.along

    @property
    def block(self) -> int:
        """Elements of a block that a row is cut into; 0: it is not."""
        return self.stages.block if self.stages.part != NULL else 0

    def loop_sizes(self) -> tuple:
        """How often each loop turns: the outer ones, the lanes' or the rows', then those of a row."""
        return (*[self.rows.outer_size[d] for d in range(self.rows.outer - 1, -1, -1)], self.rows.k, self.rows.r1, self.rows.r0)

    def loop_strides(self) -> tuple:
        """For each operand, how far it moves with each loop, in elements."""
        cdef Rows* rows = self.rows
        return tuple([(*[rows.outer_stride[k * rows.pitch + d] for d in range(rows.outer - 1, -1, -1)], rows.strides[3 * k],
                       rows.strides[3 * k + 1], rows.strides[3 * k + 2]) for k in range(rows.operands)])

    def accesses(self) -> tuple:
        """How the lanes' loop walks over each operand: "c" (contiguous), "b" (one element) or "s" (strided)."""
        return self.access

    def walked(self) -> str:
        cdef Rows* rows = self.rows
        outer = " x ".join(map(str, (*[rows.outer_size[d] for d in range(rows.outer - 1, -1, -1)], rows.k)))
        length = str(rows.r0) if rows.r1 == 1 else f"{rows.r1} x {rows.r0}"
        return (f"{outer} rows of {length}, lanes {'along' if rows.along else 'across'}"
                + (f", in blocks of {self.stages.block}" if self.stages.part != NULL else ""))

    cdef bint in_place(self) noexcept:
        return False     # a row is read more than once, and results are written between

    cdef int attach(self, const Rows* rows, int operands) except -1:
        """Keep loops with their arrays: those of a launch that stands elsewhere."""
        cdef Rows* own = new_rows(operands, max(rows.outer, 1))
        cdef int k, d
        self.rows = own
        own.run, own.outputs, own.along, own.panel = rows.run, rows.outputs, rows.along, rows.panel
        own.k, own.r1, own.r0, own.total, own.outer = rows.k, rows.r1, rows.r0, rows.total, rows.outer
        memcpy(own.width, rows.width, operands * sizeof(int))
        memcpy(own.strides, rows.strides, 3 * operands * sizeof(int64_t))
        memcpy(own.outer_size, rows.outer_size, rows.outer * sizeof(int64_t))
        for k in range(operands):
            for d in range(rows.outer):
                own.outer_stride[k * own.pitch + d] = rows.outer_stride[k * rows.pitch + d]
        return 0

    cdef int prepare(self) except -1:
        """The same for rows, whose kernels are known."""
        cdef Rows* rows = self.rows
        cdef int64_t work = work_of(rows)
        self.check_arguments()
        self.run, self.many = rows.run, work >= PARALLEL_FROM
        if self.device is not None or self.stages.part != NULL or rows.outer or rows.panel or work == 0 or self.many:
            return 0
        self.geometry = <int64_t*>allocate(ROW_HEAD + 3 * rows.operands, sizeof(int64_t))
        self.geometry[0], self.geometry[1], self.geometry[2], self.geometry[3] = rows.k, rows.r1, rows.r0, rows.total
        memcpy(self.geometry + ROW_HEAD, rows.strides, 3 * rows.operands * sizeof(int64_t))
        return 0

    cdef int cut(self, list codes, bint ordered) except -1:
        """In blocks whose states are of those dtypes."""
        cdef int k, n = <int>len(codes)
        cdef int* widths = <int*>alloca(n * sizeof(int))
        self.state_codes = <int*>allocate(n, sizeof(int))
        for k in range(n):
            self.state_codes[k] = codes[k]
            widths[k] = ITEMSIZE[self.state_codes[k]]
        plan_stages(&self.stages, self.rows, n, widths, self.device is None, ordered)
        for k in range(n):
            self.states_size += (self.stages.count * widths[k] + APART - 1) // APART * APART
        return 0

    cdef int launch_loops(self, char** data) except -1 nogil:
        cdef Rows rows
        cdef char* memory
        cdef char** states
        cdef int64_t used = 0
        cdef int k
        if self.stages.part == NULL:
            rows = self.rows[0]
            rows.data, rows.scalars = data, self.scalars
            return launch(&rows)
        memory = <char*>malloc(self.states_size)
        states = <char**>alloca(self.stages.states * sizeof(char*))
        if memory == NULL:
            with gil:
                raise MemoryError(f"{self.name}: no memory for the states of {self.stages.count} blocks")
        for k in range(self.stages.states):
            states[k] = memory + used
            used += (self.stages.count * ITEMSIZE[self.state_codes[k]] + APART - 1) // APART * APART
        try:
            launch_stages(&self.stages, data, states, self.scalars, NULL)
        finally:
            free(memory)
        return 0

    cdef int arguments(self) except -1:
        if self.stages.part == NULL:
            return arguments_of(self.rows)
        return max(arguments_of(self.stages.part), arguments_of(self.stages.last))

    cdef int launch_away(self, char** data, const uint64_t* scalars) except -1:
        cdef Rows rows
        cdef char** states
        cdef list held = []
        cdef TensorBase t
        cdef int k
        if self.stages.part == NULL:
            rows = self.rows[0]
            rows.data, rows.scalars, rows.device = data, scalars, <PyObject*>self.device
            return launch(&rows)
        states = <char**>alloca(self.stages.states * sizeof(char*))
        for k in range(self.stages.states):
            t = new_tensor_on(self.device, 1, &self.stages.count, self.state_codes[k])
            held.append(t)
            states[k] = data_address(t)
        return launch_stages(&self.stages, data, states, scalars, <PyObject*>self.device)
