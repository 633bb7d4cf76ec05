# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Recurrent layers as tiles (see `codegen/tiles/recurrent.py`): the loop over steps, and which tile is computed by which thread.

A task is a tile of a step: some sequences by a block of hidden units.  What is computed for it depends on shapes alone, so results
have the same bits for any number of threads.
"""
from libc.stdlib cimport calloc, free
from libc.string cimport memset
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from ..products.halves cimport blocks, give_back, has_unit, set_up
from ...base.tensor cimport TensorBase, pointer
from ...base.parallel cimport parallel_for

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef extern from *:
    void __builtin_prefetch(const void* address) noexcept nogil

cdef enum:
    HERE = 0                      # rows of the step itself
    BEFORE = 1                    # of the step before it in time; those of another matrix at the first one
    AFTER = 2                     # of the step after it; none at the last one
    STAYS = 3                     # the same for every step, a row for each sequence
    BIAS = 4                      # one row for all

    MAX_KINDS = 3
    MAX_OPERANDS = 9
    MAX_ROWS = 8
    SIDE = 16                     # rows of the matrix unit's registers, and pairs of their right operands
    VECTOR = 64                   # bytes
    MAX_WORKSPACE = SIDE * 4 * VECTOR  # bytes: rows, vectors, a vector's
    FAR = 1 << 20                 # bytes
    STEPS_A_TASK = 1 << 19        # multiplications below which a task is not worth a thread

cdef double NANOSECONDS_A_STEP = 0.02
cdef double PATIENCE = 5e7        # nanoseconds between looks at signals

ctypedef void (*kernel_t)(char** data, const int64_t* geometry, const uint64_t* scalars) noexcept nogil

cdef struct Operand:
    int when
    int64_t width                 # bytes of an element
    int64_t row                   # bytes
    bint far                      # too large to be in a near cache when it is read
    char* data
    char* first                   # read before the first step

cdef struct Kind:                 # blocks of so many vectors of units
    kernel_t products[MAX_ROWS + 1]
    int64_t rows                  # at most, of a tile
    int64_t units, first, blocks
    int64_t panel                 # bytes a block
    char* panels

cdef struct Pass:
    int kinds, operands
    bint unit                     # whether the matrix unit multiplies, which takes the same panels
    Kind kind[MAX_KINDS]
    kernel_t whole, rest          # cells: for blocks that are there in full, and for the last one
    Operand state                 # what is multiplied
    Operand operand[MAX_OPERANDS]
    int64_t hidden, lanes, sums
    int64_t width                 # bytes of a sum, and of what is multiplied: an element, or a pair of halves
    int64_t depth                 # of those
    int64_t blocks                # of all kinds
    int64_t steps
    int64_t way                   # 1, or -1 where a sequence's first step stands last
    int64_t* begins               # the row of each step's first sequence, and where the last step ends
    # the step under way
    int64_t step, reached         # sequences whose state is multiplied: the first of them
    int64_t tiles, more           # of those, and of the rest
    int64_t rows                  # a tile at most, of any kind


cdef inline char* place(const Pass* p, const Operand* o, int64_t row) noexcept nogil:
    if o.when == HERE:
        row += p.begins[p.step]
    elif o.when == BEFORE:
        if p.step == (0 if p.way > 0 else p.steps - 1):
            return o.first + row * o.row
        row += p.begins[p.step - p.way]
    elif o.when == AFTER:
        row += p.begins[p.step + p.way]
    return o.data + row * o.row


cdef inline void ask(const Pass* p, const Operand* o, const char* data, int64_t rows) noexcept nogil:
    """Ask for a tile of an operand while its products are under way: in lines so far apart that no processor guesses the next."""
    cdef int64_t i, at
    for i in range(rows):
        at = 0
        while at < o.row:
            __builtin_prefetch(data + at)
            at += p.hidden * o.width
        data += o.row


cdef int64_t nowhere[1]           # the offset of a product's one tap
nowhere[0] = 0


cdef void multiply(const Pass* p, const char* state, const char* panel, char* workspace, int64_t vectors) noexcept nogil:
    """workspace = state · panel by the matrix unit, for as many rows as its registers have."""
    cdef int64_t v = 0, line = vectors * VECTOR
    while v < vectors:
        blocks[0][1 if vectors - v > 1 else 0](state, p.state.row, VECTOR, panel + v * VECTOR, line, SIDE * line, VECTOR, nowhere, 1,
                                               p.depth // SIDE, <float*>(workspace + v * VECTOR), line, 0)
        v += 2


cdef void tiles_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Tasks are (block of units, tile of rows), the last fastest: a block of the weight stays in the cache."""
    cdef Pass* p = <Pass*>context
    cdef char workspace[MAX_WORKSPACE]
    cdef char* data[MAX_OPERANDS + 1]
    cdef char* tile_data[3]
    cdef int64_t tile_geometry[2]
    cdef int64_t geometry[4 + MAX_OPERANDS]
    cdef int64_t task, tile, block, unit, row, rows, among, tiles, set_rows = 0, there = p.begins[p.step + 1] - p.begins[p.step]
    cdef Kind* kind
    cdef bint multiplied
    cdef int k
    data[0] = tile_data[0] = workspace
    tile_geometry[0], tile_geometry[1] = p.depth, p.state.row // p.width
    geometry[3] = p.hidden
    for k in range(p.operands):
        geometry[4 + k] = p.operand[k].row // p.operand[k].width
    for task in range(begin, end):
        tile, block = task % (p.tiles + p.more), task // (p.tiles + p.more)
        kind = &p.kind[0]
        while block >= kind.blocks:
            block -= kind.blocks
            kind += 1
        unit = kind.first + block * kind.units
        multiplied = tile < p.tiles
        if multiplied:                        # as even as can be: full tiles and a small one take longer
            row, among, tiles = 0, p.reached, p.tiles
        else:
            row, among, tiles, tile = p.reached, there - p.reached, p.more, tile - p.tiles
        rows = among // tiles + (tile < among % tiles)
        row += tile * (among // tiles) + min(tile, among % tiles)
        for k in range(p.operands):
            data[1 + k] = place(p, &p.operand[k], row) + unit * p.operand[k].width
            if p.operand[k].far:
                ask(p, &p.operand[k], data[1 + k], rows)
        if multiplied:
            tile_data[1], tile_data[2] = place(p, &p.state, row), kind.panels + block * kind.panel
            if p.unit:
                if rows != set_rows:
                    set_up(<int>rows)
                    set_rows = rows
                multiply(p, tile_data[1], tile_data[2], workspace, kind.units // p.lanes * p.sums)
            else:
                kind.products[rows](tile_data, tile_geometry, NULL)
        else:
            memset(workspace, 0, rows * kind.units * p.sums * p.width)
        geometry[0], geometry[1], geometry[2] = rows, min(kind.units, p.hidden - unit), kind.units // p.lanes
        (p.whole if unit + kind.units <= p.hidden else p.rest)(data, geometry, NULL)
    if set_rows:
        give_back()


cdef int run(Pass* p, bint backwards) except -1 nogil:
    cdef int64_t turn, there, multiplications, grain
    cdef double passed = 0
    for turn in range(p.steps):
        p.step = turn if (p.way > 0) != backwards else p.steps - 1 - turn
        there = p.begins[p.step + 1] - p.begins[p.step]
        p.reached = there
        if p.state.when == AFTER:
            p.reached = p.begins[p.step + p.way + 1] - p.begins[p.step + p.way] if turn else 0
        p.tiles, p.more = (p.reached + p.rows - 1) // p.rows, (there - p.reached + p.rows - 1) // p.rows
        multiplications = p.depth * p.lanes * p.sums * p.rows
        grain = max(STEPS_A_TASK // multiplications, 1)
        parallel_for(tiles_range, p, p.blocks * (p.tiles + p.more), grain)
        passed += NANOSECONDS_A_STEP * there * p.depth * p.hidden * p.sums
        if passed > PATIENCE:
            passed = 0
            with gil:
                PyErr_CheckSignals()
    return 0


cdef int read_operand(Operand* o, tuple given) except -1:
    cdef TensorBase tensor = <TensorBase?>given[0]
    o.when = given[1]
    o.data = pointer(tensor)
    o.width = tensor.width
    o.row = 0 if o.when == BIAS else tensor.sizes[tensor.rank - 1] * o.width
    o.far = o.when == HERE and tensor.count * o.width > FAR
    o.first = pointer(<TensorBase?>given[2]) if o.when == BEFORE else NULL
    return 0


def unit() -> bool:
    """Whether the processor has a matrix unit that this process may use."""
    return has_unit()


def run_steps(list sizes not None, int64_t hidden, int64_t lanes, int64_t sums, tuple kinds not None, tuple cells not None,
              tuple state not None, list operands not None, bint turned, bint backwards, bint by_unit) -> None:
    """All steps, of which `sizes` says how many sequences each has.  `turned` sequences of one length have their first step last;
    `backwards` begins with the last step.

    `kinds`: (addresses of products for 1, 2, … rows, units of a block, first unit, panels (blocks, …)); `cells`: the addresses for
    blocks that are whole and for the last one.  The state and the operands are (tensor, when, what is read before the first
    step or None); all tensors are contiguous and have a row a sequence and step, or a sequence where they stay.  `by_unit`: of bfloat16
    whose depth is a multiple of 32, the matrix unit multiplies, and no addresses of products are read.
    """
    cdef Pass p
    cdef TensorBase panels
    cdef int64_t at = 0
    cdef int k
    if len(kinds) > MAX_KINDS or len(operands) > MAX_OPERANDS:
        raise ValueError("recurrent: too many kinds of blocks or operands")
    p.kinds, p.operands, p.blocks = len(kinds), len(operands), 0
    p.unit, p.rows = by_unit, SIDE if by_unit else MAX_ROWS
    for k in range(p.kinds):
        addresses, p.kind[k].units, p.kind[k].first, held = kinds[k]
        panels = <TensorBase?>held
        p.kind[k].rows = SIDE if by_unit else min(<int64_t>len(addresses), MAX_ROWS)
        for row in range(0 if by_unit else p.kind[k].rows):
            p.kind[k].products[row + 1] = <kernel_t><void*><uintptr_t>addresses[row]
        p.kind[k].blocks = panels.sizes[0]
        p.kind[k].panels = pointer(panels)
        p.kind[k].panel = panels.count // panels.sizes[0] * panels.width
        p.blocks += p.kind[k].blocks
        p.rows = min(p.rows, p.kind[k].rows)
        p.width = panels.width
    p.whole, p.rest = <kernel_t><void*><uintptr_t>cells[0], <kernel_t><void*><uintptr_t>cells[1]
    p.hidden, p.lanes, p.sums = hidden, lanes, sums
    read_operand(&p.state, state)
    p.depth = p.state.row // p.width
    if by_unit and (p.depth % SIDE or lanes != SIDE or not has_unit()):
        raise ValueError(f"recurrent: {p.depth} pairs and {lanes} lanes by the matrix unit")
    for k in range(p.operands):
        read_operand(&p.operand[k], operands[k])
    p.steps, p.way = len(sizes), -1 if turned else 1
    p.begins = <int64_t*>calloc(p.steps + 1, sizeof(int64_t))
    if p.begins == NULL:
        raise MemoryError
    try:
        for k in range(p.steps):
            p.begins[k] = at
            at += <int64_t>sizes[k]
        p.begins[p.steps] = at
        with nogil:
            run(&p, backwards)
    finally:
        free(p.begins)
