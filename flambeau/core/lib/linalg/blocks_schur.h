/* Schur's form of complex Hessenberg matrices by QR with one shift at a time (J. Francis, "The QR transformation", 1961; deflation by M. Ahues and
   F. Tisseur, "A new deflation criterion for the QR algorithm", LAPACK working note 122, 1997).  A sweep rotates rows, which lie side by side, at
   once; of columns only what the next rotation needs, and the rest row by row when the sweep is over. */

typedef double _Complex NAME(wide); /* what decides is computed in double precision */
#define AT(i, k) (h + ((i) * h_row + (k)) * 2)
#define READ(p) __builtin_complex((double)(p)[0], (double)(p)[1])
#define WRITE(p, x) ((p)[0] = (NUMBER)__real__(x), (p)[1] = (NUMBER)__imag__(x))
#define SUM_OF(x) (fabs(__real__(x)) + fabs(__imag__(x)))

/* c x + s y, c y - s* x in place of rows x and y. */
static void NAME(rotate)(NUMBER *x, NUMBER *y, int64_t count, NUMBER c, NUMBER re, NUMBER im) {
    int64_t j = 0;
    for (; j + LANES <= 2 * count; j += LANES) {
        VECTOR left = VECTOR_AT(x + j), right = VECTOR_AT(y + j);
        VECTOR_AT(x + j) = c * left + re * right + im * TURNED(right);
        VECTOR_AT(y + j) = c * right - re * left + im * TURNED(left);
    }
    for (; j < 2 * count; j += 2) {
        NUMBER a = x[j], b = x[j + 1], u = y[j], v = y[j + 1];
        x[j] = c * a + re * u - im * v, x[j + 1] = c * b + re * v + im * u;
        y[j] = c * u - re * a - im * b, y[j + 1] = c * v - re * b + im * a;
    }
}

typedef struct {
    NUMBER c, re, im;
} NAME(rotation);

/* c x + s* y, c y - s x in place of neighbours in a row, for rotations from `begin` to `end`, which begin at their own columns. */
static inline __attribute__((always_inline)) void NAME(rotate_along)(NUMBER *row, int64_t h_row, const NAME(rotation) * by, int64_t begin,
                                                                     int64_t end, const int rows) {
    NUMBER a[4], b[4];
    for (int r = 0; r < rows; r++) a[r] = row[r * h_row * 2 + 2 * begin], b[r] = row[r * h_row * 2 + 2 * begin + 1];
    for (int64_t k = begin; k < end; k++) {
        NUMBER c = by[k].c, re = by[k].re, im = by[k].im;
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            NUMBER *at = row + (r * h_row + k) * 2, u = at[2], v = at[3];
            at[0] = c * a[r] + re * u + im * v, at[1] = c * b[r] + re * v - im * u;
            NUMBER next = c * u - re * a[r] + im * b[r];
            b[r] = c * v - re * b[r] - im * a[r], a[r] = next;
        }
    }
    for (int r = 0; r < rows; r++) row[(r * h_row + end) * 2] = a[r], row[(r * h_row + end) * 2 + 1] = b[r];
}

/* Whether what is below the diagonal in row k is as good as 0. */
static int NAME(negligible)(const NUMBER *h, int64_t h_row, int64_t k, int64_t first, int64_t last) {
    const double epsilon = WIDTH_OF_NUMBER == 4 ? FLT_EPSILON : DBL_EPSILON, least = LEAST_NORMAL * ((double)(last - first + 1) / epsilon);
    NAME(wide) below = READ(AT(k, k - 1)), above = READ(AT(k - 1, k)), here = READ(AT(k, k)), before = READ(AT(k - 1, k - 1));
    double size = SUM_OF(below), around = SUM_OF(here) + SUM_OF(before);
    if (size <= least) return 1;
    if (around == 0) {
        if (k - 2 >= first) around += fabs((double)AT(k - 1, k - 2)[0]);
        if (k + 1 <= last) around += fabs((double)AT(k + 1, k)[0]);
    }
    if (size > epsilon * around) return 0;
    double other = SUM_OF(above), apart = SUM_OF(before - here), own = SUM_OF(here);
    double larger = size > other ? size : other, smaller = size > other ? other : size;
    double wide = own > apart ? own : apart, narrow = own > apart ? apart : own, sum = wide + larger;
    double limit = epsilon * (narrow * (wide / sum));
    return smaller * (larger / sum) <= (limit > least ? limit : least);
}

