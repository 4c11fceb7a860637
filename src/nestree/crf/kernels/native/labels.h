// From label scores to span weights, and back from span gradients to label gradients.
//
// Potentials have no rule weights, so the labels of a span are summed before the chart sees them. A sentence is kept
// label by label ([label][cell], cells row by row): every loop below then runs along contiguous memory, and is long,
// whatever the input's layout and however short the sentence.

// Which labels a span may take, as three numbers: every entity label weighs `entity`, every latent label weighs
// `latent`, and the observed label (if any) weighs 1.
struct LabelWeights {
  double entity, latent;
};

static inline LabelWeights label_weights(const Call &call, int chart, int16_t code) {
  if (chart >= call.masked_charts)
    return {1.0, 1.0};
  if (code >= 0)
    return {call.other_weight, call.other_weight};
  if (code == LATENT)
    return {call.other_weight, 1.0};
  return {call.rejected_weight, call.rejected_weight};
}

static inline int16_t code_at(const Call &call, int64_t b, int64_t i, int64_t j) {
  return call.codes[(b * call.n + i) * call.n + j];
}

// The weight of label k for one chart: what the mask M[i, j, k] of the paper holds.
static inline double mask_at(const Call &call, int chart, int64_t b, int64_t i, int64_t j, int64_t k) {
  if (chart >= call.masked_charts)
    return 1.0;
  int16_t code = code_at(call, b, i, j);
  if (code == k)
    return 1.0;
  LabelWeights w = label_weights(call, chart, code);
  return k < call.entity_labels ? w.entity : w.latent;
}

template <class T> static inline T score_at(const Call &call, int64_t b, int64_t i, int64_t j, int64_t k) {
  const Strides &at = call.scores_at;
  return static_cast<const T *>(call.scores)[b * at.sentence + i * at.start + j * at.end + k * at.label];
}

// A direction is only ever multiplied by a probability; where a score is -inf the probability is 0, so what stands in
// the direction there must not matter, not even NaN.
template <class T> static inline T direction_at(const Call &call, int64_t b, int64_t i, int64_t j, int64_t k) {
  const Strides &at = call.direction_at;
  T v = static_cast<const T *>(call.direction)[b * at.sentence + i * at.start + j * at.end + k * at.label];
  return score_at<T>(call, b, i, j, k) == -std::numeric_limits<T>::infinity() ? T(0) : v;
}

template <class T> static bool span_is_possible(const Call &call, int chart, int64_t b, int64_t i, int64_t j) {
  for (int64_t k = 0; k < call.labels; ++k)
    if (mask_at(call, chart, b, i, j, k) > 0 && score_at<T>(call, b, i, j, k) > -std::numeric_limits<T>::infinity())
      return true;
  return false;
}

