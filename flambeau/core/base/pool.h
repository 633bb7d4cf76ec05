/* One pool of worker threads for the process: it splits a range of indices over them.

   Any function here may be called from any thread, with or without the GIL; nothing here touches Python. */
#ifndef FLAMBEAU_POOL_H
#define FLAMBEAU_POOL_H

#include <stdint.h>

/* Does the part [begin, end) of the work described by context. It may run on any thread. */
typedef void (*flambeau_task)(void *context, int64_t begin, int64_t end);

/* Calls task on disjoint ranges that cover [0, n), each starting at a multiple of grain, and returns when
   all are done; the caller's thread takes part. The task gets the whole range in one call when n <= grain,
   when there is only one thread, inside another task, and while another thread uses the pool. */
void flambeau_parallel_for(flambeau_task task, void *context, int64_t n, int64_t grain);

/* The same in parts, one after another, where it takes long: each of some hundredths of a second, going by about
   how many nanoseconds an index takes one thread. Between two parts `stop` is called, on the caller's thread; where it
   does not return 0, the rest is not done. Returns what it returned last. Parts begin at multiples of grain. */
int flambeau_parallel_interruptible(flambeau_task task, void *context, int64_t n, int64_t grain, double nanoseconds_each,
                               int (*stop)(void));

/* The number of threads that share a range, the caller's included. It is 1 until it is set. */
int flambeau_get_num_threads(void);

/* Sets it, to threads >= 1. The pool changes as it starts on its next range, so a task may call this. */
void flambeau_set_num_threads(int threads);

/* Whether arithmetic on this thread takes numbers too small to be normal for zeros, operands and results; ranges that it
   shares are computed so on every thread. Returns whether the processor can. Threads inherit it from those that make them. */
int flambeau_set_flush_denormal(int flush);

/* The number of CPUs this process may run on. */
int flambeau_cpu_count(void);

/* A range as it was shared, or not (one chunk): what a model of many threads is made of. */
typedef struct {
    int64_t n, chunk, chunks;
    int64_t nanoseconds; /* of all chunks */
    int64_t longest;     /* of the thread that has most, where each takes the next chunk as soon as it is free */
} flambeau_range;

/* From now on, until `buffer` is NULL, the calling thread does every chunk of its ranges itself, one after another, cut as for all
   threads, and writes down how long each range takes; the outermost ranges only. Returns how many were met since the
   last call, which may be more than there was room for. For at most 1024 threads. */
int64_t flambeau_rehearse(flambeau_range *buffer, int64_t most);

/* The most parts that a range was shared out in since this was last asked, by any thread; 0 where none was shared. */
int64_t flambeau_max_tasks(void);

#endif
