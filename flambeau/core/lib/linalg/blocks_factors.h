/* LU and Cholesky factors by recursion, exchanged rows, and transposes. */

/* A row of a few columns that are factored one after another: the numbers of one cache line, or two. */
typedef NUMBER NAME(line) __attribute__((vector_size(FLAMBEAU_LINE * WIDTH_OF_NUMBER), aligned(WIDTH_OF_NUMBER), may_alias));
#define LINE NAME(line)
#define PIECES (FLAMBEAU_LINE / LANES) /* vectors of a line */
#define NARROW (FLAMBEAU_LINE / PARTS) /* columns of a line */

static void NAME(exchange)(void *matrix, int64_t a_row, int64_t columns, const int *pivots, int64_t first, int64_t last) {
    NUMBER *a = matrix;
    for (int64_t i = first; i < last; i++) {
        if (pivots[i] - 1 == i) continue;
        NUMBER *restrict one = a + i * a_row * PARTS, *restrict other = a + (pivots[i] - 1) * a_row * PARTS;
        for (int64_t j = 0; j < columns * PARTS; j++) {
            NUMBER x = one[j];
            one[j] = other[j], other[j] = x;
        }
    }
}

static void NAME(adjoint)(void *result, int64_t to_row, const void *matrix, int64_t from_row, int64_t rows, int64_t columns) {
    NUMBER *to = result;
    const NUMBER *from = matrix;
#if PARTS == 2
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            const NUMBER *x = from + (i * from_row + j) * 2;
            NUMBER *y = to + (j * to_row + i) * 2;
            y[0] = x[0], y[1] = -x[1];
        }
#else
    /* squares of 16 bytes by 16 are turned in registers */
    typedef NUMBER few __attribute__((vector_size(16), aligned(WIDTH_OF_NUMBER), may_alias));
    typedef INTEGER order __attribute__((vector_size(16)));
    const int64_t square = 16 / WIDTH_OF_NUMBER;
    int64_t i = 0;
    for (; i + square <= rows; i += square) {
        int64_t j = 0;
        for (; j + square <= columns; j += square) {
            const NUMBER *x = from + i * from_row + j;
            NUMBER *y = to + j * to_row + i;
#if WIDTH_OF_NUMBER == 4
            few a = *(const few *)x, b = *(const few *)(x + from_row), c = *(const few *)(x + 2 * from_row), d = *(const few *)(x + 3 * from_row);
            few ab = __builtin_shuffle(a, b, (order){0, 4, 1, 5}), cd = __builtin_shuffle(c, d, (order){0, 4, 1, 5});
            few ba = __builtin_shuffle(a, b, (order){2, 6, 3, 7}), dc = __builtin_shuffle(c, d, (order){2, 6, 3, 7});
            *(few *)y = __builtin_shuffle(ab, cd, (order){0, 1, 4, 5});
            *(few *)(y + to_row) = __builtin_shuffle(ab, cd, (order){2, 3, 6, 7});
            *(few *)(y + 2 * to_row) = __builtin_shuffle(ba, dc, (order){0, 1, 4, 5});
            *(few *)(y + 3 * to_row) = __builtin_shuffle(ba, dc, (order){2, 3, 6, 7});
#else
            few a = *(const few *)x, b = *(const few *)(x + from_row);
            *(few *)y = __builtin_shuffle(a, b, (order){0, 2});
            *(few *)(y + to_row) = __builtin_shuffle(a, b, (order){1, 3});
#endif
        }
        for (; j < columns; j++)
            for (int64_t r = i; r < i + square; r++) to[j * to_row + r] = from[r * from_row + j];
    }
    for (; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) to[j * to_row + i] = from[i * from_row + j];
#endif
}

static void NAME(mirror)(void *matrix, int64_t a_row, int64_t n) {
    NUMBER *a = matrix;
    a_row *= PARTS;
    for (int64_t top = 0; top < n; top += NARROW)
        for (int64_t left = 0; left <= top; left += NARROW)
            for (int64_t i = top; i < n && i < top + NARROW; i++)
                for (int64_t j = left; j <= i && j < left + NARROW; j++) {
                    NUMBER *x = a + i * a_row + j * PARTS, *y = a + j * a_row + i * PARTS;
                    y[0] = x[0] = -x[0];
#if PARTS == 2
                    y[1] = x[1];
                    x[1] = i == j ? 0 : -x[1];
#endif
                }
}

/* --- LU ----------------------------------------------------------------------------------------------------------------------- */
static inline NUMBER NAME(size_of)(const NUMBER *x) {
#if PARTS == 2
    return SIZE(x[0]) + SIZE(x[1]);
#else
    return SIZE(x[0]);
#endif
}

