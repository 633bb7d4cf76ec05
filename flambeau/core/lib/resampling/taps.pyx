# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Lines whose elements are sums of a few elements of other lines: resizing, padding, pooling, and their gradients.

A `Taps` is a table for one dimension: which elements of the input go into each place of the result, with which weights, and what
the sum is divided by.  It is made once for a size and a rule.  The gradient is the sum by the transposed table, so that what is
linear in rows and columns is declared by its table alone.

Images are walked plane by plane: some rows of the result are summed in the first dimension into a buffer that stays in the cache,
then in the second along themselves (`codegen/tiles/taps.py`).  Where elements behind the second dimension lie side by side
(channels last), both sum whole rows.
"""
from libc.math cimport ceil, fabs, floor, floorf
from libc.stdint cimport int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset
cimport cython
from ...base.dtypes cimport F32, F64
from ...base.memory cimport scratch
from ...base.parallel cimport parallel_interruptible
from ...base.callbacks import callbacks
from ...base.sizes cimport mul_overflow
from ...base.tensor cimport MAX_DIMS, TensorBase, bump_version, new_tensor_on, pointer
from ...views.strided cimport compact

ctypedef void (*rows_t)(char* to, int64_t to_step, const char* source, int64_t from_step, const int64_t* first, const int64_t* at,
                        const char* weight, const char* divisor, const char* factor, int64_t j0, int64_t j1,
                        int64_t length) noexcept nogil
ctypedef void (*line_t)(char* to, int64_t to_step, const char* source, int64_t from_step, int64_t lines, const int64_t* which,
                        const char* factor, int64_t size, int64_t out, const int64_t* first, const int64_t* at, const uint8_t* lane,
                        const int64_t* mask, const char* weight, const char* divisor) noexcept nogil

cdef enum:
    VECTOR = 64               # bytes
    BUFFER = 1 << 13          # bytes of rows between the two dimensions
    MOST_LINES = 64           # rows of the result that are made together
    MOST_TURNS = 6            # slots of a vector that are written out
    PARALLEL_FROM = 1 << 15   # elements from which threads pay off

cdef float[MOST_LINES] ones32
cdef double[MOST_LINES] ones64
cdef int64_t[MOST_LINES] upwards
cdef int _k
for _k in range(MOST_LINES):
    ones32[_k] = ones64[_k] = 1
    upwards[_k] = _k


# --- tables ------------------------------------------------------------------------------------------------------------------
@cython.binding(False)
@cython.final
cdef class Taps:
    """Place j of `out` is the sum of the elements at[t], times weight[t] (1 without), first[j] <= t < first[j + 1], divided by
    divisor[j] (where there is one)."""

    cdef readonly int64_t size       # of the input
    cdef readonly int64_t out        # of the result
    cdef readonly bint moves         # every place is one element or nothing
    cdef int64_t capacity
    cdef int64_t* first
    cdef int64_t* at
    cdef double* weight
    cdef double* divisor
    cdef float* weight32
    cdef float* divisor32
    cdef int64_t* runs
    cdef int64_t number_of_runs
    cdef dict slots                  # by width of an element
    cdef Taps other                  # the transposed table

    def __cinit__(self, int64_t size, int64_t out, bint weighted, bint divided):
        if size < 1 or out < 0:
            raise ValueError(f"a table needs elements, got {size} and {out} places")
        self.size, self.out, self.capacity, self.moves = size, out, 0, not weighted and not divided
        self.slots = {}
        self.first = <int64_t*>scratch(out + 1, sizeof(int64_t))
        self.first[0] = 0
        self.reserve(out + 1, weighted)
        if divided:
            self.divisor = <double*>scratch(out, sizeof(double))

    def __dealloc__(self):
        free(self.first)
        free(self.at)
        free(self.weight)
        free(self.divisor)
        free(self.weight32)
        free(self.divisor32)
        free(self.runs)

    cdef int reserve(self, int64_t capacity, bint weighted) except -1:
        cdef int64_t* at = <int64_t*>realloc(self.at, capacity * sizeof(int64_t))
        cdef double* weight
        if at == NULL:
            raise MemoryError
        self.at = at
        if weighted:
            weight = <double*>realloc(self.weight, capacity * sizeof(double))
            if weight == NULL:
                raise MemoryError
            self.weight = weight
        self.capacity = capacity
        return 0

    cdef inline int add(self, int64_t j, int64_t at, double weight) except -1:
        """One element more for place j, the last so far."""
        cdef int64_t t = self.first[j + 1]
        if t == self.capacity:
            self.reserve(2 * self.capacity, self.weight != NULL)
        self.at[t] = at
        if self.weight != NULL:
            self.weight[t] = weight
        self.first[j + 1] = t + 1
        if t > self.first[j]:
            self.moves = False
        return 0

    cdef const char* weights(self, int code) except? NULL:
        cdef int64_t t
        if self.weight == NULL or code != F32:
            return <const char*>self.weight
        if self.weight32 == NULL:
            self.weight32 = <float*>scratch(self.first[self.out], sizeof(float))
            for t in range(self.first[self.out]):
                self.weight32[t] = <float>self.weight[t]
        return <const char*>self.weight32

    cdef const char* divisors(self, int code) except? NULL:
        cdef int64_t j
        if self.divisor == NULL or code != F32:
            return <const char*>self.divisor
        if self.divisor32 == NULL:
            self.divisor32 = <float*>scratch(self.out, sizeof(float))
            for j in range(self.out):
                self.divisor32[j] = <float>self.divisor[j]
        return <const char*>self.divisor32

    @property
    def shares(self) -> list | None:
        """The divisors, where they differ: `turned` leaves them out, and gradients are divided by them before."""
        cdef int64_t j
        return None if uniform(self) else [self.divisor[j] for j in range(self.out)]

    def turned(self) -> Taps:
        """The transposed table, without `shares`, which the gradient is made by."""
        if self.other is None:
            self.other = transposed(self)
        return self.other

    cdef int find_runs(self) except -1:
        """Runs of places with as many elements each: where they end, and how many elements."""
        cdef int64_t j, count, made = 0
        if self.runs != NULL:
            return 0
        self.runs = <int64_t*>scratch(2 * self.out + 2, sizeof(int64_t))
        for j in range(self.out):
            count = self.first[j + 1] - self.first[j]
            if made == 0 or self.runs[2 * made - 1] != count:
                self.runs[2 * made + 1] = count
                made += 1
            self.runs[2 * made - 2] = j + 1
        self.number_of_runs = made
        return 0

    def rows_of(self) -> list:
        """For each place, its (element, weight / divisor)."""
        result = []
        for j in range(self.out):
            share = 1.0 if self.divisor == NULL else self.divisor[j]
            result.append([(self.at[t], (1.0 if self.weight == NULL else self.weight[t]) / share)
                          for t in range(self.first[j], self.first[j + 1])])
        return result


cdef bint uniform(Taps given) noexcept:
    """Whether all sums are divided by one number, or by none."""
    cdef int64_t j
    if given.divisor != NULL:
        for j in range(given.out):
            if given.divisor[j] != given.divisor[0]:
                return False
    return True


cdef Taps transposed(Taps given):
    cdef int64_t j, t, k, place
    cdef bint weighted = given.weight != NULL
    cdef Taps result = Taps(max(given.out, 1), given.size, weighted, given.divisor != NULL and uniform(given))
    result.reserve(given.first[given.out] + 1, weighted)
    memset(result.first, 0, (given.size + 1) * sizeof(int64_t))
    for t in range(given.first[given.out]):
        result.first[given.at[t] + 1] += 1
    for k in range(given.size):
        if result.first[k + 1] > 1:
            result.moves = False
        result.first[k + 1] += result.first[k]
        if result.divisor != NULL:
            result.divisor[k] = given.divisor[0]
    for j in range(given.out):
        for t in range(given.first[j], given.first[j + 1]):
            place = result.first[given.at[t]]
            result.first[given.at[t]] += 1
            result.at[place] = j
            if weighted:
                result.weight[place] = given.weight[t]
    for k in range(given.size, 0, -1):
        result.first[k] = result.first[k - 1]
    result.first[0] = 0
    return result


cdef inline int64_t clamped(int64_t i, int64_t size) noexcept nogil:
    return 0 if i < 0 else size - 1 if i >= size else i


def nearest(int64_t size, int64_t out, float scale, bint exact) -> Taps:
    """The elements that `interpolate` takes; their places are rounded to float32, as everybody does, because the floor shows it."""
    cdef Taps result = Taps(size, out, False, False)
    cdef int64_t j
    for j in range(out):
        result.first[j + 1] = result.first[j]
        result.add(j, clamped(<int64_t>floorf((<float>j + <float>(0.5 if exact else 0.0)) * scale), size), 1)
    return result


cdef inline double data_address(int64_t j, int64_t size, int64_t out, double scale, bint aligned) noexcept nogil:
    """Where the centre of an element of the result lies in the input."""
    if aligned:
        return j * (<double>(size - 1) / <double>(out - 1)) if out > 1 else 0.0
    return (j + 0.5) * scale - 0.5


def linear(int64_t size, int64_t out, double scale, bint aligned) -> Taps:
    """The two neighbours of each place, weighted by their nearness."""
    cdef Taps result = Taps(size, out, True, False)
    cdef double at, low
    cdef int64_t j, i
    for j in range(out):
        result.first[j + 1] = result.first[j]
        at = min(max(data_address(j, size, out, scale, aligned), 0.0), <double>(size - 1))
        low = floor(at)
        i = clamped(<int64_t>low, size)
        result.add(j, i, 1.0 - (at - low))
        result.add(j, clamped(i + 1, size), at - low)
    return result


cdef inline double keys(double x, double a) noexcept nogil:
    """The cubic convolution kernel (Keys 1981)."""
    x = fabs(x)
    if x <= 1.0:
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    return ((x - 5.0) * x + 8.0) * x * a - 4.0 * a if x < 2.0 else 0.0


def cubic(int64_t size, int64_t out, double scale, bint aligned) -> Taps:
    """The four neighbours of each place by Keys' kernel, a = -0.75."""
    cdef Taps result = Taps(size, out, True, False)
    cdef double at, low
    cdef int64_t j, k
    for j in range(out):
        result.first[j + 1] = result.first[j]
        at = data_address(j, size, out, scale, aligned)
        low = floor(at)
        for k in range(-1, 3):
            result.add(j, clamped(<int64_t>low + k, size), keys(at - low - k, -0.75))
    return result


