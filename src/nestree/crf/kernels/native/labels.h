// From label scores to span weights, one chart row at a time, and back from span gradients to label gradients.
//
// Potentials have no rule weights, so the labels of a span are summed before the chart sees them. Rows are kept
// label by label ([label][end]): every loop below then runs along contiguous memory whatever the input's layout.

// Which labels a span may take, as three numbers: every entity label weighs `entity`, every latent label weighs
// `latent`, and the observed label (if any) weighs 1.
struct LabelWeights {
  double entity, latent;
};

static inline LabelWeights label_weights(const Call &call, int chart, int16_t code) {
  if (chart >= call.masked_charts) return {1.0, 1.0};
  if (code >= 0) return {call.other_weight, call.other_weight};
  if (code == LATENT) return {call.other_weight, 1.0};
  return {call.rejected_weight, call.rejected_weight};
}

static inline int16_t code_at(const Call &call, int64_t b, int64_t i, int64_t j) {
  return call.codes[(b * call.n + i) * call.n + j];
}

// The weight of label k for one chart: what the mask M[i, j, k] of the paper holds.
static inline double mask_at(const Call &call, int chart, int64_t b, int64_t i, int64_t j, int64_t k) {
  if (chart >= call.masked_charts) return 1.0;
  int16_t code = code_at(call, b, i, j);
  if (code == k) return 1.0;
  LabelWeights w = label_weights(call, chart, code);
  return k < call.entity_labels ? w.entity : w.latent;
}

template <class T> static inline T score_at(const Call &call, int64_t b, int64_t i, int64_t j, int64_t k) {
  const Strides &at = call.scores_at;
  return static_cast<const T *>(call.scores)[b * at.sentence + i * at.start + j * at.end + k * at.label];
}

// A direction is only ever multiplied by a probability; where a score is -inf the probability is 0, so what stands
// there must not matter.
template <class T> static inline T direction_at(const Call &call, int64_t b, int64_t i, int64_t j, int64_t k) {
  const Strides &at = call.direction_at;
  T v = static_cast<const T *>(call.direction)[b * at.sentence + i * at.start + j * at.end + k * at.label];
  return std::isfinite(v) ? v : T(0);
}

template <class T> static bool span_is_possible(const Call &call, int chart, int64_t b, int64_t i, int64_t j) {
  for (int64_t k = 0; k < call.labels; ++k)
    if (mask_at(call, chart, b, i, j, k) > 0 && score_at<T>(call, b, i, j, k) > -std::numeric_limits<T>::infinity())
      return true;
  return false;
}

constexpr int MAX_CHARTS = 2;

enum class RowStatus {
  exact,
  lossy,     // some possible span's weight left the range that is computed exactly: use log space
  not_finite // NaN or +inf among the scores
};

