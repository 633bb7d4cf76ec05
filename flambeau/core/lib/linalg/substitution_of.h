/* Included for each type of numbers.  The sum of an element is taken in one order, and subtracted term by term, whichever loop computes it. */
#define VECTOR JOINED(vector, OF_NUMBER)
typedef NUMBER VECTOR __attribute__((vector_size(64), aligned(sizeof(NUMBER)), may_alias));
#define LANES (64 / (int64_t)sizeof(NUMBER))

FOR_EACH_PROCESSOR
void JOINED(substitute, OF_NUMBER)(const NUMBER *a, int64_t a_row, int64_t a_col, NUMBER *x, int64_t x_row, int64_t n, int64_t columns,
                                   int upper, int unit) {
    NUMBER dense[FLAMBEAU_LARGEST_TRIANGLE * FLAMBEAU_LARGEST_TRIANGLE]; /* rows at a distance that suits the cache */
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = upper ? i : 0; k < (upper ? n : i + 1); k++) dense[i * n + k] = a[i * a_row + k * a_col];
    int64_t column = 0;
    for (; column + 4 * LANES <= columns; column += 4 * LANES) {
        for (int64_t step = 0; step < n; step++) {
            int64_t i = upper ? n - 1 - step : step, begin = upper ? i + 1 : 0, end = upper ? n : i;
            NUMBER *to = x + i * x_row + column;
            VECTOR s0 = *(VECTOR *)to, s1 = *(VECTOR *)(to + LANES), s2 = *(VECTOR *)(to + 2 * LANES), s3 = *(VECTOR *)(to + 3 * LANES);
            for (int64_t k = begin; k < end; k++) {
                const NUMBER *row = x + k * x_row + column, one = dense[i * n + k];
                s0 -= one * *(const VECTOR *)row;
                s1 -= one * *(const VECTOR *)(row + LANES);
                s2 -= one * *(const VECTOR *)(row + 2 * LANES);
                s3 -= one * *(const VECTOR *)(row + 3 * LANES);
            }
            if (!unit) {
                const NUMBER by = dense[i * n + i];
                s0 /= by, s1 /= by, s2 /= by, s3 /= by;
            }
            *(VECTOR *)to = s0, *(VECTOR *)(to + LANES) = s1, *(VECTOR *)(to + 2 * LANES) = s2, *(VECTOR *)(to + 3 * LANES) = s3;
        }
    }
    for (; column + LANES <= columns; column += LANES) {
        for (int64_t step = 0; step < n; step++) {
            int64_t i = upper ? n - 1 - step : step, begin = upper ? i + 1 : 0, end = upper ? n : i;
            VECTOR s = *(VECTOR *)(x + i * x_row + column);
            for (int64_t k = begin; k < end; k++) s -= dense[i * n + k] * *(const VECTOR *)(x + k * x_row + column);
            if (!unit) s /= dense[i * n + i];
            *(VECTOR *)(x + i * x_row + column) = s;
        }
    }
    for (; column < columns; column++) {
        for (int64_t step = 0; step < n; step++) {
            int64_t i = upper ? n - 1 - step : step, begin = upper ? i + 1 : 0, end = upper ? n : i;
            NUMBER s = x[i * x_row + column];
            for (int64_t k = begin; k < end; k++) s -= dense[i * n + k] * x[k * x_row + column];
            x[i * x_row + column] = unit ? s : s / dense[i * n + i];
        }
    }
}

FOR_EACH_PROCESSOR
void JOINED(transpose, OF_NUMBER)(NUMBER *to, int64_t to_row, const NUMBER *from, int64_t from_row, int64_t rows, int64_t columns) {
    for (int64_t row = 0; row < rows; row += LANES) {
        int64_t last = row + LANES < rows ? row + LANES : rows;
        for (int64_t column = 0; column < columns; column++)
            for (int64_t r = row; r < last; r++) to[column * to_row + r] = from[r * from_row + column];
    }
}

#undef VECTOR
#undef LANES
