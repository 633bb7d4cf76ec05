/* Random numbers that are drawn by rejection, and derivatives of such numbers, over ranges of elements.

   Every element has a stream of its own, so that its bits depend on the seed, on the counter that the call reserved and on
   its place alone: block k of element i is Philox's block for the counter (reserved, k * 2^48 + i + 1).  Streams that are
   read one after another have 0 in the upper half, so none is ever met twice. */
#ifndef FLAMBEAU_DRAWS_H
#define FLAMBEAU_DRAWS_H

#include <stdint.h>

enum {
    FLAMBEAU_GAMMA,
    FLAMBEAU_BETA,           /* two results: the number and what it lacks to 1 */
    FLAMBEAU_DIRICHLET,      /* rows */
    FLAMBEAU_POISSON,
    FLAMBEAU_BINOMIAL,
    FLAMBEAU_NEGATIVE_BINOMIAL,
    FLAMBEAU_VON_MISES,
    FLAMBEAU_CHOICE,         /* places in rows of weights, int64 */
    FLAMBEAU_GAMMA_GRADIENT,
    FLAMBEAU_BETA_GRADIENT
};

typedef struct {
    int kind;
    int wide;                /* elements are doubles, not floats */
    uint64_t key, first;     /* the seed, and the counter that is reserved */
    const char *given[3];    /* operands, contiguous */
    int64_t period[3];       /* element i reads element i % period */
    char *to[2];
    int64_t row;             /* elements of a row */
    int64_t each;            /* choices for each row */
    int refused;             /* an operand lies outside of what can be drawn from */
    int nothing;             /* a row's weights are all 0 */
    int no_memory;
} flambeau_draws;

void flambeau_prepare_draws(void);                                     /* once, before any other call */
void flambeau_draw(void *draws, int64_t begin, int64_t end);           /* elements, or rows, of a range */

#endif
