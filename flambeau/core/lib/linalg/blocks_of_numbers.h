/* Included for each type of numbers and width of vectors. */
#define NAME(x) TOGETHER(x, KIND, PROCESSOR)
#define LANES (VECTOR_BYTES / WIDTH_OF_NUMBER)
#define WIDE (VECTORS * LANES) /* real numbers of a row of a tile */

typedef NUMBER NAME(vector) __attribute__((vector_size(VECTOR_BYTES), aligned(WIDTH_OF_NUMBER), may_alias));
typedef INTEGER NAME(order) __attribute__((vector_size(VECTOR_BYTES), aligned(WIDTH_OF_NUMBER), may_alias));
#define VECTOR NAME(vector)
#define LEAST_NORMAL (WIDTH_OF_NUMBER == 4 ? (NUMBER)FLT_MIN : (NUMBER)DBL_MIN)
#define SIZE(x) ((x) < 0 ? -(x) : (x))
#define VECTOR_AT(p) (*(VECTOR *)(p))
#define CONST_VECTOR_AT(p) (*(const VECTOR *)(p))

#if PARTS == 2
static const INTEGER NAME(swapped)[16] = {1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14};
static const NUMBER NAME(signs)[16] = {-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1};
/* (-im, re) of (re, im): i times what it was. */
#define TURNED(x) (__builtin_shuffle(x, *(const NAME(order) *)NAME(swapped)) * CONST_VECTOR_AT(NAME(signs)))
#endif

#include "blocks_products.h"
#include "blocks_factors.h"
#if PARTS == 1
#include "blocks_tridiagonal.h"
#else
#include "blocks_schur.h"
#endif

static const flambeau_blocks NAME(blocks) = {NAME(subtract), NAME(solve), NAME(lu), NAME(cholesky), NAME(exchange), NAME(adjoint), NAME(mirror),
#if PARTS == 1
                                             .symmetric = NAME(symmetric), .tridiagonal = NAME(tridiagonal)
#else
                                             .schur = NAME(schur)
#endif
};

#undef NAME
#undef LANES
#undef WIDE
#undef VECTOR
#undef VECTOR_AT
#undef CONST_VECTOR_AT
#undef TURNED
#undef SIZE
#undef LEAST_NORMAL
