/* classifier: made by flambeau's export_library, for rocketlake x86_64-unknown-linux-gnu.

   input 0: float32 [2, 1, 8, 8]
   output 0: float32 [2, 3]

   Elements lie one after another, in the order of rows.  Outputs overlap neither inputs nor each other.  Any number of threads may call
   classifier_run at the same time, each with outputs and a workspace of its own; a call computes on the thread that makes it. */
#ifndef CLASSIFIER_H
#define CLASSIFIER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CLASSIFIER_VERSION 1
#define CLASSIFIER_INPUTS 1
#define CLASSIFIER_OUTPUTS 1
#define CLASSIFIER_WORKSPACE 3392 /* bytes; 0: none is needed, and it may be null */
#define CLASSIFIER_ALIGNMENT 64 /* of the workspace, in bytes; tensors are aligned as their elements are */

enum {
    CLASSIFIER_OK = 0, /* the results are written */
    CLASSIFIER_NULL_POINTER = 1, /* a null pointer where an address is wanted */
    CLASSIFIER_MISALIGNED = 2, /* an address that is no multiple of its element's size, or of the workspace's alignment */
    CLASSIFIER_NOT_LOADED = 3, /* the weights are not loaded */
    CLASSIFIER_CANNOT_OPEN = 4, /* the file of weights cannot be opened or mapped */
    CLASSIFIER_OTHER_WEIGHTS = 5, /* the file is not that of this library's weights */
    CLASSIFIER_OUT_OF_RANGE = 6, /* an index is out of range; what the outputs hold is to be thrown away */
};

/* dtype, number of dimensions, sizes, bytes of each input and output. */
typedef struct {
    const char *dtype;
    int64_t rank;
    const int64_t *shape;
    int64_t bytes;
} classifier_tensor;
extern const classifier_tensor classifier_inputs[1];
extern const classifier_tensor classifier_outputs[1];

/* What a code means. */
const char *classifier_message(int code);

/* Maps the file of weights, `classifier.safetensors`, for reading; to be called before classifier_run, once.  A second call changes nothing. */
int classifier_load(const char *path);
/* Gives the memory of the weights back; no classifier_run may be under way. */
void classifier_unload(void);

/* Computes the outputs; a code, CLASSIFIER_OK where they are written.  Where it is another they hold what is there, or what is
   to be thrown away. */
int classifier_run(const void *const *inputs, void *const *outputs, void *workspace);

#ifdef __cplusplus
}
#endif
#endif
