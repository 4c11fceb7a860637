// Sums over trees for one sentence at a time: log partition, marginals and their derivatives. A worker owns the
// scratch memory of one thread and never shares it, so a sentence's result depends on that sentence alone.

template <class T> class SumWorker {
public:
  SumWorker(Call &call, int64_t longest, bool with_direction)
      : call_(call), longest_(longest), with_direction_(with_direction), labels_(call, longest, with_direction),
        probability_(call.labels) {
    for (int c = 0; c < call.charts; ++c) {
      for (auto *cells : {&beta_[c], &alpha_[c]}) cells->resize(triangle(longest));
      if (with_direction)
        for (auto *cells : {&beta_slope_[c], &alpha_slope_[c]}) cells->resize(triangle(longest));
      for (auto *row : {&pull_[c], &pull_slope_[c], &slope_[c], &tilt_[c]}) row->resize(longest);
      slopes_at_[c] = slope_[c].data();
      tilts_at_[c] = tilt_[c].data();
    }
  }

  bool inside(int64_t b) {
    const int64_t m = call_.lengths[b];
    double *state = state_of(b);
    for (int c = 0; c < call_.charts; ++c)
      beta_at_[c] = Triangle(state ? state + c * triangle(call_.n) : beta_[c].data(), m);
    RowStatus status = inside_scaled(b, m);
    if (status == RowStatus::not_finite) return false;
    if (status == RowStatus::lossy) inside_in_logs(b, m);
    if (state) state[call_.charts * triangle(call_.n)] = in_logs_ ? 1 : 0;
    return true;
  }

  // call.out = sum over charts of weights * marginals.
  bool marginals(int64_t b) {
    if (call_.state) {
      restore(b);
    } else if (!inside(b)) {
      return false;
    }
    outside(b);
    return true;
  }

  // Derivatives along call.direction: expectation = d log partition; call.out = sum over charts of weights * d marginals.
  bool slopes(int64_t b) {
    if (!inside(b)) return false;
    for (int c = 0; c < call_.charts; ++c) call_.expectation[c * call_.batch + b] = root_slope(c);
    if (call_.out) outside(b);
    return true;
  }

  bool in_logs() const { return in_logs_; }
  const Triangle &beta() const { return beta_at_[0]; }
  LogChart &log_chart() { return *log_charts_[0]; }

private:
  double *state_of(int64_t b) const {
    return call_.state ? call_.state + b * (call_.charts * triangle(call_.n) + 1) : nullptr;
  }
  Triangle slope_at(int c) { return Triangle(beta_slope_[c].data(), call_.lengths[current_]); }
  int64_t last() const { return call_.lengths[current_] - 1; }
  bool possible(int c) const {
    return in_logs_ ? log_charts_[c]->beta.at(0, last()) != NEVER : beta_at_[c].at(0, last()) != 0;
  }
  // d log partition; 0 where no tree is possible.
  double root_slope(int c) {
    if (!possible(c)) return 0;
    return in_logs_ ? log_slopes_[c]->slope.at(0, last()) : slope_at(c).at(0, last()) / beta_at_[c].at(0, last());
  }

  RowStatus inside_scaled(int64_t b, int64_t m) {
    current_ = b;
    in_logs_ = false;
    int64_t exponent[MAX_CHARTS] = {}, exponents[MAX_CHARTS] = {};
    RowStatus status = RowStatus::exact;
    for (int64_t i = m - 1; i >= 0; --i) {
      RowStatus of_row = labels_.load(b, i, m);
      if (of_row == RowStatus::not_finite) return of_row;
      if (of_row == RowStatus::lossy) status = of_row;
      if (status == RowStatus::lossy) continue; // only looking for NaN any more
      for (int c = 0; c < call_.charts; ++c) {
        if (!inside_row(beta_at_[c], labels_.f[c], i, m, exponent[c])) status = RowStatus::lossy;
        exponents[c] += exponent[c];
        if (with_direction_) inside_row_slope(beta_at_[c], slope_at(c), labels_.f[c], labels_.drift[c], i, m);
      }
    }
    if (status == RowStatus::lossy) return status;
    for (int c = 0; c < call_.charts; ++c)
      call_.log_partition[c * call_.batch + b] =
          std::log(beta_at_[c].at(0, m - 1)) + static_cast<double>(exponents[c]) * 0.69314718055994530942;
    return RowStatus::exact;
  }

  void inside_in_logs(int64_t b, int64_t m) {
    in_logs_ = true;
    for (int c = 0; c < call_.charts; ++c) {
      start_logs(c, m);
      LogChart &chart = *log_charts_[c];
      for (int64_t i = m - 1; i >= 0; --i) {
        weigh_in_logs(b, c, i, m);
        chart.inside_row(i);
        if (with_direction_) log_slopes_[c]->inside_row(chart, i);
      }
      if (call_.state) std::copy_n(chart.beta.row(0), triangle(m), beta_at_[c].row(0));
      call_.log_partition[c * call_.batch + b] = chart.beta.at(0, m - 1);
    }
  }

  void start_logs(int c, int64_t m) {
    if (!log_charts_[c]) {
      log_charts_[c] = std::make_unique<LogChart>(longest_);
      log_slopes_[c] = std::make_unique<LogSlopes>(longest_);
    }
    log_charts_[c]->start(m);
    log_slopes_[c]->start(m);
  }

  void weigh_in_logs(int64_t b, int c, int64_t i, int64_t m) {
    for (int64_t j = i; j < m; ++j) {
      log_charts_[c]->x.at(i, j) = log_weight<T>(call_, c, b, i, j, probability_.data());
      if (with_direction_) log_slopes_[c]->drift.at(i, j) = mean_direction(b, i, j);
    }
  }

  double mean_direction(int64_t b, int64_t i, int64_t j) const {
    double mean = 0;
    for (int64_t k = 0; k < call_.labels; ++k) mean += probability_[k] * direction_at<T>(call_, b, i, j, k);
    return mean;
  }

  void restore(int64_t b) {
    current_ = b;
    const int64_t m = call_.lengths[b];
    double *state = state_of(b);
    in_logs_ = state[call_.charts * triangle(call_.n)] != 0;
    for (int c = 0; c < call_.charts; ++c) {
      beta_at_[c] = Triangle(state + c * triangle(call_.n), m);
      if (!in_logs_) continue;
      start_logs(c, m);
      LogChart &chart = *log_charts_[c];
      std::copy_n(beta_at_[c].row(0), triangle(m), chart.beta.row(0));
      for (int64_t i = 0; i < m; ++i) {
        weigh_in_logs(b, c, i, m);
        for (int64_t j = i; j < m; ++j) chart.column(j)[i] = chart.beta.at(i, j);
      }
    }
  }

  void outside(int64_t b) {
    const int64_t m = call_.lengths[b];
    in_logs_ ? outside_in_logs(b, m) : outside_scaled(b, m);
    for (int64_t i = 0; i < call_.n; ++i) {
      clear_columns<T>(call_, b, i, 0, i < m ? i : call_.n);
      if (i < m) clear_columns<T>(call_, b, i, m, call_.n);
    }
  }

  double weight(int64_t b, int c) const { return possible(c) ? call_.weights[c * call_.batch + b] : 0.0; }

  void outside_scaled(int64_t b, int64_t m) {
    Triangle alpha[MAX_CHARTS], alpha_slope[MAX_CHARTS];
    double counts[MAX_CHARTS];
    for (int c = 0; c < call_.charts; ++c) {
      counts[c] = weight(b, c);
      std::fill_n(alpha_[c].begin(), triangle(m), 0.0);
      alpha[c] = Triangle(alpha_[c].data(), m);
      if (with_direction_) {
        std::fill_n(alpha_slope_[c].begin(), triangle(m), 0.0);
        alpha_slope[c] = Triangle(alpha_slope_[c].data(), m);
      }
      if (counts[c] == 0) continue;
      const double root = beta_at_[c].at(0, m - 1);
      alpha[c].at(0, m - 1) = 1 / root;
      if (with_direction_) alpha_slope[c].at(0, m - 1) = -(slope_at(c).at(0, m - 1) / root) / root;
    }
    for (int64_t i = 0; i < m; ++i) {
      labels_.load(b, i, m);
      for (int c = 0; c < call_.charts; ++c) {
        double *slope = slope_[c].data(), *tilt = tilt_[c].data();
        if (counts[c] == 0) {
          std::fill(slope + i, slope + m, 0.0);
          std::fill(tilt + i, tilt + m, 0.0);
          continue;
        }
        const double *beta = beta_at_[c].row(i), *a = alpha[c].row(i);
        if (!with_direction_) {
          outside_row(beta_at_[c], alpha[c], labels_.f[c], pull_[c].data(), i, m);
          for (int64_t j = i; j < m; ++j) slope[j] = counts[c] * (a[j] * beta[j]);
          continue;
        }
        outside_row_slope(beta_at_[c], alpha[c], slope_at(c), alpha_slope[c], labels_.f[c], labels_.drift[c],
                          pull_[c].data(), pull_slope_[c].data(), i, m);
        const double *beta_slope = slope_at(c).row(i), *a_slope = alpha_slope[c].row(i), *drift = labels_.drift[c];
        for (int64_t j = i; j < m; ++j) {
          tilt[j] = counts[c] * (a[j] * beta[j]);
          slope[j] = counts[c] * (a_slope[j] * beta[j] + a[j] * beta_slope[j]) - tilt[j] * drift[j];
        }
      }
      labels_.write(b, i, m, slopes_at_, with_direction_ ? tilts_at_ : nullptr);
    }
  }

  void outside_in_logs(int64_t b, int64_t m) {
    for (int c = 0; c < call_.charts; ++c)
      if (weight(b, c) != 0) log_slopes_[c]->outside(*log_charts_[c], with_direction_);
    const Strides &at = call_.out_at;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = i; j < m; ++j) {
        T *cell = static_cast<T *>(call_.out) + b * at.sentence + i * at.start + j * at.end;
        std::vector<double> &sum = cell_;
        sum.assign(call_.labels, 0.0);
        for (int c = 0; c < call_.charts; ++c) {
          const double count = weight(b, c);
          if (count == 0) continue;
          log_weight<T>(call_, c, b, i, j, probability_.data());
          const LogSlopes &of = *log_slopes_[c];
          for (int64_t k = 0; k < call_.labels; ++k) {
            double change = of.mu.at(i, j);
            if (with_direction_)
              change = of.mu_slope.at(i, j) + of.mu.at(i, j) * (direction_at<T>(call_, b, i, j, k) - of.drift.at(i, j));
            sum[k] += count * probability_[k] * change;
          }
        }
        for (int64_t k = 0; k < call_.labels; ++k) cell[k * at.label] = static_cast<T>(sum[k]);
      }
  }

  Call &call_;
  int64_t longest_, current_ = 0;
  bool with_direction_, in_logs_ = false;
  LabelRow<T> labels_;
  Triangle beta_at_[MAX_CHARTS];
  std::vector<double> beta_[MAX_CHARTS], alpha_[MAX_CHARTS], beta_slope_[MAX_CHARTS], alpha_slope_[MAX_CHARTS];
  std::vector<double> pull_[MAX_CHARTS], pull_slope_[MAX_CHARTS], slope_[MAX_CHARTS], tilt_[MAX_CHARTS];
  double *slopes_at_[MAX_CHARTS], *tilts_at_[MAX_CHARTS];
  std::unique_ptr<LogChart> log_charts_[MAX_CHARTS];
  std::unique_ptr<LogSlopes> log_slopes_[MAX_CHARTS];
  std::vector<double> probability_, cell_;
};