def widened(int64_t size, int64_t out, double scale, bint aligned, bint by_cubic) -> Taps:
    """The kernel widened by `scale` when shrinking, its weights normalised: what `antialias` asks for."""
    cdef Taps result = Taps(size, out, True, False)
    cdef double stretch, support, centre, total, offset
    cdef int64_t j, i, low, high, t
    if aligned:
        scale = <double>(size - 1) / <double>(out - 1) if out > 1 else 0.0
    stretch = max(scale, 1.0)
    support = (2.0 if by_cubic else 1.0) * stretch
    for j in range(out):
        result.first[j + 1] = result.first[j]
        centre = (j + 0.5) * scale
        low, high = max(<int64_t>(centre - support + 0.5), 0), min(<int64_t>(centre + support + 0.5), size)
        total = 0
        for i in range(low, high):
            offset = (i - centre + 0.5) / stretch
            offset = keys(offset, -0.5) if by_cubic else max(1.0 - fabs(offset), 0.0)
            result.add(j, i, offset)
            total += offset
        for t in range(result.first[j], result.first[j + 1]):
            result.weight[t] /= total
    return result


def parts(int64_t size, int64_t out) -> Taps:
    """The mean of each of `out` equal parts; neighbours overlap by one element where they begin inside of one."""
    cdef Taps result = Taps(size, out, False, True)
    cdef int64_t j, i, begin, end
    for j in range(out):
        result.first[j + 1] = result.first[j]
        begin, end = j * size // out, ((j + 1) * size + out - 1) // out
        for i in range(begin, end):
            result.add(j, i, 1)
        result.divisor[j] = <double>(end - begin)
    return result


