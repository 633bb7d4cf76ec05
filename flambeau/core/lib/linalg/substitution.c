#include "substitution.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

#define JOINED_(a, b) flambeau_##a##_##b
#define JOINED(a, b) JOINED_(a, b)

#define NUMBER float
#define OF_NUMBER f32
#include "substitution_of.h"
#undef NUMBER
#undef OF_NUMBER
#define NUMBER double
#define OF_NUMBER f64
#include "substitution_of.h"
