/* Tridiagonal form of symmetric matrices: Qᵀ A Q, a reflection for each column (G. Golub, C. Van Loan, Matrix Computations, 8.3.1).  What one
   reflection leaves of the matrix is written in the same pass that multiplies it by the next, so each is one way through the memory. */

static inline NUMBER NAME(sum_of)(VECTOR x) {
    NUMBER sum = 0;
    for (int lane = 0; lane < LANES; lane++) sum += x[lane];
    return sum;
}

/* x y from a vector's border on. */
static NUMBER NAME(dot)(const NUMBER *x, const NUMBER *y, int64_t begin, int64_t end) {
    VECTOR sum = {0};
    for (int64_t j = begin; j < end; j += LANES) sum += CONST_VECTOR_AT(x + j) * CONST_VECTOR_AT(y + j);
    return NAME(sum_of)(sum);
}

#define ROWS_AT_ONCE 4

/* `rows` rows less v wᵀ + w vᵀ, and what they add to y = A next. */
static inline __attribute__((always_inline)) void NAME(pass)(NUMBER *a, int64_t a_row, int64_t i, const NUMBER *v, const NUMBER *w,
                                                             const NUMBER *next, NUMBER *y, int64_t begin, int64_t end, const int rows) {
    NUMBER *first = a + i * a_row;
    for (int64_t j = begin; j < end; j += LANES) {
        VECTOR left = CONST_VECTOR_AT(v + j), right = CONST_VECTOR_AT(w + j), sum = CONST_VECTOR_AT(y + j);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            VECTOR x = CONST_VECTOR_AT(first + r * a_row + j) - v[i + r] * right - w[i + r] * left;
            VECTOR_AT(first + r * a_row + j) = x;
            sum += next[i + r] * x;
        }
        VECTOR_AT(y + j) = sum;
    }
}

static double NAME(symmetric)(void *result, int64_t to_row, const void *matrix, int64_t n, int lower) {
    NUMBER *to = result, largest = 0, odd = 0;
    const NUMBER *from = matrix;
    for (int64_t i = 0; i < n; i++) {
        const NUMBER *row = from + i * n;
        int64_t begin = lower ? 0 : i, end = lower ? i + 1 : n;
        for (int64_t j = begin; j < end; j++) {
            NUMBER x = row[j], size = SIZE(x);
            to[i * to_row + j] = x;
            odd += x - x;
            largest = size > largest ? size : largest;
        }
        for (int64_t j = n; j < to_row; j++) to[i * to_row + j] = 0;
    }
    for (int64_t top = 0; top < n; top += 16)
        for (int64_t left = 0; left <= top; left += 16)
            for (int64_t i = top; i < n && i < top + 16; i++)
                for (int64_t j = left; j < i && j < left + 16; j++) {
                    NUMBER *below = to + i * to_row + j, *above = to + j * to_row + i;
                    if (lower)
                        *above = *below;
                    else
                        *below = *above;
                }
    return largest + odd;
}

static void NAME(tridiagonal)(void *matrix, int64_t a_row, int64_t n, void *diagonal, void *beside, void *scales, void *work) {
    NUMBER *a = matrix, *d = diagonal, *e = beside, *tau = scales;
    NUMBER *v = work, *next = v + a_row, *w = next + a_row, *y = w + a_row;
    memset(work, 0, (size_t)(4 * a_row) * sizeof(NUMBER));
    for (int64_t k = 0; k + 1 < n; k++) {
        NUMBER *row = a + k * a_row, alpha = row[k + 1], below;
        int64_t begin = (k + 1) / LANES * LANES, i = k + 1;
        d[k] = row[k];
        memset(next + k / LANES * LANES, 0, (size_t)(k + 2 - k / LANES * LANES) * sizeof(NUMBER));
        memcpy(next + k + 2, row + k + 2, (size_t)(n - k - 2) * sizeof(NUMBER));
        below = NAME(dot)(next, next, begin, a_row);
        if (below == 0) {
            e[k] = alpha, tau[k] = 0;
        } else {
            NUMBER size = (NUMBER)sqrt(alpha * alpha + below), beta = alpha > 0 ? -size : size;
            NUMBER over = 1 / (alpha - beta);
            e[k] = beta, tau[k] = (beta - alpha) / beta;
            for (int64_t j = begin; j < a_row; j += LANES) VECTOR_AT(next + j) = CONST_VECTOR_AT(next + j) * over;
            next[k + 1] = 1;
            memcpy(row + k + 1, next + k + 1, (size_t)(n - k - 1) * sizeof(NUMBER));
        }
        memset(y + begin, 0, (size_t)(a_row - begin) * sizeof(NUMBER));
        for (; i + ROWS_AT_ONCE <= n; i += ROWS_AT_ONCE) NAME(pass)(a, a_row, i, v, w, next, y, begin, a_row, ROWS_AT_ONCE);
        for (; i < n; i++) NAME(pass)(a, a_row, i, v, w, next, y, begin, a_row, 1);
        memset(y + begin, 0, (size_t)(k + 1 - begin) * sizeof(NUMBER));
        NUMBER half = -tau[k] * tau[k] * NAME(dot)(y, next, begin, a_row) / 2;
        for (int64_t j = begin; j < a_row; j += LANES)
            VECTOR_AT(w + j) = tau[k] * CONST_VECTOR_AT(y + j) + half * CONST_VECTOR_AT(next + j);
        NUMBER *last = v;
        v = next, next = last;
        /* the next row is needed at once */
        row = a + (k + 1) * a_row;
        for (int64_t j = begin; j < a_row; j += LANES)
            VECTOR_AT(row + j) = CONST_VECTOR_AT(row + j) - v[k + 1] * CONST_VECTOR_AT(w + j) - w[k + 1] * CONST_VECTOR_AT(v + j);
    }
    d[n - 1] = a[(n - 1) * a_row + n - 1];
}

#undef ROWS_AT_ONCE
