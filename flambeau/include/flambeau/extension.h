/* Functions in C and C++ for flambeau: one page, and no binary interface but that of DLPack.

   A function is declared with FLAMBEAU_FUNCTION, takes operands as `const DLTensor *`, results as `DLTensor *` (allocated by
   the caller), and numbers as `double`, `int64_t` or `bool`, in any order.  It returns NULL, or a message, which becomes a
   RuntimeError.

       #include <flambeau/extension.h>

       FLAMBEAU_FUNCTION squareplus(const DLTensor *x, DLTensor *out, double b) {
           const float *from = FLAMBEAU_DATA(float, x);
           float *to = FLAMBEAU_DATA(float, out);
           for (int64_t i = 0, n = flambeau_count(x); i < n; i++)
               to[i] = (from[i] + sqrtf(from[i] * from[i] + (float)b)) / 2;
           return NULL;
       }

   `flambeau.utils.cpp_extension` compiles it, and says what its results and its derivative are.  The function runs without
   Python's lock, maybe in several threads at once; it must call nothing of Python.  Operands are contiguous (row-major)
   unless they are requested as they are, and of the dtypes that were declared. */
#ifndef FLAMBEAU_EXTENSION_H
#define FLAMBEAU_EXTENSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
#define FLAMBEAU_LINKAGE extern "C"
#else
#define FLAMBEAU_LINKAGE
#endif
#if defined(_WIN32)
#define FLAMBEAU_FUNCTION FLAMBEAU_LINKAGE __declspec(dllexport) const char *
#else
#define FLAMBEAU_FUNCTION FLAMBEAU_LINKAGE __attribute__((visibility("default"))) const char *
#endif

/* The structures of dlpack.h, for whoever has not included it. */
#ifndef DLPACK_DLPACK_H_
typedef enum { kDLCPU = 1, kDLCUDA = 2 } DLDeviceType;
typedef enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLComplex = 5, kDLBool = 6 } DLDataTypeCode;

typedef struct {
    int32_t device_type;
    int32_t device_id;
} DLDevice;

typedef struct {
    uint8_t code; /* DLDataTypeCode */
    uint8_t bits;
    uint16_t lanes; /* 1 */
} DLDataType;

typedef struct {
    void *data; /* of the first element, but for byte_offset */
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; never NULL here */
    uint64_t byte_offset;
} DLTensor;
#endif

/* The elements, as a pointer to that type: FLAMBEAU_DATA(float, x). */
#ifdef __cplusplus
#define FLAMBEAU_DATA(type, x) ((type *)((char *)(x)->data + (x)->byte_offset))
#else
#define FLAMBEAU_DATA(type, x) ((void *)((char *)(x)->data + (x)->byte_offset))
#endif

/* How many elements there are. */
static inline int64_t flambeau_count(const DLTensor *x) {
    int64_t count = 1;
    for (int d = 0; d < x->ndim; d++)
        count *= x->shape[d];
    return count;
}

/* Whether elements are of that kind and width: flambeau_is(x, kDLFloat, 32). */
static inline bool flambeau_is(const DLTensor *x, int code, int bits) {
    return x->dtype.code == code && x->dtype.bits == bits && x->dtype.lanes == 1;
}

/* Whether the elements stand one after another, the last dimension innermost. */
static inline bool flambeau_is_contiguous(const DLTensor *x) {
    int64_t step = 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        if (x->shape[d] != 1 && x->strides[d] != step)
            return false;
        step *= x->shape[d];
    }
    return true;
}

#endif
