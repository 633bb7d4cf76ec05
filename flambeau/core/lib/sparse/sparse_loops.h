/* Loops over rows that list their elements, for the thread pool.

   A row i lists the entries [starts[i], starts[i + 1]); entry k stands in column `columns[k]`.  Indices are of 32 or 64 bits
   and come from memory that programs may write to: a task that finds one outside its bounds sets `bad`, reads nothing there
   and returns.  A row is computed by one thread in one order, so the bits are the same for any number of threads. */
#ifndef FLAMBEAU_SPARSE_LOOPS_H
#define FLAMBEAU_SPARSE_LOOPS_H

#include <stdint.h>

typedef struct {
    const void *starts;     /* rows + 1 indices */
    const void *columns;    /* `listed` indices; NULL in sums of runs */
    const int64_t *order;   /* in sums of runs: the element that entry k is */
    const void *values;     /* `listed` numbers, of the entries; the result of inner products */
    const void *left;       /* inner products: rows of `width` numbers, one for each row */
    const void *right;      /* rows of `width` numbers, one for each column, or element */
    void *out;              /* rows of `width` numbers */
    int64_t listed;
    int64_t bound;          /* columns are below it, and elements of `order` */
    int64_t width;
    int64_t left_step;      /* numbers from a row to the next */
    int64_t right_step;
    int bad;
} flambeau_rows;

/* out[i] = sum of values[k] * right[columns[k]] */
void flambeau_product_f32_i32(void *rows, int64_t begin, int64_t end);
void flambeau_product_f32_i64(void *rows, int64_t begin, int64_t end);
void flambeau_product_f64_i32(void *rows, int64_t begin, int64_t end);
void flambeau_product_f64_i64(void *rows, int64_t begin, int64_t end);

/* values[k] = left[i] . right[columns[k]] */
void flambeau_inner_f32_i32(void *rows, int64_t begin, int64_t end);
void flambeau_inner_f32_i64(void *rows, int64_t begin, int64_t end);
void flambeau_inner_f64_i32(void *rows, int64_t begin, int64_t end);
void flambeau_inner_f64_i64(void *rows, int64_t begin, int64_t end);

/* out[i] = sum of right[order[k]] */
void flambeau_runs_f32(void *rows, int64_t begin, int64_t end);
void flambeau_runs_f64(void *rows, int64_t begin, int64_t end);

#endif