/* The eigenvalue of the last two rows that is nearer to the last element of the diagonal. */
static NAME(wide) NAME(shift_of)(const NUMBER *h, int64_t h_row, int64_t last) {
    NAME(wide) t = READ(AT(last, last)), u = __builtin_csqrt(READ(AT(last - 1, last))) * __builtin_csqrt(READ(AT(last, last - 1)));
    double size = SUM_OF(u);
    if (size == 0) return t;
    NAME(wide) x = (READ(AT(last - 1, last - 1)) - t) / 2;
    double x_size = SUM_OF(x);
    if (x_size > size) size = x_size;
    NAME(wide) p = x / size, q = u / size, y = size * __builtin_csqrt(p * p + q * q);
    if (x_size > 0 && __real__ x * __real__ y + __imag__ x * __imag__ y < 0) y = -y;
    return t - u * (u / (x + y));
}

static void NAME(sweep)(NUMBER *h, int64_t h_row, int64_t n, int64_t first, int64_t last, NAME(wide) shift, NUMBER *z, int64_t z_row,
                        NAME(rotation) * by) {
    for (int64_t k = first; k < last; k++) {
        NAME(wide) f = k == first ? READ(AT(k, k)) - shift : READ(AT(k, k - 1)), g = READ(k == first ? AT(k + 1, k) : AT(k + 1, k - 1));
        double square = __real__ f * __real__ f + __imag__ f * __imag__ f, f_size = sqrt(square), c = 1;
        double norm = sqrt(square + __real__ g * __real__ g + __imag__ g * __imag__ g);
        NAME(wide) unit = f_size > 0 ? f / f_size : 1, s = 0;
        if (norm > 0) c = f_size / norm, s = unit * (~g / norm);
        by[k] = (NAME(rotation)){(NUMBER)c, (NUMBER)__real__ s, (NUMBER)__imag__ s};
        if (k > first) {
            WRITE(AT(k, k - 1), unit * norm);
            AT(k + 1, k - 1)[0] = AT(k + 1, k - 1)[1] = 0;
        }
        NAME(rotate)(AT(k, k), AT(k + 1, k), n - k, by[k].c, by[k].re, by[k].im);
        for (int64_t i = k; i <= (k + 2 < last ? k + 2 : last); i++) NAME(rotate_along)(h + i * h_row * 2, h_row, by, k, k + 1, 1);
        NAME(rotate)(z + k * z_row * 2, z + (k + 1) * z_row * 2, n, by[k].c, by[k].re, -by[k].im);
    }
    int64_t row = 0;
    for (; row + 4 < last; row += 4) {
        int64_t together = row + 4 > first ? row + 4 : first;
        for (int64_t r = row; r < row + 4; r++) {
            int64_t begin = r + 1 > first ? r + 1 : first;
            if (begin < together) NAME(rotate_along)(h + r * h_row * 2, h_row, by, begin, together, 1);
        }
        NAME(rotate_along)(h + row * h_row * 2, h_row, by, together, last, 4);
    }
    for (; row < last - 1; row++) {
        int64_t begin = row + 1 > first ? row + 1 : first;
        NAME(rotate_along)(h + row * h_row * 2, h_row, by, begin, last, 1);
    }
}

static int64_t NAME(schur)(void *hessenberg, int64_t h_row, int64_t n, int64_t begin, int64_t end, void *vectors, int64_t z_row, void *work) {
    NUMBER *h = hessenberg;
    int64_t last = end - 1, left = 30 * (end - begin > 10 ? end - begin : 10);
    for (int64_t tries = 0; last > begin; tries++) {
        int64_t first = last;
        while (first > begin && !NAME(negligible)(h, h_row, first, begin, end - 1)) first--;
        if (first > begin) AT(first, first - 1)[0] = AT(first, first - 1)[1] = 0;
        if (first == last) {
            last--, tries = -1;
            continue;
        }
        if (left-- == 0) return last + 1;
        NAME(wide) shift = NAME(shift_of)(h, h_row, last);
        if (tries > 0 && tries % 20 == 10) /* where shifts do not converge */
            shift = READ(AT(first, first)) + 0.75 * SUM_OF(READ(AT(first + 1, first)));
        else if (tries > 0 && tries % 20 == 0)
            shift = READ(AT(last, last)) + 0.75 * SUM_OF(READ(AT(last, last - 1)));
        NAME(sweep)(h, h_row, n, first, last, shift, vectors, z_row, work);
    }
    return 0;
}

#undef AT
#undef READ
#undef WRITE
#undef SUM_OF