// Eight cells of eight labels, turned so that each label's cells are neighbours.
#if defined(__GNUC__)
typedef float Eight __attribute__((vector_size(32)));
#if defined(__clang__)
#define NESTREE_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t EightPlaces __attribute__((vector_size(32)));
#define NESTREE_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, EightPlaces{__VA_ARGS__})
#endif
static inline void transpose_8x8(const float *from, int64_t step, float *to, int64_t stride, int64_t labels) {
  Eight a[8], b[8];
  for (int t = 0; t < 8; ++t)
    std::memcpy(&a[t], from + t * step, sizeof a[t]);
  for (int t = 0; t < 8; t += 2) {
    b[t] = NESTREE_SHUFFLE(a[t], a[t + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    b[t + 1] = NESTREE_SHUFFLE(a[t], a[t + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int t = 0; t < 8; t += 4)
    for (int q = 0; q < 2; ++q) {
      a[t + q] = NESTREE_SHUFFLE(b[t + q], b[t + q + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      a[t + q + 2] = NESTREE_SHUFFLE(b[t + q], b[t + q + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int t = 0; t < 4; ++t) {
    b[t] = NESTREE_SHUFFLE(a[t], a[t + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    b[t + 4] = NESTREE_SHUFFLE(a[t], a[t + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int64_t k = 0; k < labels; ++k)
    std::memcpy(to + k * stride, &b[k], sizeof b[k]);
}
#undef NESTREE_SHUFFLE
#else
static inline void transpose_8x8(const float *from, int64_t step, float *to, int64_t stride, int64_t labels) {
  for (int64_t k = 0; k < labels; ++k)
    for (int64_t t = 0; t < 8; ++t)
      to[k * stride + t] = from[t * step + k];
}
#endif
static inline void transpose_8x8(const double *from, int64_t step, double *to, int64_t stride, int64_t labels) {
  for (int64_t k = 0; k < labels; ++k)
    for (int64_t t = 0; t < 8; ++t)
      to[k * stride + t] = from[t * step + k];
}

// `count` neighbouring cells of a row to [label][cell]. Blocks of eight; the last one overlaps the one before it.
template <class T>
static void gather_row(const T *row, int64_t count, const Strides &at, int64_t labels, T *to, int64_t stride) {
  if (at.label == 1 && count >= 8) {
    for (int64_t k = 0; k < labels; k += 8) {
      const int64_t some = std::min<int64_t>(8, labels - k);
      const int64_t last = count - 8, end_of_row = (count - 1) * at.end + labels;
      for (int64_t t = 0; t < last + 8; t += 8) {
        const int64_t cell = std::min(t, last);
        // A block reads eight labels per cell even if there are fewer: it must not read past the row.
        if ((cell + 7) * at.end + k + 8 <= end_of_row) {
          transpose_8x8(row + cell * at.end + k, at.end, to + k * stride + cell, stride, some);
        } else {
          for (int64_t q = k; q < k + some; ++q)
            for (int64_t c = cell; c < count; ++c)
              to[q * stride + c] = row[c * at.end + q];
        }
      }
    }
    return;
  }
  for (int64_t k = 0; k < labels; ++k)
    for (int64_t c = 0; c < count; ++c)
      to[k * stride + c] = row[c * at.end + k * at.label];
}

// The way back, to [cell][label] without gaps. Whole blocks of eight labels only: a block writes eight per cell.
template <class T> static void scatter_row(const T *from, int64_t stride, int64_t count, int64_t labels, T *row) {
  int64_t k = 0;
  for (; count >= 8 && k + 8 <= labels; k += 8)
    for (int64_t t = 0; t < count; t += 8) {
      const int64_t cell = std::min(t, count - 8);
      transpose_8x8(from + k * stride + cell, stride, row + cell * labels + k, labels, 8);
    }
  for (int64_t c = 0; c < count; ++c)
    for (int64_t q = k; q < labels; ++q)
      row[c * labels + q] = from[q * stride + c];
}

// A whole sentence to [label][cell], cells row by row.
template <class T>
static void gather_sentence(const T *from, const Strides &at, int64_t m, int64_t labels, T *to, int64_t stride) {
  for (int64_t i = 0, cell = 0; i < m; cell += m - i, ++i) {
    const T *row = from + i * (at.start + at.end);
#if defined(__GNUC__)
    if (at.label == 1 && i + 1 < m) { // the next row, while this one is turned: rows start on new pages
      const char *next = reinterpret_cast<const char *>(row + at.start + at.end);
      for (int64_t byte = 0; byte < (m - i - 1) * at.end * static_cast<int64_t>(sizeof(T)); byte += 64)
        __builtin_prefetch(next + byte);
    }
#endif
    gather_row(row, m - i, at, labels, to + cell, stride);
  }
}

constexpr int MAX_CHARTS = 2;

enum class Status {
  exact,
  lossy,     // some possible span's weight left the range that is computed exactly: use log space
  not_finite // NaN or +inf among the scores
};

template <class T> class LabelChart {
public:
  LabelChart(const Call &call, int64_t longest, bool with_direction)
      : call_(call), stride_(triangle(longest)), weights_(call.labels * stride_),
        directions_(with_direction ? call.labels * stride_ : 0) {
    for (auto &sum : sums_)
      sum.resize(stride_);
    for (auto &mix : mixes_)
      mix.resize(stride_);
    entity_weight_.resize(call.masked_charts ? stride_ : 0);
    latent_weight_.resize(call.masked_charts ? stride_ : 0);
    for (int c = 0; c < call.charts; ++c) {
      total_[c].resize(stride_);
      if (with_direction)
        drift_[c].resize(stride_);
    }
  }

  // Reads sentence b: exponentials of all its scores, summed per span for every chart.
  Status load(int64_t b) {
    m_ = call_.lengths[b];
    cells_ = triangle(m_);
    const T largest = gather(call_.scores, call_.scores_at, b, weights_.data());
    if (largest == std::numeric_limits<T>::infinity())
      return Status::not_finite;
    shift_ = largest == -std::numeric_limits<T>::infinity() ? T(0) : largest;
    for (auto &sum : sums_)
      std::fill_n(sum.data(), cells_, T(0));
    for (int64_t k = 0; k < call_.labels; ++k) {
      T *weight = weights_.data() + k * stride_;
      T *sum = sums_[k < call_.entity_labels ? 0 : 1].data();
      for (int64_t c = 0; c < cells_; ++c) {
        weight[c] = exp_scaled(weight[c] - shift_);
        sum[c] += weight[c];
      }
    }
    if (has_direction())
      load_direction(b);
    if (call_.masked_charts)
      load_codes(b);
    for (int c = 0; c < call_.charts; ++c) {
      add_up(c, sums_[0].data(), sums_[1].data(), total_[c].data(), false);
      const Status status = check(c, b);
      if (status != Status::exact)
        return status;
      if (!has_direction())
        continue;
      add_up(c, sums_[2].data(), sums_[3].data(), drift_[c].data(), true);
      for (int64_t cell = 0; cell < cells_; ++cell)
        drift_[c][cell] = total_[c][cell] > 0 ? drift_[c][cell] / total_[c][cell] : T(0);
    }
    return Status::exact;
  }

  // The spans' weights, sum over labels of mask * exp(score), scaled so that their mean is about 1. Returns
  // the logarithm of what was taken out of each.
  double weights_to(int c, const Diagonals &f) const {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t cell = 0; cell < cells_; ++cell)
      sum += total_[c][cell];
    const int exponent = sum > 0 ? std::ilogb(sum / static_cast<double>(cells_)) : 0;
    to_diagonals(total_[c].data(), f, std::ldexp(1.0, -exponent));
    return shift_ + (exponent - SCALE) * LOG_2;
  }
  // The direction that is used is (direction - center) / scale.
  double direction_scale() const { return direction_scale_; }
  double direction_center() const { return direction_center_; }
  // d log weight along it.
  void drifts_to(int c, const Diagonals &drift) const { to_diagonals(drift_[c].data(), drift, 1.0); }

  // Turns span gradients into label gradients and writes call.out for sentence b. Overwrites what load() read.
  //   out[i, j, k] = sum over charts of p(k | i, j) count[c] (slope[c] + tilt[c] (direction[i, j, k] - mean direction))
  // Without a direction `tilt` is null and `slope` the marginal; else `slope` is its derivative, `tilt` the marginal.
  void write(int64_t b, const double *count, const Diagonals *slope, const Diagonals *tilt) {
    for (auto &mix : mixes_)
      std::fill_n(mix.data(), cells_, T(0));
    // Counts of any size: the largest is multiplied in last, where it can only do what the result asks for.
    double largest = 0;
    for (int c = 0; c < call_.charts; ++c)
      largest = std::max(largest, std::abs(count[c]));
    for (int c = 0; c < call_.charts; ++c) {
      if (count[c] == 0)
        continue;
      T *share = sums_[0].data(), *lean = sums_[1].data();
      const double share_of_largest = count[c] / largest;
      from_diagonals(slope[c], share_of_largest, share);
      const T *total = total_[c].data();
      if (tilt) {
        from_diagonals(tilt[c], share_of_largest, lean);
        const T *drift = drift_[c].data();
        for (int64_t cell = 0; cell < cells_; ++cell)
          share[cell] -= lean[cell] * drift[cell];
        for (int64_t cell = 0; cell < cells_; ++cell)
          lean[cell] = total[cell] > 0 ? lean[cell] / total[cell] : T(0);
      }
      for (int64_t cell = 0; cell < cells_; ++cell)
        share[cell] = total[cell] > 0 ? share[cell] / total[cell] : T(0);
      spread(c, share, mixes_[0].data(), mixes_[1].data());
      if (tilt)
        spread(c, lean, mixes_[2].data(), mixes_[3].data());
      if (c < call_.masked_charts)
        for (Observed &o : observed_) {
          T extra = share[o.cell];
          if (tilt)
            extra += lean[o.cell] * directions_[o.label * stride_ + o.cell];
          o.extra = (T(1) - entity_weight_[o.cell]) * extra * weights_[o.label * stride_ + o.cell];
        }
    }
    const T last = static_cast<T>(largest);
    for (int64_t k = 0; k < call_.labels; ++k) {
      T *weight = weights_.data() + k * stride_;
      const int which = k < call_.entity_labels ? 0 : 1;
      const T *share = mixes_[which].data(), *lean = mixes_[2 + which].data();
      if (!tilt) {
        for (int64_t c = 0; c < cells_; ++c)
          weight[c] = weight[c] * share[c] * last;
      } else {
        const T *along = directions_.data() + k * stride_;
        for (int64_t c = 0; c < cells_; ++c)
          weight[c] = weight[c] * (share[c] + along[c] * lean[c]) * last;
      }
    }
    if (call_.masked_charts && count[0] != 0)
      for (const Observed &o : observed_)
        weights_[o.label * stride_ + o.cell] += o.extra * last;
    scatter(b);
  }

private:
  struct Observed {
    int64_t cell, label;
    T extra;
  };

  bool has_direction() const { return !directions_.empty(); }

  // f(cell in row order, place among the diagonals)
  template <class F> void for_each_cell(F f) const {
    int64_t cell = 0;
    for (int64_t i = 0; i < m_; ++i)
      for (int64_t w = 0, place = PAD + i; w < m_ - i; place += PAD + m_ - w, ++w)
        f(cell++, place);
  }

  void to_diagonals(const T *from, const Diagonals &to, double scale) const {
    to.clear();
    for_each_cell([&](int64_t cell, int64_t place) { to.cells()[place] = from[cell] * scale; });
  }

  void from_diagonals(const Diagonals &from, double scale, T *to) const {
    for_each_cell([&](int64_t cell, int64_t place) { to[cell] = static_cast<T>(from.cells()[place] * scale); });
  }

  // Copies a sentence into [label][cell] and returns the largest number seen.
  T gather(const void *from, const Strides &at, int64_t b, T *to) const {
    gather_sentence(static_cast<const T *>(from) + b * at.sentence, at, m_, call_.labels, to, stride_);
    T largest = -std::numeric_limits<T>::infinity();
    for (int64_t k = 0; k < call_.labels; ++k) {
      const T *label = to + k * stride_;
#pragma omp simd reduction(max : largest)
      for (int64_t c = 0; c < cells_; ++c)
        largest = label[c] > largest ? label[c] : largest;
    }
    return largest;
  }

  void scatter(int64_t b) const {
    const Strides &at = call_.out_at;
    const int64_t n = call_.n, labels = call_.labels;
    const bool packed = at.label == 1 && at.end == labels;
    int64_t cell = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t first = i < m_ ? i : n, last = i < m_ ? m_ : n; // cells outside [first, last) are no spans
      T *row = static_cast<T *>(call_.out) + b * at.sentence + i * at.start;
      if (packed) {
        std::fill(row, row + first * labels, T(0));
        scatter_row(weights_.data() + cell, stride_, last - first, labels, row + first * labels);
        cell += last - first;
        std::fill(row + last * labels, row + n * labels, T(0));
        continue;
      }
      for (int64_t k = 0; k < labels; ++k) {
        T *label = row + k * at.label;
        for (int64_t j = 0; j < first; ++j)
          label[j * at.end] = T(0);
        for (int64_t j = first; j < last; ++j)
          label[j * at.end] = weights_[k * stride_ + cell + j - first];
        for (int64_t j = last; j < n; ++j)
          label[j * at.end] = T(0);
      }
      cell += last - first;
    }
  }

  // Derivatives are linear in the direction, and a constant on every node changes none, as all trees of a sentence have
  // as many nodes. So the direction is centred and scaled to about 1: no digits are lost to a common offset, and its
  // products with weights stay in range.
  void load_direction(int64_t b) {
    gather(call_.direction, call_.direction_at, b, directions_.data());
    T largest = -std::numeric_limits<T>::max(), smallest = std::numeric_limits<T>::max();
    for (int64_t k = 0; k < call_.labels; ++k) {
      const T *weight = weights_.data() + k * stride_;
      T *along = directions_.data() + k * stride_;
#pragma omp simd reduction(max : largest) reduction(min : smallest)
      for (int64_t c = 0; c < cells_; ++c) {
        const T high = weight[c] == 0 ? -std::numeric_limits<T>::max() : along[c];
        const T low = weight[c] == 0 ? std::numeric_limits<T>::max() : along[c];
        largest = high > largest ? high : largest;
        smallest = low < smallest ? low : smallest;
      }
    }
    direction_center_ = largest >= smallest ? T(0.5) * largest + T(0.5) * smallest : T(0);
    const T reach = largest >= smallest ? T(0.5) * largest - T(0.5) * smallest : T(0);
    direction_scale_ = reach > 0 ? std::ldexp(1.0, std::ilogb(reach)) : 1.0;
    const T center = direction_center_, unscale = static_cast<T>(1 / direction_scale_);
    for (int64_t k = 0; k < call_.labels; ++k) {
      const T *weight = weights_.data() + k * stride_;
      T *along = directions_.data() + k * stride_;
      T *sum = sums_[k < call_.entity_labels ? 2 : 3].data();
      for (int64_t c = 0; c < cells_; ++c) {
        along[c] = weight[c] == 0 ? T(0) : (along[c] - center) * unscale;
        sum[c] += weight[c] * along[c];
      }
    }
  }

  void load_codes(int64_t b) {
    const T rejected = static_cast<T>(call_.rejected_weight), other = static_cast<T>(call_.other_weight);
    observed_.clear();
    for (int64_t i = 0, cell = 0; i < m_; cell += m_ - i, ++i) {
      const int16_t *codes = call_.codes + (b * call_.n + i) * call_.n + i;
      T *entity = entity_weight_.data() + cell, *latent = latent_weight_.data() + cell;
      int observed = 0;
      for (int64_t w = 0; w < m_ - i; ++w) {
        entity[w] = codes[w] == REJECTED ? rejected : other;
        latent[w] = codes[w] == LATENT ? T(1) : entity[w];
        observed |= codes[w] >= 0;
      }
      for (int64_t w = 0; observed && w < m_ - i; ++w)
        if (codes[w] >= 0)
          observed_.push_back({cell + w, codes[w], T(0)});
    }
  }

  // From sums over entity labels and over latent labels to sums under a chart's mask.
  void add_up(int c, const T *entity, const T *latent, T *sum, bool along) const {
    if (c >= call_.masked_charts) {
      for (int64_t cell = 0; cell < cells_; ++cell)
        sum[cell] = entity[cell] + latent[cell];
      return;
    }
    for (int64_t cell = 0; cell < cells_; ++cell)
      sum[cell] = entity_weight_[cell] * entity[cell] + latent_weight_[cell] * latent[cell];
    for (const Observed &o : observed_) {
      T weight = (T(1) - entity_weight_[o.cell]) * weights_[o.label * stride_ + o.cell];
      sum[o.cell] += along ? weight * directions_[o.label * stride_ + o.cell] : weight;
    }
  }

  // The other way: what a chart's share of a span means for its entity labels and its latent labels.
  void spread(int c, const T *share, T *entity, T *latent) const {
    if (c >= call_.masked_charts) {
      for (int64_t cell = 0; cell < cells_; ++cell)
        entity[cell] += share[cell];
      for (int64_t cell = 0; cell < cells_; ++cell)
        latent[cell] += share[cell];
      return;
    }
    for (int64_t cell = 0; cell < cells_; ++cell)
      entity[cell] += share[cell] * entity_weight_[cell];
    for (int64_t cell = 0; cell < cells_; ++cell)
      latent[cell] += share[cell] * latent_weight_[cell];
  }

  // Below `faint` a sum of exponentials has lost digits, or vanished, while its span is still possible. The limit lies
  // far enough above the smallest float32 that labels which vanish beside it do not count, and far enough from 0 that a
  // gradient divided by it stays finite.
  Status check(int c, int64_t b) const {
    const T faint = T(1e-28);
    const T *total = total_[c].data();
    int suspicious = 0;
    for (int64_t cell = 0; cell < cells_; ++cell)
      suspicious |= !(total[cell] > faint);
    if (!suspicious)
      return Status::exact;
    Status status = Status::exact;
    for (int64_t i = 0, cell = 0; i < m_; ++i)
      for (int64_t j = i; j < m_; ++j, ++cell) {
        if (total[cell] > faint)
          continue;
        if (total[cell] != total[cell])
          return Status::not_finite;
        if (status == Status::exact && span_is_possible<T>(call_, c, b, i, j))
          status = Status::lossy;
      }
    return status;
  }

  const Call &call_;
  int64_t stride_, m_ = 0, cells_ = 0;
  T shift_ = 0, direction_center_ = 0;
  double direction_scale_ = 1;
  std::vector<T> weights_, directions_; // [label][cell]; weights are 2^SCALE exp(score - shift_)
  std::vector<T> sums_[4], mixes_[4];
  std::vector<T> entity_weight_, latent_weight_; // of the masked chart
  std::vector<T> total_[MAX_CHARTS], drift_[MAX_CHARTS];
  std::vector<Observed> observed_;
};
