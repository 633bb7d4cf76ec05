#ifndef FLAMBEAU_SUBSTITUTION_H
#define FLAMBEAU_SUBSTITUTION_H

#include <stdint.h>

enum { FLAMBEAU_LARGEST_TRIANGLE = 64 };

/* X with A X = B in place of B, (n, columns), whose columns lie side by side; n <= FLAMBEAU_LARGEST_TRIANGLE.  Of A the one triangle is
   read, or what is beyond its diagonal, which is then 1.  Steps count elements.  An element's bits depend on its own column alone. */
void flambeau_substitute_f32(const float *a, int64_t a_row, int64_t a_col, float *x, int64_t x_row, int64_t n, int64_t columns, int upper,
                             int unit);
void flambeau_substitute_f64(const double *a, int64_t a_row, int64_t a_col, double *x, int64_t x_row, int64_t n, int64_t columns, int upper,
                             int unit);

/* The transpose of a matrix of rows by columns. */
void flambeau_transpose_f32(float *to, int64_t to_row, const float *from, int64_t from_row, int64_t rows, int64_t columns);
void flambeau_transpose_f64(double *to, int64_t to_row, const double *from, int64_t from_row, int64_t rows, int64_t columns);

#endif
