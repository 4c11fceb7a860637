// Potential normalisation: each sentence's scores to mean 0 and variance 1, over its labelled spans that are not -inf.
// The sentence's factor goes to `log_partition`, `rejected_weight` is what is added to the variance.
template <class T> class NormalizeWorker {
public:
  NormalizeWorker(const Call &call, int64_t) : call_(call) {}

  bool run(int64_t b) {
    double sum = 0, squares = 0;
    int64_t entries = 0;
    visit(b, [&](T score, T &) {
      if (score != never)
        sum += score, ++entries;
    });
    const double count = static_cast<double>(std::max<int64_t>(1, entries)), mean = sum / count;
    visit(b, [&](T score, T &) {
      if (score != never)
        squares += (score - mean) * (score - mean);
    });
    const double scale = 1 / std::sqrt(squares / count + call_.rejected_weight);
    visit(b, [&](T score, T &out) { out = score == never ? never : static_cast<T>((score - mean) * scale); });
    call_.log_partition[b] = scale;
    return true;
  }

private:
  static constexpr T never = -std::numeric_limits<T>::infinity();

  // Every labelled span of a sentence, neighbours in memory one after the other.
  template <class Body> void visit(int64_t b, Body body) const {
    const Strides &from = call_.scores_at, &to = call_.out_at;
    const int64_t m = call_.lengths[b], labels = call_.labels;
    for (int64_t i = 0; i < m; ++i) {
      const T *in = static_cast<const T *>(call_.scores) + b * from.sentence + i * from.start;
      T *out = static_cast<T *>(call_.out) + b * to.sentence + i * to.start;
      if (from.label <= from.end) {
        for (int64_t j = i; j < m; ++j)
          for (int64_t k = 0; k < labels; ++k)
            body(in[j * from.end + k * from.label], out[j * to.end + k * to.label]);
      } else {
        for (int64_t k = 0; k < labels; ++k)
          for (int64_t j = i; j < m; ++j)
            body(in[j * from.end + k * from.label], out[j * to.end + k * to.label]);
      }
    }
  }

  const Call &call_;
};
