// Inside and outside with real numbers instead of logarithms: a product and a sum per split, no exp and no log.
//
// Range. Multiplying the weight of every leaf i by 2^-e[i] multiplies the inside value of (i, j) by
// 2^-(e[i] + ... + e[j]) and changes nothing else, so e may be chosen freely. Row i is computed from right to left of
// the sentence, then e[i] is set so that the row's largest value is about 1; powers of two cost no digits. As long as
// every possible cell stays within [SMALLEST, LARGEST], no product of two cells leaves the range of a double, and the
// result is as exact as a double can be. A cell outside it makes the sentence start again in log space.

constexpr double SMALLEST = 0x1p-450;
constexpr double LARGEST = 0x1p+450;

static inline bool in_range(double x) { return x == 0 || (x >= SMALLEST && x <= LARGEST); }

// One row of the inside chart. On entry `f` holds the spans' weights and `exponent` the scale of the row below; on
// return `beta` holds row i and `exponent` its scale. False when a cell left the range.
static bool inside_row(const Triangle &beta, const double *f, int64_t i, int64_t m, int64_t &exponent) {
  double *row = beta.row(i);
  std::fill(row + i, row + m, 0.0);
  bool exact = true;
  row[i] = std::ldexp(f[i], static_cast<int>(-exponent));
  for (int64_t split = i; split + 1 < m; ++split) {
    const double left = row[split];
    if (left != 0) {
      const double *right = beta.row(split + 1);
      for (int64_t j = split + 1; j < m; ++j) row[j] += left * right[j];
    }
    exact &= in_range(row[split + 1]);
    row[split + 1] *= f[split + 1];
  }
  double largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t j = i; j < m; ++j) largest = row[j] > largest ? row[j] : largest;
  if (largest == 0) return exact && in_range(f[i]);
  if (!(largest <= LARGEST)) return false;
  const int shift = std::ilogb(largest);
  const double scale = std::ldexp(1.0, -shift);
  int out_of_range = 0;
  for (int64_t j = i; j < m; ++j) {
    const double scaled = row[j] * scale;
    out_of_range |= !in_range(f[j]) | !in_range(row[j]) | !in_range(scaled);
    row[j] = scaled;
  }
  exponent += shift;
  return exact && !out_of_range;
}

// The derivative of row i along a direction; `drift` holds d log f. `slope` gets the row, in the scale of `beta`.
static void inside_row_slope(const Triangle &beta, const Triangle &slope, const double *f, const double *drift,
                             int64_t i, int64_t m) {
  const double *row = beta.row(i);
  double *down = slope.row(i);
  std::fill(down + i, down + m, 0.0);
  down[i] = row[i] * drift[i];
  for (int64_t split = i; split + 1 < m; ++split) {
    const double left = row[split], left_slope = down[split];
    if (left != 0) {
      const double *right = beta.row(split + 1), *right_slope = slope.row(split + 1);
      for (int64_t j = split + 1; j < m; ++j) down[j] += left_slope * right[j] + left * right_slope[j];
    }
    down[split + 1] = down[split + 1] * f[split + 1] + row[split + 1] * drift[split + 1];
  }
}

// One row of the outside chart, rows from 0 upward. `alpha` (outside values, so that alpha * beta is the marginal)
// is complete for row i on return, and holds row i's share of the rows below. `pull` is scratch: alpha * f.
// Cells that no tree uses have beta = 0 and pull nothing.
static void outside_row(const Triangle &beta, const Triangle &alpha, const double *f, double *pull, int64_t i,
                        int64_t m) {
  const double *row = beta.row(i);
  double *out = alpha.row(i);
  for (int64_t split = m - 1; split >= i; --split) {
    const double left = row[split];
    if (left == 0) {
      pull[split] = 0;
      continue;
    }
    double sum = 0;
    if (split + 1 < m) {
      const double *right = beta.row(split + 1);
      double *right_out = alpha.row(split + 1);
#pragma omp simd reduction(+ : sum)
      for (int64_t j = split + 1; j < m; ++j) {
        sum += pull[j] * right[j];
        right_out[j] += pull[j] * left;
      }
    }
    out[split] += sum;
    pull[split] = out[split] * f[split];
  }
}

// The same with the derivative of every quantity along a direction.
static void outside_row_slope(const Triangle &beta, const Triangle &alpha, const Triangle &beta_slope,
                              const Triangle &alpha_slope, const double *f, const double *drift, double *pull,
                              double *pull_slope, int64_t i, int64_t m) {
  const double *row = beta.row(i), *row_slope = beta_slope.row(i);
  double *out = alpha.row(i), *out_slope = alpha_slope.row(i);
  for (int64_t split = m - 1; split >= i; --split) {
    const double left = row[split], left_slope = row_slope[split];
    if (left == 0) {
      pull[split] = pull_slope[split] = 0;
      continue;
    }
    double sum = 0, sum_slope = 0;
    if (split + 1 < m) {
      const double *right = beta.row(split + 1), *right_slope = beta_slope.row(split + 1);
      double *right_out = alpha.row(split + 1), *right_out_slope = alpha_slope.row(split + 1);
#pragma omp simd reduction(+ : sum, sum_slope)
      for (int64_t j = split + 1; j < m; ++j) {
        sum += pull[j] * right[j];
        sum_slope += pull_slope[j] * right[j] + pull[j] * right_slope[j];
        right_out[j] += pull[j] * left;
        right_out_slope[j] += pull_slope[j] * left + pull[j] * left_slope;
      }
    }
    out[split] += sum;
    out_slope[split] += sum_slope;
    pull[split] = out[split] * f[split];
    pull_slope[split] = (out_slope[split] + out[split] * drift[split]) * f[split];
  }
}
