# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Plans of products: what `matrices.plan_product` decides for two tensors, kept, with an epilogue of any expression.

>>> import flambeau
>>> from flambeau.codegen import functions as fn
>>> from flambeau.codegen.tiles.epilogues import traced
>>> epilogue = traced(lambda sum, bias: fn.maximum(sum + bias, fn.like(sum, 0.0)), "float32", ("columns",))
>>> x, weight, bias = flambeau.ones(2, 3), flambeau.ones(3, 2), flambeau.tensor([1.0, -9.0])
>>> plan = ProductPlan(x, weight, bias, epilogue=epilogue)
>>> plan(x, weight, bias)
tensor([[4., 0.],
        [4., 0.]])
"""
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from .blas cimport INTERRUPTED, OK
from .matrices cimport (
    BY_BOTH, BY_COLUMNS, BY_ROWS, COPY_LEFT, COPY_RIGHT, ELSEWHERE, MATRIX, Ending, Layout, Places, Scale, launch_product, lay_out,
    plan_product,
)
from .panels cimport Products, lay_right, packed_size, panels_of, tiles_of
from ..tiles cimport MOST_OPERANDS
from ...base.dtypes cimport BF16, BOOL, CATEGORY, F16, F32, F64, ITEMSIZE, U8, dtype_of, is_stored, size_from
from ...base.sizes cimport product_of, row_major
from ...base.tensor cimport MAX_DIMS, TensorBase, bump_version, new_tensor, pointer
from ...views.geometry cimport copy_strided
cimport cython

cdef enum: LINE = 64


cdef inline int64_t lines(int64_t nbytes) noexcept nogil:
    return (nbytes + LINE - 1) // LINE * LINE


@cython.final
@cython.binding(False)
cdef class ProductPlan:
    """How `a @ b` of the last two dimensions is computed, and what is made of the sums; dimensions before them broadcast.

    Without an epilogue the result is `numbers[0] * a @ b + numbers[1] * operand`, as `addmm`'s, with the bits of an eager call;
    numbers are 1 where none are given.  With one (`codegen.tiles.epilogues`), it is the epilogue's expression of the sums, of
    operands and numbers: an operand read by "columns" has shape (n,), by "rows" the result's without its last dimension, by
    "both" the result's; all are contiguous, but a matrix by "both" may have rows apart.

    `laid`: the right operand is given as `lay` has laid it out, once for many launches; there is one for all matrices.

    A plan depends on shapes, strides and dtypes alone: equal ones are equal.  Results are not recorded on the tape.

    Raises:
        RuntimeError: shapes that do not fit
        TypeError: dtypes that differ, an epilogue of another dtype
        ValueError: operands or numbers that do not fit the epilogue
        NotImplementedError: dtypes and devices that have no such product
    """

    def __cinit__(self, TensorBase a not None, TensorBase b not None, *operands, epilogue=None, tuple numbers=(), bint laid=False):
        cdef TensorBase addend = None
        self.code, self.epilogue, self.numbers, self.laid = a.code, epilogue, numbers, laid
        self.read((a, b, *operands))
        if epilogue is None and not laid:
            if len(operands) > 1 or len(numbers) > 2:
                raise ValueError(f"ProductPlan: at most one operand and two numbers without an epilogue; got {len(operands)} and "
                                 f"{len(numbers)}")
            addend = operands[0] if operands else None
            self.plan(a, b, addend, NULL)
        else:
            self.read_operands(operands)
            self.plan(a, b, None, &self.ending)

    def __dealloc__(self):
        free(self.geometry)

    # --- what is given ---
    cdef int read(self, tuple tensors) except -1:
        """Keep the tensors' geometry; TypeError and RuntimeError where they do not fit."""
        cdef TensorBase t, a = tensors[0], b = tensors[1]
        cdef int64_t count, workspace = 0
        cdef int64_t* to
        cdef int d, k
        for k in range(len(tensors)):
            t = tensors[k]
            if t is None:
                raise TypeError("ProductPlan: operands are tensors; got None")
            if t.storage.on is not None:
                raise NotImplementedError(f"ProductPlan: tensors on the host; got one on {t.device}")
            if t.code != a.code:
                raise TypeError(f"ProductPlan: tensors of one dtype; got {dtype_of(a.code)} and {dtype_of(t.code)}")
            workspace += 1 + 2 * t.rank
        if a.code == F16 or a.code == BOOL or is_stored(a.code):
            raise NotImplementedError(f"ProductPlan: no products of {dtype_of(a.code)}: make it float32")
        if a.rank < 2 or b.rank < 2:
            raise RuntimeError(f"ProductPlan: tensors of two dimensions or more; got shapes {list(a.shape)} and {list(b.shape)}")
        if a.sizes[a.rank - 1] != b.sizes[b.rank - 2]:
            raise RuntimeError(f"ProductPlan: mat1 and mat2 shapes cannot be multiplied ({a.sizes[a.rank - 2]}x{a.sizes[a.rank - 1]} and "
                               f"{b.sizes[b.rank - 2]}x{b.sizes[b.rank - 1]})")
        self.rank = max(a.rank, b.rank)
        for d in range(self.rank):
            k = self.rank - 1 - d
            self.sizes[k] = max(a.sizes[a.rank - 1 - d] if d < a.rank else 1, 0)
            if d == 0:
                self.sizes[k] = b.sizes[b.rank - 1]
            elif d > 1 and d < b.rank and b.sizes[b.rank - 1 - d] != self.sizes[k]:
                if self.sizes[k] != 1 and b.sizes[b.rank - 1 - d] != 1:
                    raise RuntimeError(f"ProductPlan: shapes {list(a.shape)} and {list(b.shape)} do not broadcast")
                if self.sizes[k] == 1:
                    self.sizes[k] = b.sizes[b.rank - 1 - d]
        if product_of(self.rank, self.sizes, &count) or row_major(self.rank, self.sizes, self.strides):
            raise RuntimeError(f"ProductPlan: the result of shapes {list(a.shape)} and {list(b.shape)} has too many elements")
        self.empty, self.given = count == 0, <int>len(tensors)
        self.geometry = to = <int64_t*>malloc(workspace * sizeof(int64_t))
        if to == NULL:
            raise MemoryError()
        for t in tensors:
            to[0] = t.rank
            memcpy(to + 1, t.sizes, t.rank * sizeof(int64_t))
            memcpy(to + 1 + t.rank, t.strides, t.rank * sizeof(int64_t))
            to += 1 + 2 * t.rank
        return 0

    cdef int read_operands(self, tuple operands) except -1:
        """The epilogue's: TypeError and ValueError where they do not fit it."""
        cdef TensorBase t
        cdef int64_t n = self.sizes[self.rank - 1]
        cdef int k, read
        cdef bint fits
        if self.code != F32 and self.code != F64 and self.code != BF16:
            raise NotImplementedError(f"ProductPlan: epilogues of float32, float64 and bfloat16; got {dtype_of(self.code)}")
        reads = () if self.epilogue is None else self.epilogue.reads
        count = 0 if self.epilogue is None else self.epilogue.numbers
        if len(operands) != len(reads) or len(self.numbers) != count:
            raise ValueError(f"ProductPlan: the epilogue takes {len(reads)} operands and {count} numbers; got {len(operands)} and "
                             f"{len(self.numbers)}")
        own = "float64" if self.code == F64 else "float32"
        if self.epilogue is not None and self.epilogue.root.dtype != own:
            raise TypeError(f"ProductPlan: sums of {dtype_of(self.code)} are {own}; got an epilogue of {self.epilogue.root.dtype}")
        self.ending.tiles, self.ending.operands, self.ending.laid = tiles_of(self.code, self.epilogue), <int>len(reads), self.laid
        for k in range(MOST_OPERANDS):
            self.ending.numbers[k] = self.numbers[k] if k < len(self.numbers) else 0.0
        whole = tuple(size_from(self.rank, self.sizes))
        for k in range(len(reads)):
            t = operands[k]
            read = BY_COLUMNS if reads[k] == "columns" else BY_ROWS if reads[k] == "rows" else BY_BOTH
            wanted = whole[self.rank - 1:] if read == BY_COLUMNS else whole[:self.rank - 1] if read == BY_ROWS else whole
            fits = t.contiguous or read == BY_BOTH and t.rank == 2 and t.strides[1] == 1
            if tuple(t.shape) != wanted or not fits:
                raise ValueError(f"ProductPlan: operand {k}, read by {reads[k]}, has shape {list(wanted)} and elements side by side; got "
                                 f"shape {list(t.shape)} and strides {list(t.stride())}")
            self.ending.reads[k] = read
            self.ending.rows[k] = (n if t.contiguous else t.strides[0]) * t.width if read == BY_BOTH else 0
        return 0

    # --- the plan ---
    cdef int plan(self, TensorBase a, TensorBase b, TensorBase addend, const Ending* ending) except -1:
        cdef Layout left, right, result, added
        cdef Scale alpha, beta
        cdef int64_t a_strides[MAX_DIMS]
        cdef int64_t b_strides[MAX_DIMS]
        cdef int d, needs, missing
        if self.empty:
            return 0
        result.rank, result.form, result.contiguous, result.sizes, result.strides = self.rank, MATRIX, True, self.sizes, self.strides
        lay_out(&left, a, MATRIX)
        lay_out(&right, b, MATRIX)
        scale_of(&alpha, self.numbers[0] if self.numbers and ending == NULL else 1, self.code)
        scale_of(&beta, 0 if addend is None else self.numbers[1] if len(self.numbers) > 1 else 1, self.code)
        if addend is not None and beta.real == 0 and beta.imag == 0 and beta.whole == 0:
            addend = None
        if addend is not None:
            lay_out(&added, addend, MATRIX)
            missing = self.rank - addend.rank
            for d in range(self.rank):
                self.start[d] = 0 if d < missing or addend.sizes[d - missing] == 1 else addend.strides[d - missing]
                if missing < 0 or d >= missing and addend.sizes[d - missing] != 1 and addend.sizes[d - missing] != self.sizes[d]:
                    raise RuntimeError(f"ProductPlan: an operand of shape {list(addend.shape)} does not broadcast to the result's, "
                                       f"{list(size_from(self.rank, self.sizes))}")
        while True:
            needs = plan_product(&self.p, self.code, &left, &right, &result, &alpha, &beta, NULL if addend is None else &added, ending)
            if needs == 0:
                break
            if needs == ELSEWHERE:
                raise NotImplementedError(f"ProductPlan: this processor has no such product of {dtype_of(self.code)}: make it float32")
            if needs & COPY_LEFT:
                row_major(left.rank, left.sizes, a_strides)
                left.contiguous, left.strides = True, a_strides
            if needs & COPY_RIGHT:
                row_major(right.rank, right.sizes, b_strides)
                right.contiguous, right.strides = True, b_strides
            self.copies |= needs
        self.places[0] = lines(self.p.workspace)
        self.places[1] = self.places[0] + (lines(a.count * a.width) if self.copies & COPY_LEFT else 0)
        self.workspace = self.places[1] + (lines(b.count * b.width) if self.copies & COPY_RIGHT else 0)
        return 0

    # --- launches ---
    cdef const int64_t* geometry_of(self, int which) noexcept nogil:
        cdef const int64_t* result = self.geometry
        cdef int k
        for k in range(which):
            result += 1 + 2 * result[0]
        return result

    cdef int launch(self, char* c, const char* a, const char* b, const char** operands, char* workspace) noexcept nogil:
        cdef Products tiled
        cdef Places at
        cdef int k
        if self.empty:
            return OK
        at.a, at.b, at.c, at.workspace = a, b, c, workspace
        if self.copies & COPY_LEFT:
            at.a = copied_to(workspace + self.places[0], a, self.geometry, ITEMSIZE[self.code])
        if self.copies & COPY_RIGHT:
            at.b = copied_to(workspace + self.places[1], b, self.geometry_of(1), ITEMSIZE[self.code])
        for k in range(self.given - 2):
            at.operands[k] = operands[k]
        if self.p.starts:
            copy_strided(c, self.strides, operands[0], self.start, self.rank, self.sizes, ITEMSIZE[self.code])
        if self.p.by_tiles:
            tiled = self.p.tiled
        return launch_product(&self.p, &tiled, &at)

    cdef int check(self, str name, int which, TensorBase t) except -1:
        """ValueError where the tensor has not the geometry of the plan's."""
        cdef const int64_t* g = self.geometry_of(which)
        cdef int d, rank = <int>g[0]
        cdef bint fits = t.rank == rank and t.code == self.code and t.storage.on is None
        for d in range(rank):
            fits = fits and t.sizes[d] == g[1 + d] and (t.sizes[d] <= 1 or t.strides[d] == g[1 + rank + d])
        if not fits:
            raise ValueError(f"ProductPlan: {name} has shape {list(size_from(rank, g + 1))}, strides {list(size_from(rank, g + 1 + rank))} "
                             f"and dtype {dtype_of(self.code)}; got {list(t.shape)}, {list(t.stride())} and {t.dtype}")
        return 0

    def lay(self, TensorBase b not None) -> TensorBase:
        """The right operand laid out as a plan made with `laid` reads it, bytes.

        Raises:
            ValueError: the plan was not made so, or b has another geometry
        """
        cdef TensorBase result
        cdef int64_t count = 0
        if not self.laid:
            raise ValueError("ProductPlan.lay: a plan made with laid=True")
        self.check("b", 1, b)
        if not self.empty:
            count = packed_size(&self.p.tiled.one)
        result = new_tensor(1, &count, U8)
        if count:
            lay_right(&self.p.tiled.one, pointer(result), pointer(b), self.p.tiled.b_row, self.p.tiled.b_col, 0, panels_of(&self.p.tiled.one))
        return result

    def __call__(self, TensorBase a not None, TensorBase b not None, *operands, TensorBase out=None) -> TensorBase:
        """The result for these tensors, in `out` where it is given, which may be an operand read by "both".

        Raises:
            ValueError: a tensor of another geometry than the plan's, or an `out` that a or b shares memory with
        """
        cdef const char* at[MOST_OPERANDS]
        cdef TensorBase result = out, t, workspace
        cdef int64_t bytes
        cdef int k, status
        if len(operands) != self.given - 2:
            raise ValueError(f"ProductPlan: {self.given - 2} operands; got {len(operands)}")
        self.check("a", 0, a)
        if not self.laid:
            self.check("b", 1, b)
        elif b.code != U8 or not b.contiguous or b.storage.on is not None or (
                not self.empty and b.count != packed_size(&self.p.tiled.one)):
            raise ValueError("ProductPlan: b is what `lay` has returned")
        for k in range(len(operands)):
            t = operands[k]
            self.check(f"operand {k}", 2 + k, t)
            at[k] = pointer(t)
        if result is None:
            result = new_tensor(self.rank, self.sizes, self.code)
        elif result.code != self.code or not result.contiguous or tuple(result.shape) != tuple(size_from(self.rank, self.sizes)) or (
                result.storage is a.storage or result.storage is b.storage):
            raise ValueError(f"ProductPlan: out is contiguous, of shape {list(size_from(self.rank, self.sizes))} and dtype "
                             f"{dtype_of(self.code)}, apart from a and b; got shape {list(result.shape)}, dtype {result.dtype}")
        bytes = self.workspace + LINE
        workspace = new_tensor(1, &bytes, U8)
        with nogil:
            status = self.launch(pointer(result), pointer(a), pointer(b), at, <char*>((<uintptr_t>pointer(workspace) + 63) & ~<uintptr_t>63))
        bump_version(result)
        if status != OK and status != INTERRUPTED:
            raise RuntimeError(f"ProductPlan: a dimension or stride of shapes {list(a.shape)} and {list(b.shape)} does not fit into the 32 "
                               "bits that the BLAS library counts with")
        check_interrupt(status)
        return result

    # --- what it is ---
    @property
    def way(self) -> str:
        """What computes it."""
        if self.empty:
            return "nothing"
        return ("dots" if self.p.tiled.dots else "tiles") if self.p.by_tiles else (
            "pairs" if self.code == BF16 else "BLAS" if CATEGORY[self.code] >= 2 else "integers")

    def key(self) -> tuple:
        """All that the plan depends on."""
        cdef const int64_t* g
        cdef int k
        result = []
        for k in range(self.given):
            g = self.geometry_of(k)
            result.append((tuple(size_from(<int>g[0], g + 1)), tuple(size_from(<int>g[0], g + 1 + g[0]))))
        return (self.code, tuple(result), self.epilogue, self.numbers, self.laid)

    def __eq__(self, other) -> bool:
        return isinstance(other, ProductPlan) and self.key() == (<ProductPlan>other).key()

    def __hash__(self) -> int:
        return hash(self.key())

    def __repr__(self) -> str:
        shapes = [str(shape) for shape, _ in self.key()[1]]
        made = "" if self.epilogue is None else f", {self.epilogue!r}"
        more = "" if len(shapes) == 2 else f", operands {', '.join(shapes[2:])}"
        return f"ProductPlan({dtype_of(self.code)} {shapes[0]} @ {shapes[1]}{more}{made}, by {self.way}{', laid' if self.laid else ''})"


cdef int check_interrupt(int status) except -1:
    """The exception is set where a launch was interrupted."""
    return -1 if status == INTERRUPTED else 0


cdef char* copied_to(char* to, const char* source, const int64_t* geometry, int width) noexcept nogil:
    """A tensor of this geometry without gaps."""
    cdef int64_t strides[MAX_DIMS]
    cdef int rank = <int>geometry[0]
    row_major(rank, geometry + 1, strides)
    copy_strided(to, strides, source, geometry + 1 + rank, rank, geometry + 1, width)
    return to


cdef int scale_of(Scale* to, value, int code) except -1:
    whole = complex(value)
    to.real, to.imag = whole.real, whole.imag
    to.whole = <int64_t>to.real if CATEGORY[code] >= 2 else value
    return 0
