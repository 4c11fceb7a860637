// What Python hands over, in plain C: pointers, strides (in elements) and sizes.
// The struct is mirrored field by field in ../cpu.py.
#pragma once
#include <cstdint>

struct Strides {
  int64_t sentence, start, end, label;
};

// One small integer per span: an observed label id (>= 0), or one of these.
constexpr int16_t LATENT = -1;
constexpr int16_t REJECTED = -2;

// What a call may report back through Call::problem[0].
constexpr int64_t PROBLEM_NONE = 0;
constexpr int64_t PROBLEM_LENGTH = 1;     // problem[1] = sentence
constexpr int64_t PROBLEM_NOT_FINITE = 2; // problem[1..4] = sentence, start, end, label
constexpr int64_t PROBLEM_MEMORY = 3;
constexpr int64_t PROBLEM_CODE = 4; // problem[1..3] = sentence, start, end

// A call computes one chart (all trees, or the trees that a partial tree allows), or both at once.
// Charts are numbered: the masked one first, the plain one last.
struct Call {
  const void *scores; // [batch, n, n, label]
  Strides scores_at;
  const void *direction; // [batch, n, n, label] or null
  Strides direction_at;
  void *out; // [batch, n, n, label] or null
  Strides out_at;
  const int64_t *lengths; // [batch]
  const int16_t *codes;   // [batch, n, n], contiguous, or null
  const double *weights;  // [charts, batch]: what each chart's gradient counts
  const double *uniforms; // [draws, batch, 2 (2n - 1)]
  double *log_partition;  // [charts, batch]
  double *expectation;    // [charts, batch]
  double *state;          // [batch, charts * diagonals_size(n) + 1] or null
  int64_t *nodes;         // [draws, batch, n, n]
  int64_t batch, n, labels, entity_labels, charts, masked_charts, draws;
  double rejected_weight, other_weight;
  int32_t is_double, threads;
  int64_t fallbacks;  // how many sentences were computed in log space
  int64_t impossible; // how many sentences have no tree in the first chart
  int64_t problem[5];
};
