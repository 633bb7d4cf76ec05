/* Included for each width of vectors: the four types of numbers. */
#define WIDTH_OF_NUMBER 4
#define NUMBER float
#define INTEGER int32_t
#define PARTS 1
#define KIND f32
#include "blocks_of_numbers.h"
#undef KIND
#undef PARTS
#define PARTS 2
#define KIND c64
#include "blocks_of_numbers.h"
#undef KIND
#undef PARTS
#undef INTEGER
#undef NUMBER
#undef WIDTH_OF_NUMBER
#define WIDTH_OF_NUMBER 8
#define NUMBER double
#define INTEGER int64_t
#define PARTS 1
#define KIND f64
#include "blocks_of_numbers.h"
#undef KIND
#undef PARTS
#define PARTS 2
#define KIND c128
#include "blocks_of_numbers.h"
#undef KIND
#undef PARTS
#undef INTEGER
#undef NUMBER
#undef WIDTH_OF_NUMBER

static const flambeau_blocks *const JOINED(blocks, PROCESSOR)[4] = {
    &TOGETHER(blocks, f32, PROCESSOR), &TOGETHER(blocks, f64, PROCESSOR), &TOGETHER(blocks, c64, PROCESSOR), &TOGETHER(blocks, c128, PROCESSOR)};

#undef PROCESSOR
#undef VECTOR_BYTES
#undef VECTORS