def windows(int64_t size, int64_t out, int64_t kernel, int64_t stride, int64_t padding, bint padded, bint divided) -> Taps:
    """The mean of each window, which padding counts in if it is included; without `divided` the sum."""
    cdef Taps result = Taps(size, out, False, divided)
    cdef int64_t j, i, begin, end
    for j in range(out):
        result.first[j + 1] = result.first[j]
        begin = j * stride - padding
        end = min(begin + kernel, size + padding)
        for i in range(max(begin, 0), min(end, size)):
            result.add(j, i, 1)
        if divided:
            result.divisor[j] = <double>(end - begin if padded else min(end, size) - max(begin, 0))
    return result


def extended(int64_t size, int64_t before, int64_t after, str mode) -> Taps:
    """A line with both ends made longer, or shorter: "reflect", "replicate" or "circular"."""
    cdef int64_t out = size + before + after, j, i
    cdef Taps result = Taps(size, out, False, False)
    for j in range(out):
        result.first[j + 1] = result.first[j]
        i = j - before
        if mode == "reflect":
            i = -i if i < 0 else i
            i = 2 * (size - 1) - i if i >= size else i
        elif mode == "circular":
            i = i + size if i < 0 else i - size if i >= size else i
        result.add(j, clamped(i, size), 1)
    return result


