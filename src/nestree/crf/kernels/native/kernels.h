// Everything that runs per sentence, and the loop over sentences. Included once per instruction set, each time in a
// namespace of its own, so it includes no system header.
#include "vector_math.h"

#include "chart.h"

#include "labels.h"

#include "scaled.h"

#include "logspace.h"

#include "sums.h"

#include "trees.h"

#include "normalization.h"

// A problem is reported for the first sentence that has one, whatever thread came upon it first.
class Report {
public:
  explicit Report(Call &call) : call_(call) { call.problem[0] = PROBLEM_NONE; }
  void add(int64_t kind, int64_t b, int64_t i = -1, int64_t j = -1, int64_t k = -1) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (call_.problem[0] != PROBLEM_NONE && call_.problem[1] <= b)
      return;
    const int64_t found[] = {kind, b, i, j, k};
    std::copy_n(found, 5, call_.problem);
  }

private:
  Call &call_;
  std::mutex mutex_;
};

template <class T> static void report_not_finite(const Call &call, Report &report, int64_t b) {
  for (int64_t i = 0; i < call.lengths[b]; ++i)
    for (int64_t j = i; j < call.lengths[b]; ++j)
      for (int64_t k = 0; k < call.labels; ++k) {
        T s = score_at<T>(call, b, i, j, k);
        if (s != s || s == std::numeric_limits<T>::infinity())
          return report.add(PROBLEM_NOT_FINITE, b, i, j, k);
      }
}

// Lengths and codes index memory: they are checked before anything is computed.
static bool check_inputs(const Call &call, Report &report) {
  for (int64_t b = 0; b < call.batch; ++b) {
    if (call.lengths[b] < 1 || call.lengths[b] > call.n) {
      report.add(PROBLEM_LENGTH, b);
      return false;
    }
    if (!call.masked_charts)
      continue;
    for (int64_t i = 0; i < call.lengths[b]; ++i)
      for (int64_t j = i; j < call.lengths[b]; ++j) {
        const int16_t code = code_at(call, b, i, j);
        if (code < REJECTED || code >= call.labels) {
          report.add(PROBLEM_CODE, b, i, j);
          return false;
        }
      }
  }
  return true;
}

// Sentences are handed out one by one; each is computed by one thread from start to end, so the number of threads
// changes no bit of the result.
template <class T, class MakeWorker, class Body> static void for_each_sentence(Call &call, MakeWorker make, Body body) {
  Report report(call);
  call.fallbacks = call.impossible = 0;
  if (call.batch == 0 || !check_inputs(call, report))
    return;
  const int64_t longest = *std::max_element(call.lengths, call.lengths + call.batch);
  const double work = static_cast<double>(call.batch) * triangle(longest) * static_cast<double>(call.labels + longest);
  const int64_t worthwhile = std::max<int64_t>(1, static_cast<int64_t>(work / 4e4));
  const int64_t threads = std::min({static_cast<int64_t>(call.threads), call.batch, worthwhile});
  // Workers are made here: memory of this thread is reused from call to call, that of a helper is new every time.
  std::vector<decltype(make(longest))> workers;
  try {
    for (int64_t t = 0; t < threads; ++t)
      workers.push_back(make(longest));
  } catch (const std::bad_alloc &) {
    return report.add(PROBLEM_MEMORY, 0);
  }
  std::atomic<int64_t> next_worker{0}, next_sentence{0}, fallbacks{0};
  run_in_parallel(threads, [&]() {
    const int64_t mine = next_worker++;
    if (mine >= threads)
      return;
    try {
      for (int64_t b = next_sentence++; b < call.batch; b = next_sentence++)
        if (!body(*workers[mine], b, fallbacks))
          report_not_finite<T>(call, report, b);
    } catch (const std::bad_alloc &) {
      report.add(PROBLEM_MEMORY, 0);
    }
  });
  call.fallbacks = fallbacks;
  call.impossible = std::count(call.log_partition, call.log_partition + call.batch, NEVER);
}

template <class T, class Method> static void for_each_sum(Call &call, bool with_direction, Method method) {
  for_each_sentence<T>(
      call, [&](int64_t longest) { return std::make_unique<SumWorker<T>>(call, longest, with_direction); },
      [&](SumWorker<T> &worker, int64_t b, std::atomic<int64_t> &fallbacks) {
        const bool finite = (worker.*method)(b);
        fallbacks += finite && worker.in_logs();
        return finite;
      });
}

static void inside(Call &call) {
  call.is_double ? for_each_sum<double>(call, false, &SumWorker<double>::inside)
                 : for_each_sum<float>(call, false, &SumWorker<float>::inside);
}

static void marginals(Call &call) {
  call.is_double ? for_each_sum<double>(call, false, &SumWorker<double>::marginals)
                 : for_each_sum<float>(call, false, &SumWorker<float>::marginals);
}

static void slopes(Call &call) {
  call.is_double ? for_each_sum<double>(call, true, &SumWorker<double>::slopes)
                 : for_each_sum<float>(call, true, &SumWorker<float>::slopes);
}

template <class Worker, class T> static void for_each_tree(Call &call) {
  for_each_sentence<T>(
      call, [&](int64_t longest) { return std::make_unique<Worker>(call, longest); },
      [](Worker &worker, int64_t b, std::atomic<int64_t> &) { return worker.run(b); });
}

static void best_tree(Call &call) {
  call.is_double ? for_each_tree<BestTreeWorker<double>, double>(call)
                 : for_each_tree<BestTreeWorker<float>, float>(call);
}

static void normalize(Call &call) {
  call.is_double ? for_each_tree<NormalizeWorker<double>, double>(call)
                 : for_each_tree<NormalizeWorker<float>, float>(call);
}

static void sample(Call &call) {
  call.is_double ? for_each_tree<SampleWorker<double>, double>(call) : for_each_tree<SampleWorker<float>, float>(call);
}

static void best_trees(Call &call) {
  call.is_double ? for_each_tree<BestTreesWorker<double>, double>(call)
                 : for_each_tree<BestTreesWorker<float>, float>(call);
}
