// Runs one function on several threads.
//
// Where torch has brought an OpenMP runtime (libgomp) into the process, its threads are used: they exist already, and
// threads of our own would compete with them, as they go on spinning for a while after torch's own work. The runtime is
// looked up by name, so this library links with none. Elsewhere threads are started for the call.
#pragma once
#include <functional>
#include <system_error>
#include <thread>
#include <vector>
#if !defined(_WIN32)
#include <dlfcn.h>
#endif

typedef void (*OpenMPParallel)(void (*)(void *), void *, unsigned, unsigned);

static OpenMPParallel find_openmp() {
#if defined(_WIN32)
  return nullptr;
#else
  return reinterpret_cast<OpenMPParallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
#endif
}

// `work` must not throw, and must do with fewer threads than asked for.
static void run_in_parallel(int64_t threads, const std::function<void()> &work) {
  if (threads <= 1)
    return work();
  static const OpenMPParallel openmp = find_openmp();
  if (openmp) {
    auto call = [](void *data) { (*static_cast<const std::function<void()> *>(data))(); };
    return openmp(call, const_cast<std::function<void()> *>(&work), static_cast<unsigned>(threads), 0);
  }
  std::vector<std::thread> helpers;
  try {
    for (int64_t t = 1; t < threads; ++t)
      helpers.emplace_back(work);
  } catch (const std::system_error &) {
    // No more threads to be had: those that started, and this one, do the work.
  }
  work();
  for (auto &helper : helpers)
    helper.join();
}