# --- slots -----------------------------------------------------------------------------------------------------------------------
@cython.binding(False)
@cython.final
cdef class Slots:
    """A table as `line` reads it: elements of neighbouring places that lie in one window are taken together."""

    cdef int64_t* first              # of each vector of the result
    cdef int64_t* at
    cdef uint8_t* lane
    cdef int64_t* mask
    cdef char* weight
    cdef char* divisor
    cdef int64_t count
    cdef int64_t turns               # slots of every vector; 0 where they are not as many
    cdef bint wide, short, partial

    def __dealloc__(self):
        free(self.first)
        free(self.at)
        free(self.lane)
        free(self.mask)
        free(self.weight)
        free(self.divisor)


cdef int64_t walk(Taps taps, int64_t lanes, int64_t window, int64_t b, Slots into, int width) noexcept:
    """The slots of vector b, written to `into` unless that is None; how many there are."""
    cdef int64_t n = min(lanes, taps.out - b * lanes), made = 0, j, t, low, start, slot, mask
    cdef int64_t next[VECTOR]
    cdef bint left
    for j in range(n):
        next[j] = taps.first[b * lanes + j]
    while True:
        low, left = taps.size, False
        for j in range(n):
            if next[j] < taps.first[b * lanes + j + 1]:
                left = True
                low = min(low, taps.at[next[j]])
        if not left:
            return made
        start, mask = min(low, max(taps.size - window, 0)), 0
        slot = into.first[b] + made if into is not None else 0
        for j in range(n):
            t = next[j]
            if into is not None and into.short:  # beyond the line, where a window is 0: for lanes without an element
                into.lane[slot * lanes + j] = <uint8_t>(window - 1)
            if t < taps.first[b * lanes + j + 1] and taps.at[t] - start < window:
                next[j] += 1
                mask |= <int64_t>1 << j
                if into is None:
                    continue
                into.lane[slot * lanes + j] = <uint8_t>(taps.at[t] - start)
                if taps.weight != NULL:
                    if width == 4:
                        (<float*>into.weight)[slot * lanes + j] = <float>taps.weight[t]
                    else:
                        (<double*>into.weight)[slot * lanes + j] = taps.weight[t]
        if into is not None:
            into.at[slot], into.mask[slot] = start, mask
            if not into.short and mask != (<int64_t>1 << n) - 1 and not (n == 64 and mask == -1):
                into.partial = True
        made += 1


cdef Slots slots_of(Taps taps, int width):
    result = taps.slots.get(width)
    if result is not None:
        return <Slots>result
    cdef Slots s = Slots()
    cdef int64_t lanes = VECTOR // width, blocks = (taps.out + lanes - 1) // lanes, b, j, narrow = 0, wide = 0, window
    for b in range(blocks):
        narrow += walk(taps, lanes, lanes, b, None, width)
        wide += walk(taps, lanes, 2 * lanes, b, None, width)
    s.wide = wide < narrow
    s.count = wide if s.wide else narrow
    window = 2 * lanes if s.wide else lanes
    s.short = taps.size < window
    s.first = <int64_t*>scratch(blocks + 1, sizeof(int64_t))
    s.at = <int64_t*>scratch(s.count, sizeof(int64_t))
    s.mask = <int64_t*>scratch(s.count, sizeof(int64_t))
    s.lane = <uint8_t*>calloc(s.count * lanes + 1, 1)
    if taps.weight != NULL:
        s.weight = <char*>calloc(s.count * lanes + 1, width)
    if s.lane == NULL or (taps.weight != NULL and s.weight == NULL):
        raise MemoryError
    s.first[0], s.turns = 0, 0
    for b in range(blocks):
        s.first[b + 1] = s.first[b] + walk(taps, lanes, window, b, s, width)
        s.turns = s.first[1] if s.first[b + 1] - s.first[b] == s.first[1] and s.turns >= 0 else -1
    s.turns = s.turns if 0 < s.turns <= MOST_TURNS else 0
    s.divisor = <char*>scratch(blocks * lanes, width)
    for j in range(blocks * lanes):
        if width == 4:
            (<float*>s.divisor)[j] = <float>taps.divisor[j] if taps.divisor != NULL and j < taps.out else 1
        elif width == 8:
            (<double*>s.divisor)[j] = taps.divisor[j] if taps.divisor != NULL and j < taps.out else 1
    taps.slots[width] = s
    return s


