// An allocator of a program's own: the fake driver's memory, with an account of who asked for what.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

static long counts[6];
enum { LIVE, BYTES, GIVEN, BACK, REFUSED, WRONG };
static struct { uint64_t at; size_t size; int device; void *stream; } held[64];
long account(int what) { return counts[what]; }
void refuse(int on) { counts[REFUSED] = on; }

static void *driver(const char *name, const char *hip) {
    void *symbol = dlsym(RTLD_DEFAULT, name);
    return symbol ? symbol : dlsym(RTLD_DEFAULT, hip);
}

void *give(ssize_t size, int device, void *stream) {
    int (*take)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))driver("cuMemAlloc_v2", "hipMalloc");
    uint64_t at = 0;
    if (counts[REFUSED] || take(&at, size)) return NULL;
    for (int k = 0; k < 64; k++)
        if (!held[k].at) { held[k].at = at, held[k].size = size, held[k].device = device, held[k].stream = stream; break; }
    counts[LIVE]++, counts[BYTES] += size, counts[GIVEN]++;
    return (void *)at;
}

void take_back(void *at, size_t size, int device, void *stream) {
    int (*drop)(uint64_t) = (int (*)(uint64_t))driver("cuMemFree_v2", "hipFree");
    int (*finish)(void *) = (int (*)(void *))driver("cuStreamSynchronize", "hipStreamSynchronize");
    int right = 0;
    for (int k = 0; k < 64; k++)
        if (held[k].at == (uint64_t)at) right = held[k].size == size && held[k].device == device && held[k].stream == stream, held[k].at = 0;
    counts[WRONG] += !right;
    counts[LIVE]--, counts[BYTES] -= size, counts[BACK]++;
    finish(stream), drop((uint64_t)at);  // what is queued there may still use it
}
