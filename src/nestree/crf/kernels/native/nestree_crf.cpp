// The CPU kernels behind nestree.crf: plain C functions that Python calls through ctypes, one per operation.
// No Python header, no torch header, no OpenMP runtime: one shared library serves every Python and torch version.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "call.h"

#if defined(_WIN32)
#define NESTREE_API extern "C" __declspec(dllexport)
#else
#define NESTREE_API extern "C" __attribute__((visibility("default")))
#endif

// The same source is compiled once for any CPU and, on x86-64, once more for CPUs with AVX2 and FMA; which one runs
// is decided when the library is loaded.
namespace any_cpu {
#include "kernels.h"
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(NESTREE_ANY_CPU_ONLY)
#define NESTREE_HAS_AVX2 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2")
#endif
namespace avx2 {
#include "kernels.h"
}
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

static bool use_avx2() {
#ifdef NESTREE_HAS_AVX2
  static const bool yes = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return yes;
#else
  return false;
#endif
}

#ifdef NESTREE_HAS_AVX2
#define NESTREE_DISPATCH(operation) (use_avx2() ? avx2::operation(*call) : any_cpu::operation(*call))
#else
#define NESTREE_DISPATCH(operation) any_cpu::operation(*call)
#endif

NESTREE_API int64_t nestree_call_size() { return sizeof(Call); }
NESTREE_API const char *nestree_instructions() { return use_avx2() ? "avx2" : "any"; }
NESTREE_API void nestree_inside(Call *call) { NESTREE_DISPATCH(inside); }
NESTREE_API void nestree_marginals(Call *call) { NESTREE_DISPATCH(marginals); }
NESTREE_API void nestree_slopes(Call *call) { NESTREE_DISPATCH(slopes); }
NESTREE_API void nestree_best_tree(Call *call) { NESTREE_DISPATCH(best_tree); }
NESTREE_API void nestree_sample(Call *call) { NESTREE_DISPATCH(sample); }
NESTREE_API void nestree_best_trees(Call *call) { NESTREE_DISPATCH(best_trees); }
