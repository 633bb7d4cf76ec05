#include "sparse_loops.h"
#include "each_processor.h"

#include <stddef.h>
#include <string.h>

/* Entries in whose number a processor does not soon remember where rows end, so that it is less to gather all terms first: of
   eight numbers in a vector that pays sooner than of four. */
#define MANY (sizeof(NUMBER) == 4 ? 1 << 14 : 1 << 18)
#define FETCHED 1024
#define TOGETHER 16
#define AT_ONCE 512 /* rows whose indices are looked at before they are followed, while they stay in the nearest memory */

#define PICKED(K) right[columns[K]], right[columns[(K) + 1]], right[columns[(K) + 2]], right[columns[(K) + 3]]

#define JOINED_(a, b, c) flambeau_##a##_##b##_##c
#define JOINED(a, b, c) JOINED_(a, b, c)
#define SHORT_(a, b) a##_##b
#define SHORT(a, b) SHORT_(a, b)

#define NUMBER float
#define LANE int32_t
#define OF_NUMBER f32
#include "sparse_loops_runs.h"
#define INDEX int32_t
#define UNSIGNED uint32_t
#define OF_INDEX i32
#include "sparse_loops_rows.h"
#undef INDEX
#undef UNSIGNED
#undef OF_INDEX
#define INDEX int64_t
#define UNSIGNED uint64_t
#define OF_INDEX i64
#include "sparse_loops_rows.h"
#undef INDEX
#undef UNSIGNED
#undef OF_INDEX
#undef NUMBER
#undef LANE
#undef OF_NUMBER

#define NUMBER double
#define LANE int64_t
#define OF_NUMBER f64
#include "sparse_loops_runs.h"
#define INDEX int32_t
#define UNSIGNED uint32_t
#define OF_INDEX i32
#include "sparse_loops_rows.h"
#undef INDEX
#undef UNSIGNED
#undef OF_INDEX
#define INDEX int64_t
#define UNSIGNED uint64_t
#define OF_INDEX i64
#include "sparse_loops_rows.h"