/* The row below `k` with the largest element of column k, whose size is `most`. */
static inline int64_t NAME(search)(const NUMBER *lines, int64_t m, int64_t k, NUMBER *most) {
    int64_t best = k;
    *most = NAME(size_of)(lines + k * FLAMBEAU_LINE + k * PARTS);
    for (int64_t i = k + 1; i < m; i++) {
        NUMBER size = NAME(size_of)(lines + i * FLAMBEAU_LINE + k * PARTS);
        if (size > *most) *most = size, best = i;
    }
    return best;
}

/* What column k leaves of the rows below, and the search in the next column meanwhile. */
static inline int64_t NAME(eliminate)(NUMBER *lines, int64_t m, int64_t k, NUMBER *most) {
    const NUMBER *pivot = lines + k * FLAMBEAU_LINE + k * PARTS;
    VECTOR row[PIECES], after[PIECES], here[PIECES], before[PIECES]; /* masks */
    NUMBER over[PARTS];
    int64_t best = k + 1;
    NAME(reciprocal)(pivot, over);
    for (int64_t piece = 0; piece < PIECES; piece++) {
        NAME(order) is_after, is_here;
        for (int64_t lane = 0; lane < LANES; lane++) {
            int64_t column = (piece * LANES + lane) / PARTS;
            is_after[lane] = column > k ? -1 : 0;
            is_here[lane] = column == k ? -1 : 0;
        }
        row[piece] = CONST_VECTOR_AT(lines + k * FLAMBEAU_LINE + piece * LANES);
        after[piece] = (VECTOR)is_after, here[piece] = (VECTOR)is_here, before[piece] = (VECTOR) ~(is_after | is_here);
    }
#if PARTS == 2
    VECTOR turned[PIECES];
    for (int64_t piece = 0; piece < PIECES; piece++) turned[piece] = TURNED(row[piece]);
#else
    int divides = !(SIZE(over[0]) >= LEAST_NORMAL) || over[0] - over[0] != 0;
#endif
    NUMBER largest = -1;
    for (int64_t i = k + 1; i < m; i++) {
        NUMBER *line = lines + i * FLAMBEAU_LINE, *x = line + k * PARTS;
#if PARTS == 2
        NUMBER re = x[0] * over[0] - x[1] * over[1], im = x[0] * over[1] + x[1] * over[0];
#else
        NUMBER factor = divides ? x[0] / pivot[0] : x[0] * over[0];
#endif
#pragma GCC unroll 8
        for (int64_t piece = 0; piece < PIECES; piece++) {
            VECTOR old = CONST_VECTOR_AT(line + piece * LANES);
#if PARTS == 2
            VECTOR all = old, y = old - re * row[piece] - im * turned[piece];
#else
            VECTOR all = factor - (VECTOR){0}, y = old - factor * row[piece];
#endif
            VECTOR_AT(line + piece * LANES) = (VECTOR)(((NAME(order))y & (NAME(order))after[piece]) | ((NAME(order))old & (NAME(order))before[piece]) |
                                                       ((NAME(order))all & (NAME(order))here[piece]));
        }
#if PARTS == 2
        x[0] = re, x[1] = im;
#endif
        NUMBER size = NAME(size_of)(x + PARTS);
        if (size > largest) largest = size, best = i;
    }
    *most = largest;
    return best;
}

/* At most as many columns as a line has. */
static int64_t NAME(lu_narrow)(NUMBER *a, int64_t a_row, int64_t m, int64_t n, int *pivots, NUMBER *lines) {
    int64_t failed = 0, count = m < n ? m : n, best;
    NUMBER most;
    memset(lines + m * FLAMBEAU_LINE, 0, FLAMBEAU_LINE * sizeof(NUMBER));
    for (int64_t i = 0; i < m; i++) {
        NUMBER *line = lines + i * FLAMBEAU_LINE;
        if (n == NARROW) {
            *(LINE *)line = *(const LINE *)(a + i * a_row);
        } else {
            memcpy(line, a + i * a_row, (size_t)(n * PARTS) * sizeof(NUMBER));
            memset(line + n * PARTS, 0, (size_t)(FLAMBEAU_LINE - n * PARTS) * sizeof(NUMBER));
        }
    }
    best = NAME(search)(lines, m, 0, &most);
    for (int64_t k = 0; k < count; k++) {
        pivots[k] = (int)(best + 1);
        if (best != k) {
            LINE *one = (LINE *)lines + k, *other = (LINE *)lines + best, x = *one;
            *one = *other, *other = x;
        }
        if (most == 0) {
            if (!failed) failed = k + 1;
            if (k + 1 < count) best = NAME(search)(lines, m, k + 1, &most);
            continue;
        }
        best = NAME(eliminate)(lines, m, k, &most);
        if (most != most || most < 0) best = NAME(search)(lines, m, k + 1 < count ? k + 1 : k, &most);
    }
    for (int64_t i = 0; i < m; i++) memcpy(a + i * a_row, lines + i * FLAMBEAU_LINE, (size_t)(n * PARTS) * sizeof(NUMBER));
    return failed;
}

