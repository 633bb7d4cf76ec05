# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Discrete Fourier transforms on the host: what walks over signals and calls the generated passes (codegen/tiles/transforms.py).

As many signals as a vector has lanes are transformed side by side, from one scratch buffer to another and back.  Rows become
lanes by turning squares; along any other dimension neighbours are lanes as they lie.  Where a length is a number of vectors, a signal's own elements are lanes: its first pass has as many factors
as there are, and turns its results, and the others go over whole vectors.  A long signal, or few of them, are cut: n = n1 n2
numbers are n2 signals of n1 side by side, then, times e^(-2πi j k/n), n1 signals of n2 (D. Bailey, "FFTs in external or
hierarchical memory", 1990).  Lengths with large prime factors become convolutions of a length without (L. Bluestein, 1970).

A plan, the factors of a length and their tables, is kept.  What belongs together depends on the shapes alone, so the bits are the
same for any number of threads.
"""
from libc.math cimport sqrt
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset
from posix.stdlib cimport posix_memalign
from ..base.device import OutOfMemoryError
from ..base.dtypes cimport C64, C128, F32, F64
from ..base.memory cimport check_memory, out_of_memory_message
from ..base.parallel cimport parallel_interruptible, task_t
from ..base.callbacks import callbacks
from ..base.tensor cimport MAX_DIMS, TensorBase, new_tensor, pointer

cdef extern from "<math.h>" nogil:
    long double acosl(long double x)
    long double cosl(long double x)
    long double sinl(long double x)

ctypedef void (*generated_t)(int64_t* words) noexcept nogil

cdef enum:
    MOST_PASSES = 24
    MOST_LANES = 16
    PLANS = 64                 # lengths that are remembered
    WHOLE = 4096               # elements up to which a signal is transformed in one piece, where there are many
    PART = 2048                # elements of the parts of one that is cut
    CUT_FROM = 192             # elements from which single signals are cut
    LONGEST = PART * PART
    FEW_LANES = 4              # up to which they are moved one by one
    MOST_TOGETHER = 64         # signals whose own elements are lanes that are transformed together, ...
    TOGETHER = 8192            # or as many as have so many bytes
    CONVOLVED = 1000           # elements up to which Bluestein's way is taken

ctypedef fused Real:
    float
    double

# What a pass costs for an element, in some unit: what the choice of factors goes by.
cdef dict COSTS = {2: 5.0, 3: 6.0, 4: 5.5, 5: 7.5, 6: 7.0, 7: 10.0, 8: 7.5, 9: 9.0, 10: 9.0, 11: 17.0, 13: 21.0, 16: 9.0}

cdef struct Functions:
    int lanes
    int64_t block              # bytes of an element of all lanes
    int64_t plane              # of its real parts
    generated_t rows_in, rows_out, lanes_in, lanes_out, times, twisted, scaled, mirrored, unpacked, packed
    generated_t own_out[2]     # on and back
    generated_t row_unpacked, row_packed

cdef struct Steps:             # of one length
    int64_t n, workspace       # elements that a buffer holds
    int passes
    generated_t functions[MOST_PASSES]
    int64_t m[MOST_PASSES]
    int64_t s[MOST_PASSES]
    char* factors[MOST_PASSES]
    Steps* inner               # of the convolution
    char* chirp
    char* spectrum
    char* last

cdef struct Own:               # of a signal whose own elements are lanes
    int signals                # that share a vector, 1 or 2; 0 where they are none
    int together               # that are transformed together
    int64_t m                  # what is left behind the first pass, ...
    const Steps* rest          # and its steps
    char* factors
    generated_t first[2]       # on and back

cdef Functions narrow, wide
cdef bint ready[2]
cdef dict plans = {}
cdef long double whole_turn = 2 * acosl(-1)


cdef Functions* functions_of(int size) except NULL:
    """The generated functions for numbers of 4 or 8 bytes, compiled at the first use."""
    cdef Functions* f = &narrow if size == 4 else &wide
    if not ready[size == 8]:
        kind, address = "float" if size == 4 else "double", callbacks["transforms.address"]
        f.plane = callbacks["transforms.width"]()
        f.lanes, f.block = <int>(f.plane // size), 2 * f.plane
        f.rows_in = <generated_t><uintptr_t>address("rows_in", kind)
        f.rows_out = <generated_t><uintptr_t>address("rows_out", kind)
        f.lanes_in = <generated_t><uintptr_t>address("lanes_in", kind)
        f.lanes_out = <generated_t><uintptr_t>address("lanes_out", kind)
        f.times = <generated_t><uintptr_t>address("times", kind)
        f.twisted = <generated_t><uintptr_t>address("twisted", kind)
        f.scaled = <generated_t><uintptr_t>address("scaled", kind)
        f.mirrored = <generated_t><uintptr_t>address("mirrored", kind)
        f.unpacked = <generated_t><uintptr_t>address("unpacked", kind)
        f.packed = <generated_t><uintptr_t>address("packed", kind)
        f.own_out[0] = <generated_t><uintptr_t>address("own_out_on", kind)
        f.own_out[1] = <generated_t><uintptr_t>address("own_out_back", kind)
        f.row_unpacked = <generated_t><uintptr_t>address("row_unpacked", kind)
        f.row_packed = <generated_t><uintptr_t>address("row_packed", kind)
        ready[size == 8] = True
    return f


# --- plans -------------------------------------------------------------------------------------------------------------------
cdef inline void root(int64_t k, int64_t n, double* result) noexcept nogil:
    """e^(-2πi k/n), rounded from more digits."""
    cdef long double angle = whole_turn * <long double>(k % n) / <long double>n
    result[0], result[1] = <double>cosl(angle), <double>-sinl(angle)


cdef inline void put(char* to, int size, int64_t k, double re, double im) noexcept nogil:
    if size == 4:
        (<float*>to)[2 * k], (<float*>to)[2 * k + 1] = <float>re, <float>im
    else:
        (<double*>to)[2 * k], (<double*>to)[2 * k + 1] = re, im


def factors(int64_t n) -> list | None:
    """The factors of n in the cheapest order of passes, None where one would be a larger prime than the passes have.

    >>> factors(1000)
    [10, 10, 10]
    """
    best = {1: (0.0, [])}

    def cheapest(k):
        if k not in best:
            ways = [(COSTS[r] + more[0], [r, *more[1]]) for r in COSTS if k % r == 0 for more in (cheapest(k // r),) if more is not None]
            best[k] = min(ways, default=None)
        return best[k]

    way = cheapest(n)
    return None if way is None else sorted(way[1], reverse=True)


cdef class Plan:
    """The passes of a transform of n elements, with their tables."""
    cdef Steps steps
    cdef Plan inner            # of the convolution
    cdef Plan first            # of a signal that is cut: the n1 and n2, and the tables of factors between
    cdef Plan second
    cdef Own own               # where own elements are lanes
    cdef Plan rest             # then the passes behind the first one
    cdef list held             # bytearrays with the tables
    cdef int size
    cdef char* between         # e^(-2πi k l/n) as blocks: k < n1, one lane l each
    cdef char* coarse          # the same for multiples of a step
    cdef char* fine
    cdef char* halves          # e^(-πi k/n): what makes a real signal of 2n numbers of it
    cdef int64_t n

    cdef char* table(self, int64_t numbers) except NULL:
        workspace = bytearray(numbers * 2 * self.size + 64)
        self.held.append(workspace)
        return <char*><uintptr_t>((<uintptr_t><char*>workspace + 63) & ~<uintptr_t>63)

    cdef int roots(self, char* to, int64_t count, int64_t n) except -1:
        """The first powers of e^(-2πi/n)."""
        cdef int64_t k
        cdef double[2] w
        for k in range(count):
            root(k, n, w)
            put(to, self.size, k, w[0], w[1])
        return 0

    cdef int in_one_piece(self, list way) except -1:
        cdef Steps* p = &self.steps
        cdef int64_t left = self.n, done = 1, m, k, j
        cdef int radix, i
        cdef double[2] w
        kind, address = "float" if self.size == 4 else "double", callbacks["transforms.address"]
        p.n = p.workspace = self.n
        p.passes, p.inner = len(way), NULL
        for i in range(p.passes):
            radix = way[i]
            m = left // radix
            p.functions[i] = <generated_t><uintptr_t>address(f"pass{radix}", kind)
            p.m[i], p.s[i], p.factors[i] = m, done, self.table(m * (radix - 1))
            for k in range(m):
                for j in range(1, radix):
                    root(j * k, left, w)
                    put(p.factors[i], self.size, k * (radix - 1) + j - 1, w[0], w[1])
            left, done = m, done * radix
        return 0

    cdef int with_own_lanes(self) except -1:
        """n = lanes · m, where m is a number of vectors or half a one; other lengths are left as they are."""
        cdef int lanes = functions_of(self.size).lanes, lane, j
        cdef int64_t m = self.n // lanes, p
        cdef char* to
        cdef double[2] w
        if lanes < 4 or self.n % lanes or (m % lanes and 2 * m != lanes):
            return 0
        kind, address = "float" if self.size == 4 else "double", callbacks["transforms.address"]
        self.rest = plan_of(m, self.size)
        self.own.m, self.own.rest = m, &self.rest.steps
        self.own.signals = 1 if m % lanes == 0 else 2
        self.own.together = min(max(TOGETHER // <int>(self.n * 2 * self.size), 1), <int>MOST_TOGETHER)
        self.own.together = (self.own.together + self.own.signals - 1) // self.own.signals * self.own.signals
        self.own.first[0] = <generated_t><uintptr_t>address(f"own{self.own.signals}_on", kind)
        self.own.first[1] = <generated_t><uintptr_t>address(f"own{self.own.signals}_back", kind)
        self.own.factors = to = self.table(max(m, <int64_t>lanes) * (lanes - 1))
        for p in range(0, m, lanes):
            for j in range(1, lanes):
                for lane in range(lanes):
                    root(j * (p + lane % m), self.n, w)
                    if self.size == 4:
                        (<float*>to)[lane], (<float*>to)[lanes + lane] = <float>w[0], <float>w[1]
                    else:
                        (<double*>to)[lane], (<double*>to)[lanes + lane] = w[0], w[1]
                to += 2 * lanes * self.size
        return 0

    cdef int as_convolution(self) except -1:
        """x_k w^(k²/2) convolved with w^(-k²/2), times w^(k²/2)."""
        cdef Steps* p = &self.steps
        cdef int64_t n = self.n, length = 2 * n - 1, k
        cdef double[2] w
        import numpy as np

        while (way := factors(length)) is None or max(way) > 10:   # powers of 2 would put their elements into few sets of a cache
            length += 1
        self.inner = plan_of(length, self.size)
        p.n, p.workspace, p.inner, p.passes = n, length, &self.inner.steps, 0
        p.chirp, p.last, p.spectrum = self.table(n), self.table(n), self.table(length)
        kernel = np.zeros(length, "complex128")
        for k in range(n):
            root(k * k % (2 * n), 2 * n, w)
            put(p.chirp, self.size, k, w[0], w[1])
            put(p.last, self.size, k, w[0] / length, w[1] / length)
            kernel.real[k], kernel.imag[k] = w[0], -w[1]
            kernel.real[-k], kernel.imag[-k] = w[0], -w[1]
        spectrum = np.fft.fft(kernel)
        real, imaginary = spectrum.real.tolist(), spectrum.imag.tolist()
        for k in range(length):
            put(p.spectrum, self.size, k, real[k], imaginary[k])
        return 0

    cdef int cut(self, int64_t n1) except -1:
        cdef int64_t k, n2 = self.n // n1, step = 1
        cdef int lane, lanes = functions_of(self.size).lanes
        cdef double[2] w
        self.first, self.second = plan_of(n1, self.size), plan_of(n2, self.size)
        self.between = self.table(n1 * lanes)
        for k in range(n1):
            for lane in range(lanes):
                root(k * lane, self.n, w)
                if self.size == 4:
                    (<float*>self.between)[2 * k * lanes + lane] = <float>w[0]
                    (<float*>self.between)[(2 * k + 1) * lanes + lane] = <float>w[1]
                else:
                    (<double*>self.between)[2 * k * lanes + lane] = w[0]
                    (<double*>self.between)[(2 * k + 1) * lanes + lane] = w[1]
        workspace = bytearray(2 * STEP * 16)
        self.held.append(workspace)
        self.fine = <char*>workspace
        workspace = bytearray((self.n // STEP + 1) * 16)
        self.held.append(workspace)
        self.coarse = <char*>workspace
        for k in range(STEP):
            root(k, self.n, <double*>self.fine + 2 * k)
        for k in range(self.n // STEP + 1):
            root(k * STEP, self.n, <double*>self.coarse + 2 * k)
        return 0

    cdef int with_halves(self) except -1:
        if self.halves == NULL:
            self.halves = self.table(self.n // 2 + 1)
            self.roots(self.halves, self.n // 2 + 1, 2 * self.n)
        return 0

cdef enum:
    STEP = 1024                # powers in the fine table of factors between the two halves of a cut


cdef int64_t divisor_near_root(int64_t n):
    """The divisor by which a signal is cut: the largest up to √n whose cofactor is no longer than a whole signal may be; 0 for none."""
    cdef int64_t k = <int64_t>(sqrt(<double>n) + 0.5), least = max(4, (n + PART - 1) // PART)
    while k >= least:
        if n % k == 0 and n // k <= PART and factors(k) is not None:
            return k
        k -= 1
    return 0


cdef Plan plan_of(int64_t n, int size, bint cut=False):
    """The plan of a length, None for lengths that are left to others; `cut`: as two lengths, where that can be."""
    cdef Plan p
    cdef int64_t n1
    key = (n, size, cut)
    if key in plans:
        return plans[key]
    p = Plan.__new__(Plan)
    p.n, p.size, p.held = n, size, []
    way = factors(n) if n <= LONGEST else None
    if cut:
        n1 = divisor_near_root(n) if way is not None else 0
        if n1:
            p.cut(n1)
        else:
            p = None
    elif n > WHOLE:
        p = None
    elif way is not None:
        p.in_one_piece(way)
        p.with_own_lanes()
    elif n <= CONVOLVED:
        p.as_convolution()
    else:
        p = None
    if len(plans) >= PLANS:
        plans.clear()          # who works with a plan holds it
    plans[key] = p
    return p


# --- one group of signals -------------------------------------------------------------------------------------------------------------
cdef char* transformed(const Functions* f, const Steps* p, char* x, char* y, bint inverse) noexcept nogil:
    """The elements of x, transformed; in x or y, whichever is returned."""
    cdef int64_t[8] words
    cdef int i
    cdef char* other
    cdef int64_t re = f.plane if inverse else 0
    words[5], words[6] = re, f.plane - re
    if p.inner != NULL:
        words[0], words[1], words[2], words[3], words[4] = <int64_t>x, <int64_t>p.chirp, p.n, re, f.plane - re
        f.times(words)
        memset(x + p.n * f.block, 0, (p.workspace - p.n) * f.block)
        other = transformed(f, p.inner, x, y, inverse)
        words[0], words[1], words[2] = <int64_t>other, <int64_t>p.spectrum, p.workspace
        f.times(words)
        other = transformed(f, p.inner, other, y if other == x else x, not inverse)
        words[0], words[1], words[2] = <int64_t>other, <int64_t>p.last, p.n
        f.times(words)
        return other
    for i in range(p.passes):
        words[0], words[1], words[2], words[3], words[4] = <int64_t>x, <int64_t>y, <int64_t>p.factors[i], p.m[i], p.s[i]
        p.functions[i](words)
        other = x
        x = y
        y = other
    return x


cdef inline void turn_in(const Functions* f, int size, const char* source, int64_t* table, char* to, int64_t count,
                         int64_t step, char* spare) noexcept nogil:
    """Rows, `table` bytes from the source, become lanes: `count` numbers, whose vectors are `step` bytes apart."""
    cdef int64_t[MOST_LANES] places
    cdef int64_t[5] words
    cdef int64_t lane
    words[0], words[1], words[2], words[3], words[4] = <int64_t>source, <int64_t>table, <int64_t>to, count, step
    if count < f.lanes:                  # less than a square: by way of one
        for lane in range(f.lanes):
            places[lane] = lane * f.plane
            memcpy(spare + lane * f.plane, source + table[lane], count * size)
        words[0], words[1], words[3] = <int64_t>spare, <int64_t><char*>places, f.lanes
    f.rows_in(words)


cdef inline void turn_out(const Functions* f, int size, const char* source, int64_t* table, char* to, int64_t count,
                          int64_t step, char* spare) noexcept nogil:
    """The reverse."""
    cdef int64_t[MOST_LANES] places
    cdef int64_t[5] words
    cdef int64_t lane
    words[0], words[1], words[2], words[3], words[4] = <int64_t>source, <int64_t>table, <int64_t>to, count, step
    if count >= f.lanes:
        f.rows_out(words)
        return
    for lane in range(f.lanes):
        places[lane] = lane * f.plane
    words[1], words[2], words[3] = <int64_t><char*>places, <int64_t>spare, f.lanes
    f.rows_out(words)
    for lane in range(f.lanes):
        memcpy(to + table[lane], spare + lane * f.plane, count * size)


cdef inline void number_in(const Real* source, Real* to, int64_t count, int64_t step, int64_t block, int lanes) noexcept nogil:
    """One lane alone."""
    cdef int64_t k
    for k in range(count):
        to[0], to[lanes] = source[0], source[1]
        source, to = <const Real*>(<const char*>source + step), <Real*>(<char*>to + block)


cdef inline void number_out(const Real* source, Real* to, int64_t count, int64_t step, int64_t block, int lanes) noexcept nogil:
    cdef int64_t k
    for k in range(count):
        to[0], to[1] = source[0], source[lanes]
        source, to = <const Real*>(<const char*>source + block), <Real*>(<char*>to + step)


cdef inline void side_by_side_in(const Functions* f, int size, const char* source, char* to, int64_t count, int64_t step,
                                 int64_t lanes, char* spare) noexcept nogil:
    """Complex numbers side by side become lanes, those that there are."""
    cdef int64_t[4] words
    cdef int64_t k, lane
    words[0], words[1], words[2], words[3] = <int64_t>source, <int64_t>to, count, step
    if lanes <= FEW_LANES and lanes < f.lanes:
        for lane in range(lanes):
            if size == 4:
                number_in(<const float*>source + 2 * lane, <float*>to + lane, count, step, f.block, f.lanes)
            else:
                number_in(<const double*>source + 2 * lane, <double*>to + lane, count, step, f.block, f.lanes)
        return
    if lanes < f.lanes:
        for k in range(count):
            memcpy(spare + k * f.block, source + k * step, lanes * 2 * size)
            memset(spare + k * f.block + lanes * 2 * size, 0, f.block - lanes * 2 * size)
        words[0], words[3] = <int64_t>spare, f.block
    f.lanes_in(words)


cdef inline void side_by_side_out(const Functions* f, int size, const char* source, char* to, int64_t count, int64_t step,
                                  int64_t lanes, char* spare) noexcept nogil:
    """The reverse."""
    cdef int64_t[4] words
    cdef int64_t k, lane
    words[0], words[1], words[2], words[3] = <int64_t>source, <int64_t>to, count, step
    if lanes == f.lanes:
        f.lanes_out(words)
        return
    if lanes <= FEW_LANES:
        for lane in range(lanes):
            if size == 4:
                number_out(<const float*>source + lane, <float*>to + 2 * lane, count, step, f.block, f.lanes)
            else:
                number_out(<const double*>source + lane, <double*>to + 2 * lane, count, step, f.block, f.lanes)
        return
    words[1], words[3] = <int64_t>spare, f.block
    f.lanes_out(words)
    for k in range(count):
        memcpy(to + k * step, spare + k * f.block, lanes * 2 * size)


cdef inline void scale_by(const Functions* f, char* x, int64_t count, double scale) noexcept nogil:
    cdef int64_t[3] words
    if scale != 1.0:
        words[0], words[1] = <int64_t>x, count
        (<double*>words)[2] = scale
        f.scaled(words)


# --- signals whose own elements are lanes --------------------------------------------------------------------------------------------
cdef char* own_transformed(const Functions* f, const Own* own, const char* source, const int64_t* table, int64_t signals, char* x, char* y,
                           bint inverse) noexcept nogil:
    """The blocks of so many signals, side by side; in x or y, whichever is returned."""
    cdef int64_t[8] words
    cdef int i
    cdef char* other
    words[0], words[1], words[2], words[3] = <int64_t>source, <int64_t>table, <int64_t>x, <int64_t>own.factors
    words[4], words[5], words[6] = signals // own.signals, own.m, signals * f.block
    own.first[inverse](words)
    words[5], words[6] = 0, f.plane
    for i in range(own.rest.passes):
        words[0], words[1], words[2] = <int64_t>x, <int64_t>y, <int64_t>own.rest.factors[i]
        words[3], words[4] = own.rest.m[i], own.rest.s[i] * signals
        own.rest.functions[i](words)
        other = x
        x = y
        y = other
    return x


cdef inline void own_out(const Functions* f, const char* source, char* to, int64_t blocks, int64_t signals, double scale,
                         bint inverse) noexcept nogil:
    cdef int64_t[5] words
    words[0], words[1], words[2], words[3] = <int64_t>source, <int64_t>to, blocks, signals * f.block
    (<double*>words)[4] = scale
    f.own_out[inverse](words)


# --- many signals -----------------------------------------------------------------------------------------------------------------------
cdef enum:
    COMPLEX_ROWS, REAL_ROWS, ROWS_TO_REAL, ALONG, CUT_FIRST, CUT_SECOND, OWN_ROWS, OWN_REAL_ROWS, OWN_ROWS_TO_REAL

cdef struct Job:
    const Functions* f
    const Steps* steps
    const Own* own
    int kind, size
    bint inverse, odd
    const char* source
    char* to
    const char* halves
    int64_t n                  # of the signal, real or complex
    int64_t taken, given       # bytes from one signal (or number of a signal) to the next
    int64_t rows               # signals
    int64_t inner, groups      # signals side by side, and their groups of lanes
    int64_t whole, few         # groups before those of the few signals that each `inner` leaves over
    int64_t values             # of a real signal's transform that are written
    int64_t workspace          # bytes of a buffer
    double scale
    const char* between
    const double* fine
    const double* coarse
    int failed


cdef void complex_rows(Job* j, int64_t group, char* x, char* y) noexcept nogil:
    cdef int64_t[MOST_LANES] taken
    cdef int64_t[MOST_LANES] given
    cdef int64_t lane, row
    cdef const Functions* f = j.f
    cdef char* result
    for lane in range(f.lanes):          # lanes beyond the last row do what it does
        row = min(group * f.lanes + lane, j.rows - 1)
        taken[lane], given[lane] = row * j.taken, row * j.given
    turn_in(f, j.size, j.source, taken, x, 2 * j.n, f.plane, y)
    result = transformed(f, j.steps, x, y, j.inverse)
    scale_by(f, result, j.n, j.scale)
    turn_out(f, j.size, result, given, j.to, 2 * j.n, f.plane, y if result == x else x)


cdef inline int64_t places_of_rows(const Job* j, int64_t first, int64_t distance, int64_t* table) noexcept nogil:
    """Where the rows of a group begin; those that fill the last vector do what the last row does.  Returns how many that are."""
    cdef int64_t count = min(<int64_t>j.own.together, j.rows - first), all = (count + j.own.signals - 1) // j.own.signals * j.own.signals, r
    for r in range(all):
        table[r] = (first + min(r, count - 1)) * distance
    return all


cdef void own_rows(Job* j, int64_t group, char* x, char* y) noexcept nogil:
    cdef int64_t[MOST_TOGETHER] table
    cdef int64_t first = group * j.own.together, signals = places_of_rows(j, first, j.taken, table), r
    cdef char* result = own_transformed(j.f, j.own, j.source, table, signals, x, y, j.inverse)
    for r in range(min(signals, j.rows - first)):
        own_out(j.f, result + r * j.f.block, j.to + (first + r) * j.given, j.n // j.f.lanes, signals, j.scale, j.inverse)


cdef inline void unpack_ends(const Real* z, Real* y, int64_t h, int64_t values, double scale) noexcept nogil:
    """What has no vector: the first and the middle one, and the conjugates of all where they are wanted."""
    cdef int64_t k
    y[0], y[1] = (z[0] + z[1]) * <Real>scale, 0
    y[2 * h], y[2 * h + 1] = (z[0] - z[1]) * <Real>scale, 0
    if values == 2 * h:
        for k in range(1, h):
            y[2 * (2 * h - k)], y[2 * (2 * h - k) + 1] = y[2 * k], -y[2 * k + 1]


cdef void own_real_rows(Job* j, int64_t group, char* x, char* y) noexcept nogil:
    cdef int64_t[MOST_TOGETHER] table
    cdef int64_t[5] words
    cdef int64_t first = group * j.own.together, signals = places_of_rows(j, first, j.taken, table), r, h = j.n // 2
    cdef char* result = own_transformed(j.f, j.own, j.source, table, signals, x, y, False)
    cdef char* z = y if result == x else x
    cdef char* to
    for r in range(min(signals, j.rows - first)):
        to = j.to + (first + r) * j.given
        own_out(j.f, result + r * j.f.block, z, h // j.f.lanes, signals, 1.0, False)
        words[0], words[1], words[2], words[3] = <int64_t>z, <int64_t>to, <int64_t>j.halves, h
        (<double*>words)[4] = j.scale
        j.f.row_unpacked(words)
        if j.size == 4:
            unpack_ends(<const float*>z, <float*>to, h, j.values, j.scale)
        else:
            unpack_ends(<const double*>z, <double*>to, h, j.values, j.scale)


cdef inline void pack_ends(const Real* y, Real* z, int64_t h) noexcept nogil:
    z[0], z[1] = y[0] + y[2 * h], y[0] - y[2 * h]


cdef void own_rows_to_real(Job* j, int64_t group, char* x, char* y) noexcept nogil:
    cdef int64_t[MOST_TOGETHER] table
    cdef int64_t[4] words
    cdef int64_t first = group * j.own.together, signals = places_of_rows(j, first, j.taken, table), r, h = j.n // 2
    cdef char* z
    cdef const char* source
    cdef char* result
    for r in range(signals):
        source, z = j.source + table[r], y + r * h * 2 * j.size
        words[0], words[1], words[2], words[3] = <int64_t>source, <int64_t>z, <int64_t>j.halves, h
        j.f.row_packed(words)
        if j.size == 4:
            pack_ends(<const float*>source, <float*>z, h)
        else:
            pack_ends(<const double*>source, <double*>z, h)
    for r in range(signals):
        table[r] = r * h * 2 * j.size
    result = own_transformed(j.f, j.own, y, table, signals, x, y, True)
    for r in range(min(signals, j.rows - first)):
        own_out(j.f, result + r * j.f.block, j.to + (first + r) * j.given, h // j.f.lanes, signals, j.scale, True)


cdef void real_rows(Job* j, int64_t group, char* x, char* y) noexcept nogil:
    """Of an even number as of half as many complex ones; of an odd one with imaginary parts of 0."""
    cdef int64_t[MOST_LANES] taken
    cdef int64_t[MOST_LANES] given
    cdef int64_t[4] words
    cdef int64_t lane, row
    cdef const Functions* f = j.f
    cdef char* result
    cdef char* other
    for lane in range(f.lanes):
        row = min(group * f.lanes + lane, j.rows - 1)
        taken[lane], given[lane] = row * j.taken, row * j.given
    if j.odd:
        memset(x, 0, j.n * f.block)
        turn_in(f, j.size, j.source, taken, x, j.n, f.block, y)
        other = transformed(f, j.steps, x, y, False)
        memset(other + f.plane, 0, f.plane)
    else:
        turn_in(f, j.size, j.source, taken, x, j.n, f.plane, y)
        result = transformed(f, j.steps, x, y, False)
        other = y if result == x else x
        words[0], words[1], words[2], words[3] = <int64_t>result, <int64_t>other, <int64_t>j.halves, j.n // 2
        f.unpacked(words)
    if j.values == j.n:
        words[0], words[1] = <int64_t>other, j.n
        f.mirrored(words)
    scale_by(f, other, j.values, j.scale)
    turn_out(f, j.size, other, given, j.to, 2 * j.values, f.plane, y if other == x else x)


cdef void rows_to_real(Job* j, int64_t group, char* x, char* y) noexcept nogil:
    cdef int64_t[MOST_LANES] taken
    cdef int64_t[MOST_LANES] given
    cdef int64_t[4] words
    cdef int64_t lane, row
    cdef const Functions* f = j.f
    cdef char* result
    for lane in range(f.lanes):
        row = min(group * f.lanes + lane, j.rows - 1)
        taken[lane], given[lane] = row * j.taken, row * j.given
    turn_in(f, j.size, j.source, taken, x, 2 * j.values, f.plane, y)
    if j.odd:
        memset(x + f.plane, 0, f.plane)
        words[0], words[1] = <int64_t>x, j.n
        f.mirrored(words)
        result = transformed(f, j.steps, x, y, True)
        scale_by(f, result, j.n, j.scale)
        turn_out(f, j.size, result, given, j.to, j.n, f.block, y if result == x else x)
        return
    words[0], words[1], words[2], words[3] = <int64_t>x, <int64_t>y, <int64_t>j.halves, j.n // 2
    f.packed(words)
    result = transformed(f, j.steps, y, x, True)
    scale_by(f, result, j.n // 2, j.scale)
    turn_out(f, j.size, result, given, j.to, j.n, f.plane, y if result == x else x)


cdef void few_along(Job* j, int64_t first, char* x, char* y) noexcept nogil:
    """The last signals of several `inner`, from number `first` of all of these on."""
    cdef int64_t lane, k, offset, lanes = min(<int64_t>j.f.lanes, j.rows - first)
    cdef const Functions* f = j.f
    cdef char* result
    for lane in range(lanes):
        k = first + lane
        offset = (k // j.few * j.n * j.inner + j.inner - j.few + k % j.few) * 2 * j.size
        if j.size == 4:
            number_in(<const float*>(j.source + offset), <float*>x + lane, j.n, j.taken, f.block, f.lanes)
        else:
            number_in(<const double*>(j.source + offset), <double*>x + lane, j.n, j.taken, f.block, f.lanes)
    result = transformed(f, j.steps, x, y, j.inverse)
    scale_by(f, result, j.n, j.scale)
    for lane in range(lanes):
        k = first + lane
        offset = (k // j.few * j.n * j.inner + j.inner - j.few + k % j.few) * 2 * j.size
        if j.size == 4:
            number_out(<const float*>result + lane, <float*>(j.to + offset), j.n, j.given, f.block, f.lanes)
        else:
            number_out(<const double*>result + lane, <double*>(j.to + offset), j.n, j.given, f.block, f.lanes)


cdef void along(Job* j, int64_t group, char* x, char* y) noexcept nogil:
    """Along a dimension that is not the last: signals side by side."""
    cdef int64_t outer, first, offset, lanes
    cdef char* result
    if group >= j.whole:
        few_along(j, (group - j.whole) * j.f.lanes, x, y)
        return
    outer, first = group // j.groups, group % j.groups * j.f.lanes
    offset, lanes = (outer * j.n * j.inner + first) * 2 * j.size, min(<int64_t>j.f.lanes, j.inner - first)
    side_by_side_in(j.f, j.size, j.source + offset, x, j.n, j.taken, lanes, y)
    result = transformed(j.f, j.steps, x, y, j.inverse)
    scale_by(j.f, result, j.n, j.scale)
    side_by_side_out(j.f, j.size, result, j.to + offset, j.n, j.given, lanes, y if result == x else x)


cdef void cut_first(Job* j, int64_t group, char* x, char* y) noexcept nogil:
    """n2 signals of n1 numbers side by side, times what stands between."""
    cdef int64_t first = group * j.f.lanes, lanes = min(<int64_t>j.f.lanes, j.inner - first), k, power
    cdef int64_t[6] words
    cdef const double* a
    cdef const double* b
    cdef char* table = x + 2 * j.workspace
    cdef char* result
    side_by_side_in(j.f, j.size, j.source + first * 2 * j.size, x, j.n, j.taken, lanes, y)
    result = transformed(j.f, j.steps, x, y, j.inverse)
    for k in range(j.n):
        power = k * first
        a, b = j.coarse + 2 * (power // STEP), j.fine + 2 * (power % STEP)
        put(table, j.size, k, a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0])
    words[0], words[1], words[2], words[3] = <int64_t>result, <int64_t>table, <int64_t>j.between, j.n
    words[4] = j.f.plane if j.inverse else 0
    words[5] = j.f.plane - words[4]
    j.f.twisted(words)
    side_by_side_out(j.f, j.size, result, j.to + first * 2 * j.size, j.n, j.given, lanes,
                     y if result == x else x)


cdef void cut_second(Job* j, int64_t group, char* x, char* y) noexcept nogil:
    """n1 signals of n2 numbers, each a row; their results side by side."""
    cdef int64_t[MOST_LANES] taken
    cdef int64_t lane, first = group * j.f.lanes
    cdef char* result
    for lane in range(j.f.lanes):
        taken[lane] = min(first + lane, j.rows - 1) * j.taken
    turn_in(j.f, j.size, j.source, taken, x, 2 * j.n, j.f.plane, y)
    result = transformed(j.f, j.steps, x, y, j.inverse)
    scale_by(j.f, result, j.n, j.scale)
    side_by_side_out(j.f, j.size, result, j.to + first * 2 * j.size, j.n, j.given, min(<int64_t>j.f.lanes, j.rows - first),
                     y if result == x else x)


cdef void groups(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job* j = <Job*>context
    cdef int64_t group
    cdef void* workspace = NULL
    cdef char* x
    cdef char* y
    if posix_memalign(&workspace, 64, 2 * j.workspace + j.n * 2 * j.size):
        j.failed = 1
        return
    x = <char*>workspace
    y = x + j.workspace
    if j.inner % j.f.lanes:
        memset(x, 0, 2 * j.workspace)    # lanes that nobody uses are computed with
    for group in range(begin, end):
        if j.kind == COMPLEX_ROWS:
            complex_rows(j, group, x, y)
        elif j.kind == REAL_ROWS:
            real_rows(j, group, x, y)
        elif j.kind == ROWS_TO_REAL:
            rows_to_real(j, group, x, y)
        elif j.kind == ALONG:
            along(j, group, x, y)
        elif j.kind == OWN_ROWS:
            own_rows(j, group, x, y)
        elif j.kind == OWN_REAL_ROWS:
            own_real_rows(j, group, x, y)
        elif j.kind == OWN_ROWS_TO_REAL:
            own_rows_to_real(j, group, x, y)
        elif j.kind == CUT_FIRST:
            cut_first(j, group, x, y)
        else:
            cut_second(j, group, x, y)
    free(workspace)


cdef int run(Job* j, int64_t count) except -1:
    """All groups, on the pool."""
    cdef double nanoseconds = 1.5 * <double>j.n * j.f.lanes + 200.0
    j.failed = 0
    if j.workspace > 1 << 22:
        check_memory(2 * j.workspace)
    with nogil:
        parallel_interruptible(groups, j, count, 1 + <int64_t>(20000 / nanoseconds), nanoseconds)
    if j.failed:
        raise OutOfMemoryError(out_of_memory_message(2 * j.workspace))
    return 0


cdef int set_up(Job* j, int kind, Plan plan, int64_t n, const char* source, char* to, bint inverse, double scale) except -1:
    j.f, j.steps, j.kind, j.size, j.inverse = functions_of(plan.size), &plan.steps, kind, plan.size, inverse
    j.n, j.source, j.to, j.scale, j.odd, j.inner = n, source, to, scale, n % 2, 0
    j.workspace = (max(plan.steps.workspace, n, j.f.lanes) + 1) * j.f.block
    if kind in (OWN_ROWS, OWN_REAL_ROWS, OWN_ROWS_TO_REAL):
        j.own = &plan.own
        j.workspace = plan.n * plan.own.together * 2 * plan.size + 64
    return 0


cdef int run_rows(Job* j, Plan plan) except -1:
    """All rows, in groups."""
    return run(j, lanes_of(j.rows, plan.own.together if j.kind >= OWN_ROWS else j.f.lanes))


cdef int64_t lanes_of(int64_t count, int lanes) noexcept:
    return (count + lanes - 1) // lanes


# --- real signals that are cut ------------------------------------------------------------------------------------------------------------
cdef struct Halves:
    int64_t rows, h, values    # of a signal of 2h numbers
    char* pairs                # h complex numbers each
    char* result               # `values` complex numbers each
    const char* factors        # e^(-πi k/h)
    double scale
    bint wide


cdef void unpack_row(const Halves* j, const Real* z, Real* y, const Real* w) noexcept nogil:
    """What the generated `unpacked` does, number by number."""
    cdef int64_t k, h = j.h
    cdef Real scale = <Real>j.scale, a, b, c, d, p, q, s, t, half = <Real>(0.5 * j.scale)
    y[0], y[1] = (z[0] + z[1]) * scale, 0
    y[2 * h], y[2 * h + 1] = (z[0] - z[1]) * scale, 0
    for k in range(1, h // 2 + 1):
        a, b, c, d = z[2 * k], z[2 * k + 1], z[2 * (h - k)], -z[2 * (h - k) + 1]
        s, t = (b - d) * half, (c - a) * half
        p, q = s * w[2 * k] - t * w[2 * k + 1], s * w[2 * k + 1] + t * w[2 * k]
        a, b = (a + c) * half, (b + d) * half
        y[2 * k], y[2 * k + 1] = a + p, b + q
        y[2 * (h - k)], y[2 * (h - k) + 1] = a - p, q - b
    if j.values == 2 * h:
        for k in range(1, h):
            y[2 * (2 * h - k)], y[2 * (2 * h - k) + 1] = y[2 * k], -y[2 * k + 1]


cdef void pack_row(const Halves* j, const Real* y, Real* z, const Real* w) noexcept nogil:
    cdef int64_t k, h = j.h
    cdef Real a, b, c, d, p, q, s, t
    z[0], z[1] = y[0] + y[2 * h], y[0] - y[2 * h]
    for k in range(1, h // 2 + 1):
        a, b, c, d = y[2 * k], y[2 * k + 1], y[2 * (h - k)], -y[2 * (h - k) + 1]
        s, t = a - c, b - d
        p, q = s * w[2 * k] + t * w[2 * k + 1], t * w[2 * k] - s * w[2 * k + 1]
        a, b = a + c, b + d
        z[2 * k], z[2 * k + 1] = a - q, b + p
        z[2 * (h - k)], z[2 * (h - k) + 1] = a + q, p - b


cdef void unpack_rows(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef const Halves* j = <const Halves*>context
    cdef int64_t row
    for row in range(begin, end):
        if j.wide:
            unpack_row(j, <const double*>j.pairs + row * 2 * j.h, <double*>j.result + row * 2 * j.values, <const double*>j.factors)
        else:
            unpack_row(j, <const float*>j.pairs + row * 2 * j.h, <float*>j.result + row * 2 * j.values, <const float*>j.factors)


cdef void pack_rows(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef const Halves* j = <const Halves*>context
    cdef int64_t row
    for row in range(begin, end):
        if j.wide:
            pack_row(j, <const double*>j.result + row * 2 * j.values, <double*>j.pairs + row * 2 * j.h, <const double*>j.factors)
        else:
            pack_row(j, <const float*>j.result + row * 2 * j.values, <float*>j.pairs + row * 2 * j.h, <const float*>j.factors)


cdef int halved(task_t task, Plan plan, int64_t rows, int64_t values, char* pairs, char* result, double scale) except -1:
    cdef Halves j
    plan.with_halves()
    j.rows, j.h, j.values, j.pairs, j.result, j.factors = rows, plan.n, values, pairs, result, plan.halves
    j.scale, j.wide = scale, plan.size == 8
    with nogil:
        parallel_interruptible(task, &j, rows, 1 + (1 << 14) // plan.n, 2.0 * plan.n)
    return 0


# --- what is called -----------------------------------------------------------------------------------------------------------------------
cdef int number_size(TensorBase x) noexcept:
    return 4 if x.code in (F32, C64) else 8


cdef bint is_cut(int64_t n, int64_t rows, int lanes) noexcept:
    return n > WHOLE or (n >= CUT_FROM and 2 * rows <= lanes)


cdef Plan plan_for(int64_t n, int64_t rows, int size):
    """The plan of complex rows, cut or whole; None where there is none."""
    cdef Plan whole = plan_of(n, size), plan = None
    if whole is not None and whole.own.signals:
        return whole
    if is_cut(n, rows, functions_of(size).lanes):
        plan = plan_of(n, size, True)
    return plan if plan is not None else whole


def possible(int64_t n, bint real, int64_t rows, bint wide_numbers) -> bool:
    """Whether rows of n numbers are transformed here."""
    cdef int64_t length = n // 2 if real and n % 2 == 0 else n
    cdef int size = 8 if wide_numbers else 4
    if length < 1:
        return False
    return (plan_of(n, size) if real and n % 2 else plan_for(length, rows, size)) is not None


def possible_along(int64_t n, bint wide_numbers) -> bool:
    """Whether signals side by side, of n numbers each, are transformed here."""
    return plan_of(n, 8 if wide_numbers else 4) is not None


def complex_to_complex(TensorBase x not None, TensorBase out not None, double scale, bint inverse) -> None:
    """Contiguous complex rows (the last dimension) to another tensor, or in place."""
    cdef int64_t n = x.sizes[x.rank - 1]
    if x.count:
        complex_numbers(plan_for(n, x.count // n, number_size(x)), pointer(x), pointer(out), x.count // n, x.code, scale, inverse)


cdef int complex_numbers(Plan plan, const char* x, char* out, int64_t rows, int code, double scale, bint inverse) except -1:
    cdef Job j, k
    cdef int size = plan.size
    cdef int64_t n = plan.n, row, n1, n2
    cdef TensorBase middle
    if plan.first is None:
        set_up(&j, OWN_ROWS if plan.own.signals else COMPLEX_ROWS, plan, n, x, out, inverse, scale)
        j.rows, j.taken, j.given = rows, n * 2 * size, n * 2 * size
        return run_rows(&j, plan)
    n1, n2 = plan.first.n, plan.second.n
    middle = new_tensor(1, &n, code)
    set_up(&j, CUT_FIRST, plan.first, n1, NULL, middle.storage.data, inverse, 1.0)
    j.inner, j.taken, j.given = n2, n2 * 2 * size, n2 * 2 * size
    j.between, j.fine, j.coarse = plan.between, <double*>plan.fine, <double*>plan.coarse
    set_up(&k, CUT_SECOND, plan.second, n2, middle.storage.data, NULL, inverse, scale)
    k.rows, k.taken, k.given = n1, n2 * 2 * size, n1 * 2 * size
    for row in range(rows):
        j.source, k.to = x + row * n * 2 * size, out + row * n * 2 * size
        run(&j, lanes_of(n2, j.f.lanes))
        run(&k, lanes_of(n1, k.f.lanes))
    return 0


def complex_along(TensorBase x not None, TensorBase out not None, int dim, double scale, bint inverse) -> None:
    """Contiguous complex numbers along a dimension that is not the last, to another tensor, or in place."""
    cdef Job j
    cdef int size = number_size(x), d
    cdef int64_t n = x.sizes[dim], inner = 1, outer
    cdef Plan plan
    if x.count == 0:
        return
    for d in range(dim + 1, x.rank):
        inner *= x.sizes[d]
    plan = plan_of(n, size)
    set_up(&j, ALONG, plan, n, pointer(x), pointer(out), inverse, scale)
    j.inner, j.taken, j.given = inner, inner * 2 * size, inner * 2 * size
    outer, j.few = x.count // (n * inner), inner % j.f.lanes
    if j.few > FEW_LANES or outer == 1:
        j.few = 0
    j.groups = lanes_of(inner - j.few, j.f.lanes)
    j.whole, j.rows = outer * j.groups, outer * j.few
    run(&j, j.whole + lanes_of(j.rows, j.f.lanes))


def real_to_complex(TensorBase x not None, TensorBase out not None, double scale) -> None:
    """Contiguous real rows to complex ones, of n/2 + 1 values, or all n, of which the others are conjugates."""
    cdef Job j
    cdef int size = number_size(x)
    cdef int64_t n = x.sizes[x.rank - 1], rows, half = n // 2
    cdef Plan plan
    cdef TensorBase pairs
    if x.count == 0:
        return
    rows = x.count // n
    plan = plan_of(n, size) if n % 2 else plan_for(half, rows, size)
    if plan.first is not None:
        half *= rows
        pairs = new_tensor(1, &half, out.code)
        complex_numbers(plan, pointer(x), pairs.storage.data, rows, out.code, 1.0, False)
        halved(unpack_rows, plan, rows, out.sizes[out.rank - 1], pairs.storage.data, pointer(out), scale)
        return
    if n % 2 == 0:
        plan.with_halves()
    set_up(&j, OWN_REAL_ROWS if plan.own.signals and n % 2 == 0 else REAL_ROWS, plan, n, pointer(x), pointer(out), False, scale)
    j.values, j.halves = out.sizes[out.rank - 1], plan.halves
    j.rows, j.taken, j.given = rows, n * size, j.values * 2 * size
    run_rows(&j, plan)


def complex_to_real(TensorBase x not None, TensorBase out not None, double scale) -> None:
    """Contiguous complex rows of n/2 + 1 values to the n real numbers of the inverse transform."""
    cdef Job j
    cdef int size = number_size(out)
    cdef int64_t n = out.sizes[out.rank - 1], rows
    cdef Plan plan
    if out.count == 0:
        return
    rows = out.count // n
    plan = plan_of(n, size) if n % 2 else plan_for(n // 2, rows, size)
    if plan.first is not None:
        halved(pack_rows, plan, rows, n // 2 + 1, pointer(out), pointer(x), 1.0)
        complex_numbers(plan, pointer(out), pointer(out), rows, x.code, scale, True)
        return
    if n % 2 == 0:
        plan.with_halves()
    set_up(&j, OWN_ROWS_TO_REAL if plan.own.signals and n % 2 == 0 else ROWS_TO_REAL, plan, n, pointer(x), pointer(out), True, scale)
    j.values, j.halves = n // 2 + 1, plan.halves
    j.rows, j.taken, j.given = rows, j.values * 2 * size, n * size
    run_rows(&j, plan)


def takes(input) -> int:
    """1 for a tensor of real numbers that rows can be transformed of, 2 for one of complex numbers, 0 for anything else."""
    cdef TensorBase x
    if not isinstance(input, TensorBase):
        return 0
    x = <TensorBase>input
    if x.rank == 0 or x.count == 0:
        return 0
    return 1 if x.code in (F32, F64) else 2 if x.code in (C64, C128) else 0


def transformed_rows(TensorBase x not None, tuple dims not None, double scale, bint inverse, int64_t values, bint real) -> TensorBase | None:
    """The transform along the last dimension of a contiguous tensor on the host, which gets so many `values`, real or complex ones; None
    for other dimensions, other tensors, and lengths that are not possible.
    """
    cdef TensorBase out
    cdef int64_t[MAX_DIMS] sizes
    cdef int64_t n
    cdef bint of_real = x.code in (F32, F64), wide = x.code in (F64, C128)
    if not x.contiguous or x.count == 0 or x.storage.on is not None or len(dims) != 1 or dims[0] != x.rank - 1:
        return None
    n = x.sizes[x.rank - 1]
    if not possible(values if real else n, of_real or real, x.count // n, wide):
        return None
    memcpy(sizes, x.sizes, x.rank * sizeof(int64_t))
    sizes[x.rank - 1] = values
    out = new_tensor(x.rank, sizes, (F64 if wide else F32) if real else C128 if wide else C64)
    if of_real:
        real_to_complex(x, out, scale)
    elif real:
        complex_to_real(x, out, scale)
    else:
        complex_to_complex(x, out, scale, inverse)
    return out
