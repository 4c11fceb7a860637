// The CPU kernels behind nestree.crf: plain C functions that Python calls through ctypes, one per operation.
// No Python header, no torch header, no OpenMP runtime: one shared library serves every Python and torch version.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
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

#include "parallel.h"

// The same source is compiled once for any CPU and, on x86-64, once more for each of two larger instruction sets; which
// one runs is decided when the library is loaded.
namespace any_cpu {
#include "kernels.h"
}

#if defined(__x86_64__) && defined(__GNUC__)
#define NESTREE_X86_SETS 1
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
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,avx512f,avx512bw,avx512cd,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2,avx512f,avx512bw,avx512cd,avx512dq,avx512vl")
#endif
namespace avx512 {
#include "kernels.h"
}
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

struct Kernels {
  const char *instructions;
  void (*inside)(Call &), (*marginals)(Call &), (*slopes)(Call &);
  void (*best_tree)(Call &), (*best_trees)(Call &), (*sample)(Call &), (*normalize)(Call &);
};

#define NESTREE_KERNELS(set)                                                                                           \
  Kernels { #set,           set::inside,     set::marginals, set::slopes,                                              \
            set::best_tree, set::best_trees, set::sample,    set::normalize }

// NESTREE_INSTRUCTIONS names a smaller set than the CPU has, for tests and comparisons.
static const Kernels &kernels() {
  static const Kernels chosen = []() {
#ifdef NESTREE_X86_SETS
    const char *wanted = std::getenv("NESTREE_INSTRUCTIONS");
    auto allowed = [&](const char *set) { return !wanted || !*wanted || std::strcmp(wanted, set) == 0; };
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (has_avx2 && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && allowed("avx512"))
      return NESTREE_KERNELS(avx512);
    if (has_avx2 && (allowed("avx2") || allowed("avx512")))
      return NESTREE_KERNELS(avx2);
#endif
    return NESTREE_KERNELS(any_cpu);
  }();
  return chosen;
}

NESTREE_API int64_t nestree_call_size() { return sizeof(Call); }
NESTREE_API const char *nestree_instructions() { return kernels().instructions; }
NESTREE_API void nestree_inside(Call *call) { kernels().inside(*call); }
NESTREE_API void nestree_marginals(Call *call) { kernels().marginals(*call); }
NESTREE_API void nestree_slopes(Call *call) { kernels().slopes(*call); }
NESTREE_API void nestree_best_tree(Call *call) { kernels().best_tree(*call); }
NESTREE_API void nestree_best_trees(Call *call) { kernels().best_trees(*call); }
NESTREE_API void nestree_sample(Call *call) { kernels().sample(*call); }
NESTREE_API void nestree_normalize(Call *call) { kernels().normalize(*call); }
