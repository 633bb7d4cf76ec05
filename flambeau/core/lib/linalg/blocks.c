/* Products, triangular systems and factors of dense matrices, for vectors of each width that processors have.

   C - A B goes by tiles of up to six rows and as many vectors as registers hold (K. Goto, R. van de Geijn, "Anatomy of high-performance matrix
   multiplication", 2008).  Everything else is recursion that ends in blocks of 16 (F. Gustavson, "Recursion leads to automatic variable
   blocking for dense linear-algebra algorithms", 1997), so most of the work is in such products.  Of complex numbers a product is real: the right
   operand has two rows for each of its own, (re, im) and (-im, re). */
#include "blocks.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define JOINED_(a, b) flambeau_##a##_##b
#define JOINED(a, b) JOINED_(a, b)
#define LAST_(a, b, c) a##_##b##_##c
#define TOGETHER(a, b, c) LAST_(a, b, c)

enum {
    TERMS = 128,  /* rows of the right operand that are laid out at once: 32 KiB with the widest vectors */
    ROWS = 6,     /* of a tile */
    IN_PLACE = 24 /* rows up to which laying the right operand out costs more than it saves */
};

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define BY_PROCESSOR
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
#define PROCESSOR v4
#define VECTOR_BYTES 64
#define VECTORS 4
#include "blocks_of_processor.h"
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#define PROCESSOR v3
#define VECTOR_BYTES 32
#define VECTORS 2
#include "blocks_of_processor.h"
#pragma GCC pop_options
#endif

#define PROCESSOR any
#define VECTOR_BYTES 16
#ifdef __aarch64__
#define VECTORS 4
#else
#define VECTORS 2
#endif
#include "blocks_of_processor.h"

const flambeau_blocks *flambeau_blocks_of(int kind, int narrow) {
#ifdef BY_PROCESSOR
    __builtin_cpu_init();
    if (!narrow && __builtin_cpu_supports("x86-64-v4")) return flambeau_blocks_v4[kind];
    if (__builtin_cpu_supports("x86-64-v3")) return flambeau_blocks_v3[kind];
#endif
    return flambeau_blocks_any[kind];
}