# --- walking over planes ------------------------------------------------------------------------------------------------------------
cdef struct Table:
    const int64_t* first
    const int64_t* at
    const char* weight
    const char* divisor

cdef struct Work:
    rows_t rows               # the first dimension
    rows_t across             # the second, where it is not innermost
    line_t line               # where it is
    Table h
    Table w                   # of `across`, and of a plain `line`
    const uint8_t* lane
    const int64_t* mask       # of slots, or the runs of a plain line
    int64_t windows           # the size of a line that windows must not leave, or how many runs there are
    const char* factor        # of each row of the result, or 1 over and over
    bint factors
    const int64_t* moved      # the row of the source that each row of the result is, where rows are only moved; they are not copied
    char* to
    const char* source
    int64_t height, width, inner, new_height, new_width
    int64_t chunk, chunks     # rows that are made together, and how many of those a plane has
    int bytes
    bint failed


cdef void make_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Chunks of rows [begin, end) of all planes."""
    cdef Work* w = <Work*>context
    cdef int64_t row = w.width * w.inner, unit, plane, j0, j1, lines, j
    cdef const char* source
    cdef const char* factor
    cdef char* to
    cdef char* buffer = NULL
    if w.rows != NULL and (w.line != NULL or w.across != NULL):
        buffer = <char*>malloc(row * w.chunk * w.bytes)
        if buffer == NULL:
            w.failed = True
            return
    for unit in range(begin, end):
        plane, j0 = unit // w.chunks, unit % w.chunks * w.chunk
        j1 = min(j0 + w.chunk, w.new_height)
        source = w.source + plane * w.height * row * w.bytes
        to = w.to + (plane * w.new_height + j0) * w.new_width * w.inner * w.bytes
        factor = w.factor + (j0 * w.bytes if w.factors else 0)
        if w.rows != NULL:
            w.rows(to if buffer == NULL else buffer, row, source, row, w.h.first, w.h.at, w.h.weight, w.h.divisor, w.factor, j0, j1, row)
            source = buffer
        elif w.moved == NULL:
            source += j0 * row * w.bytes
        if w.line != NULL:
            w.line(to, w.new_width, source, w.width, j1 - j0, <const int64_t*>&upwards[0] if w.moved == NULL else w.moved + j0, factor, w.windows,
                   w.new_width, w.w.first, w.w.at, w.lane, w.mask, w.w.weight, w.w.divisor)
        elif w.across != NULL:
            for j in range(j1 - j0):
                w.across(to + j * w.new_width * w.inner * w.bytes, w.inner, source + j * row * w.bytes, w.inner, w.w.first, w.w.at,
                         w.w.weight, w.w.divisor, factor + (j * w.bytes if w.factors else 0), 0, w.new_width, w.inner)
    free(buffer)


cdef Table table_of(Taps taps, int code) except *:
    cdef Table result
    result.first, result.at = taps.first, taps.at
    result.weight, result.divisor = taps.weights(code), taps.divisors(code)
    return result


cdef uintptr_t function(str name, tuple given) except 0:
    return callbacks["taps.address"](name, *given)


cdef dict functions = {}      # by what a launch is specialised on


cdef uintptr_t known(str name, tuple given) except 0:
    result = functions.get((name, given))
    if result is None:
        result = functions[(name, given)] = function(name, given)
    return result


def takes(TensorBase x not None, list tables) -> bool:
    """Whether `summed` takes such a tensor: any dtype of up to 8 bytes where elements are only moved, else float32 and float64."""
    cdef bint moves = True
    if x.storage.on is not None and not x.storage.on.blank:
        return False
    for taps in tables:
        moves = moves and (taps is None or (<Taps?>taps).moves)
    return x.code == F32 or x.code == F64 or (moves and x.width <= 8)


def summed(TensorBase input not None, int dim, Taps first or None, Taps second or None):
    """The input, (planes…, height, width, inner…), its dimensions `dim` and dim + 1 summed by the tables.  Either may be None: nothing
    is done there.  Where only the first is given, there need be no second dimension.  Not recorded."""
    cdef bint blank = input.storage.on is not None     # `takes` has no other device
    cdef TensorBase x = input if blank else compact(input), out
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t planes = 1, units, each, steps
    cdef Work w
    cdef Slots slots
    cdef bint moves = (first is None or first.moves) and (second is None or second.moves), divided, weighted
    cdef int d, code = x.code
    cdef str kind
    if first is not None and second is None and dim == x.rank - 1:  # along the innermost dimension
        first, second, dim = None, first, dim - 1
    if dim < -1 or dim + (second is not None) >= x.rank:
        raise IndexError(f"dimensions {dim} and {dim + 1} of a tensor of {x.rank}")
    w.height = w.width = w.inner = 1
    for d in range(x.rank):
        sizes[d] = x.sizes[d]
        if d < dim:
            planes *= x.sizes[d]
        elif d == dim:
            w.height = x.sizes[d]
        elif d == dim + 1 and second is not None:
            w.width = x.sizes[d]
        else:
            w.inner *= x.sizes[d]
    w.new_height, w.new_width = w.height, w.width
    if first is not None:
        w.new_height = sizes[dim] = first.out
    if second is not None:
        w.new_width = sizes[dim + 1] = second.out
    if (first is not None and first.size != w.height) or (second is not None and second.size != w.width):
        raise ValueError(f"a table for another size than that of dimensions {dim} and {dim + 1} of {list(x.shape)}")
    if not (code == F32 or code == F64 or (moves and x.width <= 8)):
        raise TypeError(f"sums of {x.dtype}")
    out = new_tensor_on(x.storage.on, x.rank, sizes, code)
    if blank or out.count == 0:
        return out
    kind = ("u" if moves else "f") + str(x.width)
    w.rows, w.across, w.line, w.bytes, w.failed, w.factors = NULL, NULL, NULL, x.width, False, False
    w.lane, w.mask, w.moved, w.windows = NULL, NULL, NULL, 0
    w.factor = <const char*>ones32 if x.width == 4 else <const char*>ones64
    if first is not None:
        divided = second is None and first.divisor != NULL
        w.rows = <rows_t>known("rows", (kind, first.weight != NULL, divided))
        w.h = table_of(first, code)
        w.factors = not divided and first.divisor != NULL
        if w.factors:
            w.factor = w.h.divisor
    if second is not None:
        divided, weighted = second.divisor != NULL or w.factors, second.weight != NULL
        if w.inner > 1:
            w.across = <rows_t>known("rows", (kind, weighted, divided))
            w.w = table_of(second, code)
            if divided and second.divisor == NULL:
                slots = slots_of(second, x.width)
                w.w.divisor = slots.divisor
        elif callbacks["taps.permutes"](x.width):
            slots = slots_of(second, x.width)
            w.line = <line_t>known("line", (kind, weighted, divided, slots.turns, slots.wide, slots.short, slots.partial))
            w.w.first, w.w.at, w.w.weight, w.w.divisor = slots.first, slots.at, slots.weight, slots.divisor
            w.lane, w.mask, w.windows = slots.lane, slots.mask, w.width
        else:
            w.line = <line_t>known("plain_line", (kind, weighted, divided))
            w.w = table_of(second, code)
            second.find_runs()
            w.mask, w.windows = second.runs, second.number_of_runs
            if divided and second.divisor == NULL:
                slots = slots_of(second, x.width)
                w.w.divisor = slots.divisor
    if w.line != NULL and first is not None and first.moves and first.first[first.out] == first.out:
        w.rows, w.moved = NULL, first.at
    w.to, w.source = pointer(out), pointer(x)
    each = max(w.width * w.inner, w.new_width * w.inner)
    w.chunk = min(max(BUFFER // (each * x.width), 1), <int64_t>MOST_LINES)
    w.chunk = min(w.chunk, w.new_height)
    w.chunks = (w.new_height + w.chunk - 1) // w.chunk
    units = planes * w.chunks
    each = max(each * w.chunk, 1)
    if mul_overflow(each, units, &steps) == 0 and steps < PARALLEL_FROM:
        make_range(&w, 0, units)
    else:
        with nogil:
            parallel_interruptible(make_range, &w, units, max(PARALLEL_FROM // each, 1), <double>each)
    if w.failed:
        raise MemoryError("no memory for a row")
    bump_version(out)
    return out
