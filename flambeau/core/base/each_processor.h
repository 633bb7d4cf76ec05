/* A function behind FOR_EACH_PROCESSOR is compiled for newer processors, too, of which the loader takes what runs here.  Where the
   compiler or the system's loader cannot do that, it is compiled once. */
#ifndef FLAMBEAU_EACH_PROCESSOR_H
#define FLAMBEAU_EACH_PROCESSOR_H
#include <stdlib.h> /* says whether the C library is glibc */

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif
#endif
