// Inside and outside with logarithms, in double precision: what a sentence falls back to when its scores are too far
// apart for scaled.h. The largest term of every sum is taken out, so nothing can overflow or vanish; marginals are
// handed down from parent to children as probabilities, which never leave [0, 1].

static constexpr double NEVER = -std::numeric_limits<double>::infinity();

// log of the sum over labels of mask * exp(score) for one span, and optionally each label's probability.
template <class T>
static double log_weight(const Call &call, int chart, int64_t b, int64_t i, int64_t j, double *probability) {
  double largest = NEVER;
  for (int64_t k = 0; k < call.labels; ++k) {
    probability[k] = std::log(mask_at(call, chart, b, i, j, k)) + score_at<T>(call, b, i, j, k);
    if (probability[k] > largest)
      largest = probability[k];
  }
  if (largest == NEVER) {
    std::fill(probability, probability + call.labels, 0.0);
    return NEVER;
  }
  double sum = 0;
  for (int64_t k = 0; k < call.labels; ++k)
    sum += probability[k] = std::exp(probability[k] - largest);
  for (int64_t k = 0; k < call.labels; ++k)
    probability[k] /= sum;
  return largest + std::log(sum);
}

// One sentence, one chart. Cells are kept by row and, for the right children, by column: column j holds the spans
// that end at j, so that both children of a span lie contiguously along the split.
class LogChart {
public:
  explicit LogChart(int64_t longest)
      : x_(triangle(longest)), rows_(triangle(longest)), columns_(triangle(longest)), terms_(longest) {}

  void start(int64_t m) {
    m_ = m;
    x = Triangle(x_.data(), m);
    beta = Triangle(rows_.data(), m);
  }
  double *column(int64_t j) { return columns_.data() + j * (j + 1) / 2; } // indexed by start
  void set(int64_t i, int64_t j, double value) { beta.at(i, j) = column(j)[i] = value; }

  // Inside for row i, given the log weights x of the row.
  void inside_row(int64_t i) {
    for (int64_t j = i; j < m_; ++j) {
      double total = j == i ? 0.0 : sum_splits(i, j);
      double value = x.at(i, j) == NEVER || total == NEVER ? NEVER : x.at(i, j) + total;
      set(i, j, value);
    }
  }

  // The probability of each split of (i, j): index `split`, from i to j - 1. The terms are normalised by their own sum:
  // recovering it from beta - x would lose it beside an x of 1e20.
  const double *split_probabilities(int64_t i, int64_t j) {
    const double largest = add_children(i, j);
    double *terms = terms_.data(), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t split = i; split < j; ++split)
      sum += terms[split] = exp_plain(terms[split] - largest);
    for (int64_t split = i; split < j; ++split)
      terms[split] /= sum;
    return terms;
  }

  Triangle x, beta;

private:
  // Fills terms_ with the log weight of each split and returns the largest.
  double add_children(int64_t i, int64_t j) {
    const double *left = beta.row(i), *right = column(j);
    double *terms = terms_.data();
    double largest = NEVER;
#pragma omp simd reduction(max : largest)
    for (int64_t split = i; split < j; ++split) {
      terms[split] = left[split] + right[split + 1];
      largest = terms[split] > largest ? terms[split] : largest;
    }
    return largest;
  }

  double sum_splits(int64_t i, int64_t j) {
    const double largest = add_children(i, j);
    if (largest == NEVER)
      return NEVER;
    const double *terms = terms_.data();
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t split = i; split < j; ++split)
      sum += exp_plain(terms[split] - largest);
    return largest + std::log(sum);
  }

  int64_t m_ = 0;
  std::vector<double> x_, rows_, columns_, terms_;
};

// Derivatives along a direction, and the marginals with theirs, for a finished LogChart.
class LogSlopes {
public:
  explicit LogSlopes(int64_t longest)
      : drift_(triangle(longest)), rows_(triangle(longest)), columns_(triangle(longest)), mu_rows_(triangle(longest)),
        mu_columns_(triangle(longest)), mu_slope_rows_(triangle(longest)), mu_slope_columns_(triangle(longest)) {}

  void start(int64_t m) {
    m_ = m;
    drift = Triangle(drift_.data(), m);
    slope = Triangle(rows_.data(), m);
    mu = Triangle(mu_rows_.data(), m);
    mu_slope = Triangle(mu_slope_rows_.data(), m);
    std::fill(rows_.begin(), rows_.end(), 0.0);
    std::fill(columns_.begin(), columns_.end(), 0.0);
  }

  // slope = d log beta: a span's own drift and the mean over its splits of what its children add.
  void inside_row(LogChart &chart, int64_t i) {
    for (int64_t j = i; j < m_; ++j) {
      double value = 0;
      if (chart.beta.at(i, j) != NEVER) {
        value = drift.at(i, j);
        if (j > i) {
          const double *p = chart.split_probabilities(i, j);
          const double *left = slope.row(i), *right = column(j);
          for (int64_t split = i; split < j; ++split)
            value += p[split] * (left[split] + right[split + 1]);
        }
      }
      slope.at(i, j) = column(j)[i] = value;
    }
  }

  // Marginals of all spans; with_slopes: their derivatives too.
  void outside(LogChart &chart, bool with_slopes) {
    for (auto *cells : {&mu_rows_, &mu_columns_, &mu_slope_rows_, &mu_slope_columns_})
      std::fill(cells->begin(), cells->end(), 0.0);
    mu.at(0, m_ - 1) = 1;
    for (int64_t i = 0; i < m_; ++i)
      for (int64_t j = m_ - 1; j >= i; --j) {
        const double share = mu.at(i, j) += columns_of(mu_columns_, j)[i];
        const double share_slope = mu_slope.at(i, j) += columns_of(mu_slope_columns_, j)[i];
        if (j == i || (share == 0 && share_slope == 0))
          continue;
        const double *p = chart.split_probabilities(i, j);
        double *left = mu.row(i), *right = columns_of(mu_columns_, j);
        for (int64_t split = i; split < j; ++split) {
          left[split] += share * p[split];
          right[split + 1] += share * p[split];
        }
        if (!with_slopes)
          continue;
        const double mean = slope.at(i, j) - drift.at(i, j);
        const double *left_drift = slope.row(i), *right_drift = column(j);
        double *left_slope = mu_slope.row(i), *right_slope = columns_of(mu_slope_columns_, j);
        for (int64_t split = i; split < j; ++split) {
          double change = p[split] * (share_slope + share * (left_drift[split] + right_drift[split + 1] - mean));
          left_slope[split] += change;
          right_slope[split + 1] += change;
        }
      }
  }

  Triangle drift, slope, mu, mu_slope;

private:
  double *column(int64_t j) { return columns_of(columns_, j); }
  static double *columns_of(std::vector<double> &cells, int64_t j) { return cells.data() + j * (j + 1) / 2; }

  int64_t m_ = 0;
  std::vector<double> drift_, rows_, columns_, mu_rows_, mu_columns_, mu_slope_rows_, mu_slope_columns_;
};