template <class T> class LabelRow {
public:
  double *f[MAX_CHARTS];      // [end] the span's weight: sum over labels of mask * exp(score)
  double *drift[MAX_CHARTS];  // [end] d log f along the direction: the labels' mean direction

  LabelRow(const Call &call, int64_t longest, bool with_direction)
      : call_(call), width_(longest), scores_(call.labels * longest), directions_(with_direction ? call.labels * longest : 0) {
    for (int c = 0; c < call.charts; ++c) {
      for (auto *rows : {&entity_weight_, &latent_weight_, &total_}) rows[0][c].resize(longest);
      doubles_[c].resize(longest);
      f[c] = doubles_[c].data();
      drifts_[c].resize(with_direction ? longest : 0);
      drift[c] = drifts_[c].data();
    }
    for (auto &sums : sums_) sums.resize(longest);
    for (auto &row : coefficients_) row.resize(longest);
  }

  // Reads row i of sentence b (spans (i, j) for i <= j < m), at index j.
  RowStatus load(int64_t b, int64_t i, int64_t m) {
    gather(call_.scores, call_.scores_at, b, i, m, scores_.data());
    T largest = -std::numeric_limits<T>::infinity();
    for (int64_t k = 0; k < call_.labels; ++k) {
      const T *row = scores_.data() + k * width_;
#pragma omp simd reduction(max : largest)
      for (int64_t j = i; j < m; ++j) largest = row[j] > largest ? row[j] : largest;
    }
    if (largest == std::numeric_limits<T>::infinity()) return RowStatus::not_finite;
    shift_ = largest == -std::numeric_limits<T>::infinity() ? T(0) : largest;
    for (int64_t k = 0; k < call_.labels; ++k) {
      T *row = scores_.data() + k * width_;
      for (int64_t j = i; j < m; ++j) row[j] = exp_below_88(row[j] - shift_);
    }
    add_labels(i, m, scores_.data(), nullptr, sums_[0].data(), sums_[1].data());
    if (has_direction()) {
      gather(call_.direction, call_.direction_at, b, i, m, directions_.data());
      for (T &v : directions_) v = std::isfinite(v) ? v : T(0);
      add_labels(i, m, scores_.data(), directions_.data(), sums_[2].data(), sums_[3].data());
    }
    RowStatus status = RowStatus::exact;
    for (int c = 0; c < call_.charts; ++c) {
      RowStatus of_chart = weigh(c, b, i, m);
      if (of_chart > status) status = of_chart;
    }
    return status;
  }

  // Turns span gradients into label gradients and writes row i of call.out.
  //   out[i, j, k] = sum over charts of p(k | i, j) (slope[c][j] + tilt[c][j] direction[i, j, k])
  // `tilt` may be null. Overwrites what load() read.
  void write(int64_t b, int64_t i, int64_t m, double *const *slope, double *const *tilt) {
    T *for_entity = coefficients_[0].data(), *for_latent = coefficients_[1].data();
    T *tilt_entity = coefficients_[2].data(), *tilt_latent = coefficients_[3].data();
    mix(i, m, slope, for_entity, for_latent);
    if (tilt) mix(i, m, tilt, tilt_entity, tilt_latent);
    observed_.clear();
    if (call_.masked_charts)
      for (int64_t j = i; j < m; ++j) {
        int16_t code = code_at(call_, b, i, j);
        if (code < 0 || !(total_[0][j] > 0)) continue;
        int64_t at = code * width_ + j;
        T rest = (T(1) - entity_weight_[0][j]) / total_[0][j];
        T extra = static_cast<T>(slope[0][j]) * rest;
        if (tilt) extra += static_cast<T>(tilt[0][j]) * rest * directions_[at];
        observed_.push_back({at, scores_[at] * extra});
      }
    for (int64_t k = 0; k < call_.labels; ++k) {
      T *row = scores_.data() + k * width_;
      const T *base = k < call_.entity_labels ? for_entity : for_latent;
      if (!tilt) {
        for (int64_t j = i; j < m; ++j) row[j] *= base[j];
      } else {
        const T *along = directions_.data() + k * width_;
        const T *lean = k < call_.entity_labels ? tilt_entity : tilt_latent;
        for (int64_t j = i; j < m; ++j) row[j] *= base[j] + along[j] * lean[j];
      }
    }
    for (const auto &[at, value] : observed_) scores_[at] += value;
    scatter(b, i, m);
  }

private:
  struct Observed {
    int64_t at;
    T value;
  };

  bool has_direction() const { return !directions_.empty(); }

  void gather(const void *from, const Strides &at, int64_t b, int64_t i, int64_t m, T *to) const {
    const T *base = static_cast<const T *>(from) + b * at.sentence + i * at.start;
    for (int64_t k = 0; k < call_.labels; ++k) {
      const T *row = base + k * at.label;
      T *target = to + k * width_;
      if (at.end == 1) {
        std::memcpy(target + i, row + i, (m - i) * sizeof(T));
      } else {
        for (int64_t j = i; j < m; ++j) target[j] = row[j * at.end];
      }
    }
  }

  void scatter(int64_t b, int64_t i, int64_t m) const {
    const Strides &at = call_.out_at;
    T *base = static_cast<T *>(call_.out) + b * at.sentence + i * at.start;
    if (at.label == 1) {
      for (int64_t j = i; j < m; ++j) {
        T *cell = base + j * at.end;
        for (int64_t k = 0; k < call_.labels; ++k) cell[k] = scores_[k * width_ + j];
      }
      return;
    }
    for (int64_t k = 0; k < call_.labels; ++k) {
      const T *row = scores_.data() + k * width_;
      T *target = base + k * at.label;
      for (int64_t j = i; j < m; ++j) target[j * at.end] = row[j];
    }
  }

  // Sums over the entity labels and over the latent labels, of weights or of weights times a direction.
  void add_labels(int64_t i, int64_t m, const T *weights, const T *directions, T *entity, T *latent) const {
    std::fill(entity + i, entity + m, T(0));
    std::fill(latent + i, latent + m, T(0));
    for (int64_t k = 0; k < call_.labels; ++k) {
      const T *row = weights + k * width_;
      T *sum = k < call_.entity_labels ? entity : latent;
      if (directions) {
        const T *along = directions + k * width_;
        for (int64_t j = i; j < m; ++j) sum[j] += row[j] * along[j];
      } else {
        for (int64_t j = i; j < m; ++j) sum[j] += row[j];
      }
    }
  }

  RowStatus weigh(int c, int64_t b, int64_t i, int64_t m) {
    T *entity = entity_weight_[c].data(), *latent = latent_weight_[c].data(), *total = total_[c].data();
    const T *entity_sum = sums_[0].data(), *latent_sum = sums_[1].data();
    const bool masked = c < call_.masked_charts;
    for (int64_t j = i; j < m; ++j) {
      LabelWeights w = label_weights(call_, c, masked ? code_at(call_, b, i, j) : LATENT);
      entity[j] = static_cast<T>(w.entity);
      latent[j] = static_cast<T>(w.latent);
    }
    for (int64_t j = i; j < m; ++j) total[j] = entity[j] * entity_sum[j] + latent[j] * latent_sum[j];
    if (has_direction())
      for (int64_t j = i; j < m; ++j) drift[c][j] = entity[j] * sums_[2][j] + latent[j] * sums_[3][j];
    if (masked)
      for (int64_t j = i; j < m; ++j) {
        int16_t code = code_at(call_, b, i, j);
        if (code < 0) continue;
        T rest = (T(1) - entity[j]) * scores_[code * width_ + j];
        total[j] += rest;
        if (has_direction()) drift[c][j] += rest * directions_[code * width_ + j];
      }
    if (has_direction())
      for (int64_t j = i; j < m; ++j) drift[c][j] = total[j] > 0 ? drift[c][j] / total[j] : 0.0;
    const double unshift = std::exp(static_cast<double>(shift_));
    for (int64_t j = i; j < m; ++j) f[c][j] = total[j] * unshift;
    return check(c, b, i, m);
  }

  // Below `faint` a sum of exponentials has lost digits, or vanished, while its span is still possible.
  RowStatus check(int c, int64_t b, int64_t i, int64_t m) const {
    const T faint = sizeof(T) == 4 ? T(1e-36) : T(1e-290);
    const T *total = total_[c].data();
    RowStatus status = RowStatus::exact;
    for (int64_t j = i; j < m; ++j) {
      if (total[j] > faint) continue;
      if (total[j] != total[j]) return RowStatus::not_finite;
      bool empty_mask = entity_weight_[c][j] == 0 && latent_weight_[c][j] == 0 && code_at_or_rejected(c, b, i, j) < 0;
      if (!empty_mask && span_is_possible<T>(call_, c, b, i, j)) status = RowStatus::lossy;
    }
    return status;
  }

  int16_t code_at_or_rejected(int c, int64_t b, int64_t i, int64_t j) const {
    return c < call_.masked_charts ? code_at(call_, b, i, j) : REJECTED;
  }

  void mix(int64_t i, int64_t m, double *const *per_chart, T *entity, T *latent) const {
    std::fill(entity + i, entity + m, T(0));
    std::fill(latent + i, latent + m, T(0));
    for (int c = 0; c < call_.charts; ++c) {
      const T *total = total_[c].data(), *entity_weight = entity_weight_[c].data(), *latent_weight = latent_weight_[c].data();
      for (int64_t j = i; j < m; ++j) {
        T share = total[j] > 0 ? static_cast<T>(per_chart[c][j]) / total[j] : T(0);
        entity[j] += share * entity_weight[j];
        latent[j] += share * latent_weight[j];
      }
    }
  }

  const Call &call_;
  int64_t width_;
  T shift_ = 0;
  std::vector<T> scores_, directions_; // [label][end]; scores_ holds exp(score - shift_)
  std::vector<T> entity_weight_[MAX_CHARTS], latent_weight_[MAX_CHARTS], total_[MAX_CHARTS];
  std::vector<T> sums_[4], coefficients_[4];
  std::vector<double> doubles_[MAX_CHARTS], drifts_[MAX_CHARTS];
  std::vector<Observed> observed_;
};

// Everything of row i outside the columns [first, last) of call.out becomes 0.
template <class T> static void clear_columns(const Call &call, int64_t b, int64_t i, int64_t first, int64_t last) {
  const Strides &at = call.out_at;
  T *base = static_cast<T *>(call.out) + b * at.sentence + i * at.start;
  if (at.label == 1 && at.end == call.labels) {
    std::fill(base + first * at.end, base + last * at.end, T(0));
    return;
  }
  for (int64_t k = 0; k < call.labels; ++k)
    for (int64_t j = first; j < last; ++j) base[j * at.end + k * at.label] = T(0);
}