static int64_t NAME(lu)(void *matrix, int64_t a_row, int64_t m, int64_t n, int *pivots, void *work) {
    NUMBER *a = matrix;
    if (n <= NARROW) return NAME(lu_narrow)(a, a_row * PARTS, m, n, pivots, work);
    int64_t half = (n / 2 + NARROW - 1) / NARROW * NARROW, top = m < half ? m : half, failed, later;
    NUMBER *right = a + half * PARTS, *below = a + half * a_row * PARTS, *last = below + half * PARTS;
    failed = NAME(lu)(a, a_row, m, half, pivots, work);
    NAME(exchange)(right, a_row, n - half, pivots, 0, top);
    NAME(solve)(a, a_row, 1, right, a_row, top, n - half, 0, 1);
    if (m <= half) return failed;
    NAME(subtract)(last, a_row, below, a_row, 1, right, a_row, m - half, n - half, half, n - half, 0);
    later = NAME(lu)(last, a_row, m - half, n - half, pivots + half, work);
    top = m < n ? m : n;
    NAME(exchange)(below, a_row, half, pivots + half, 0, top - half);
    for (int64_t i = half; i < top; i++) pivots[i] += (int)half;
    return failed || !later ? failed : later + half;
}

/* --- Cholesky ----------------------------------------------------------------------------------------------------------------- */
/* At most as many columns as a line has.  Lines become Lᴴ: by symmetry a row of what is left is a column of it, conjugate. */
static int64_t NAME(cholesky_narrow)(NUMBER *a, int64_t a_row, int64_t n) {
    NUMBER s[NARROW * FLAMBEAU_LINE] __attribute__((aligned(64)));
    int64_t failed = 0;
    memset(s, 0, sizeof(s));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            const NUMBER *x = a + i * a_row + j * PARTS;
            s[i * FLAMBEAU_LINE + j * PARTS] = s[j * FLAMBEAU_LINE + i * PARTS] = x[0];
#if PARTS == 2
            s[i * FLAMBEAU_LINE + j * 2 + 1] = i == j ? 0 : x[1];
            s[j * FLAMBEAU_LINE + i * 2 + 1] = i == j ? 0 : -x[1];
#endif
        }
    for (int64_t k = 0; k < n; k++) {
        NUMBER *line = s + k * FLAMBEAU_LINE, diagonal = line[k * PARTS], root;
        if (!(diagonal > 0)) { /* nor NaN */
            failed = k + 1;
            break;
        }
        root = (NUMBER)sqrt(diagonal);
        LINE row = *(LINE *)line / root;
        *(LINE *)line = row;
        line[k * PARTS] = root;
#if PARTS == 2
        LINE turned;
        for (int64_t j = 0; j < FLAMBEAU_LINE; j += 2) turned[j] = -row[j + 1], turned[j + 1] = row[j];
#endif
        for (int64_t i = k + 1; i < n; i++) {
            LINE *to = (LINE *)(s + i * FLAMBEAU_LINE);
#if PARTS == 2
            *to = *to - line[i * 2] * row + line[i * 2 + 1] * turned;
            ((NUMBER *)to)[i * 2 + 1] = 0;
#else
            *to -= line[i] * row;
#endif
        }
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i && j < (failed ? failed - 1 : n); j++) {
            NUMBER *x = a + i * a_row + j * PARTS;
            x[0] = s[j * FLAMBEAU_LINE + i * PARTS];
#if PARTS == 2
            x[1] = -s[j * FLAMBEAU_LINE + i * 2 + 1];
#endif
        }
    return failed;
}

static int64_t NAME(cholesky)(void *matrix, int64_t a_row, int64_t n, void *work) {
    NUMBER *a = matrix;
    if (n <= NARROW) return NAME(cholesky_narrow)(a, a_row * PARTS, n);
    int64_t half = (n / 2 + NARROW - 1) / NARROW * NARROW, rest = n - half, failed;
    NUMBER *below = a + half * a_row * PARTS, *last = below + half * PARTS;
    failed = NAME(cholesky)(a, a_row, half, work);
    if (failed) return failed;
    NAME(adjoint)(work, rest, below, a_row, rest, half);
    NAME(solve)(a, a_row, 1, work, rest, half, rest, 0, 0);
    NAME(adjoint)(below, a_row, work, rest, half, rest);
    NAME(subtract)(last, a_row, below, a_row, 1, work, rest, rest, rest, half, 0, 0);
    failed = NAME(cholesky)(last, a_row, rest, work);
    return failed ? failed + half : 0;
}

#undef LINE
#undef PIECES
#undef NARROW
