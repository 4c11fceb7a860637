// Sums over trees for one sentence at a time: log partition, marginals and their derivatives. A worker owns the
// scratch memory of one thread and never shares it, so a sentence's result depends on that sentence alone.

template <class T> class SumWorker {
public:
  SumWorker(Call &call, int64_t longest, bool with_direction)
      : call_(call), longest_(longest), with_direction_(with_direction), labels_(call, longest, with_direction),
        probability_(call.labels), cell_(call.labels) {
    const int needed = with_direction ? CHARTS : call.out ? 4 : 2;
    for (int c = 0; c < call.charts; ++c)
      for (int t = 0; t < needed; ++t)
        scratch_[c][t].resize(diagonals_size(longest));
  }

  // call.log_partition; and the charts, if call.state is there to keep them.
  bool inside(int64_t b) {
    start(b);
    double *state = state_of(b);
    Status status = labels_.load(b);
    for (int c = 0; c < call_.charts && status == Status::exact; ++c) {
      if (state)
        beta_[c] = Diagonals(state + c * diagonals_size(call_.n), m_);
      const double taken_out = labels_.weights_to(c, f_[c]);
      double &log_partition = call_.log_partition[c * call_.batch + b];
      if (!inside_scaled(beta_[c], f_[c], m_, log_partition))
        status = Status::lossy;
      log_partition += taken_out * static_cast<double>(2 * m_ - 1);
    }
    if (status == Status::not_finite)
      return false;
    in_logs_ = status == Status::lossy;
    if (in_logs_)
      inside_in_logs(b);
    if (state)
      state[call_.charts * diagonals_size(call_.n)] = in_logs_ ? 1 : 0;
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

  // Derivatives along call.direction: call.expectation = d log partition, and call.out (if there) = sum over charts of
  // weights * d marginals.
  bool slopes(int64_t b) {
    if (!inside(b))
      return false;
    for (int c = 0; c < call_.charts; ++c) {
      if (!in_logs_) {
        labels_.drifts_to(c, drift_[c]);
        inside_slopes(beta_[c], beta_slope_[c], f_[c], drift_[c], m_);
      }
      call_.expectation[c * call_.batch + b] = root_slope(c);
    }
    if (call_.out)
      outside(b);
    return true;
  }

  bool in_logs() const { return in_logs_; }
  const Diagonals &beta() const { return beta_[0]; }
  LogChart &log_chart() { return *log_charts_[0]; }

private:
  void start(int64_t b) {
    m_ = call_.lengths[b];
    for (int c = 0; c < call_.charts; ++c) {
      Diagonals *const charts[] = {&f_[c],     &beta_[c],       &pull_[c],       &marginal_[c],
                                   &drift_[c], &beta_slope_[c], &pull_slope_[c], &marginal_slope_[c]};
      for (int t = 0; t < CHARTS; ++t)
        *charts[t] = Diagonals(scratch_[c][t].data(), m_);
    }
  }

  double *state_of(int64_t b) const {
    return call_.state ? call_.state + b * (call_.charts * diagonals_size(call_.n) + 1) : nullptr;
  }
  bool possible(int c) const { return in_logs_ ? log_charts_[c]->beta.at(0, m_ - 1) != NEVER : beta_[c].root() != 0; }
  double count(int64_t b, int c) const { return possible(c) ? call_.weights[c * call_.batch + b] : 0.0; }
  // d log partition; 0 where no tree is possible.
  double root_slope(int c) const {
    if (!possible(c))
      return 0;
    if (in_logs_)
      return log_slopes_[c]->slope.at(0, m_ - 1);
    const double centred = beta_slope_[c].root() / beta_[c].root() * labels_.direction_scale();
    return centred + labels_.direction_center() * static_cast<double>(2 * m_ - 1);
  }

  void restore(int64_t b) {
    start(b);
    double *state = state_of(b);
    in_logs_ = state[call_.charts * diagonals_size(call_.n)] != 0;
    if (!in_logs_)
      labels_.load(b);
    for (int c = 0; c < call_.charts; ++c) {
      beta_[c] = Diagonals(state + c * diagonals_size(call_.n), m_);
      if (!in_logs_) {
        labels_.weights_to(c, f_[c]);
        continue;
      }
      start_logs(c);
      for (int64_t i = 0; i < m_; ++i) {
        weigh_in_logs(b, c, i);
        for (int64_t j = i; j < m_; ++j)
          log_charts_[c]->set(i, j, beta_[c].at(i, j));
      }
    }
  }

  void outside(int64_t b) {
    if (in_logs_)
      return outside_in_logs(b);
    double counts[MAX_CHARTS];
    for (int c = 0; c < call_.charts; ++c) {
      counts[c] = count(b, c) * labels_.direction_scale();
      if (counts[c] == 0)
        continue;
      if (with_direction_) {
        outside_slopes(beta_[c], beta_slope_[c], f_[c], drift_[c], pull_[c], pull_slope_[c], marginal_[c],
                       marginal_slope_[c], m_);
      } else {
        outside_scaled(beta_[c], f_[c], pull_[c], marginal_[c], m_);
      }
    }
    labels_.write(b, counts, with_direction_ ? marginal_slope_ : marginal_, with_direction_ ? marginal_ : nullptr);
  }

  void start_logs(int c) {
    if (!log_charts_[c]) {
      log_charts_[c] = std::make_unique<LogChart>(longest_);
      log_slopes_[c] = std::make_unique<LogSlopes>(longest_);
    }
    log_charts_[c]->start(m_);
    log_slopes_[c]->start(m_);
  }

  void weigh_in_logs(int64_t b, int c, int64_t i) {
    for (int64_t j = i; j < m_; ++j) {
      log_charts_[c]->x.at(i, j) = log_weight<T>(call_, c, b, i, j, probability_.data());
      if (!with_direction_)
        continue;
      double mean = 0;
      for (int64_t k = 0; k < call_.labels; ++k)
        mean += probability_[k] * direction_at<T>(call_, b, i, j, k);
      log_slopes_[c]->drift.at(i, j) = mean;
    }
  }

  void inside_in_logs(int64_t b) {
    for (int c = 0; c < call_.charts; ++c) {
      start_logs(c);
      LogChart &chart = *log_charts_[c];
      for (int64_t i = m_ - 1; i >= 0; --i) {
        weigh_in_logs(b, c, i);
        chart.inside_row(i);
        if (with_direction_)
          log_slopes_[c]->inside_row(chart, i);
        if (call_.state)
          for (int64_t j = i; j < m_; ++j)
            Diagonals(state_of(b) + c * diagonals_size(call_.n), m_).at(i, j) = chart.beta.at(i, j);
      }
      call_.log_partition[c * call_.batch + b] = chart.beta.at(0, m_ - 1);
    }
  }

  void outside_in_logs(int64_t b) {
    for (int c = 0; c < call_.charts; ++c)
      if (count(b, c) != 0)
        log_slopes_[c]->outside(*log_charts_[c], with_direction_);
    const Strides &at = call_.out_at;
    for (int64_t i = 0; i < call_.n; ++i)
      for (int64_t j = 0; j < call_.n; ++j) {
        std::fill(cell_.begin(), cell_.end(), 0.0);
        if (i <= j && j < m_)
          add_cell_in_logs(b, i, j);
        T *out = static_cast<T *>(call_.out) + b * at.sentence + i * at.start + j * at.end;
        for (int64_t k = 0; k < call_.labels; ++k)
          out[k * at.label] = static_cast<T>(cell_[k]);
      }
  }

  void add_cell_in_logs(int64_t b, int64_t i, int64_t j) {
    for (int c = 0; c < call_.charts; ++c) {
      if (count(b, c) == 0)
        continue;
      log_weight<T>(call_, c, b, i, j, probability_.data());
      const LogSlopes &of = *log_slopes_[c];
      const double mu = of.mu.at(i, j);
      for (int64_t k = 0; k < call_.labels; ++k) {
        double change = mu;
        if (with_direction_)
          change = of.mu_slope.at(i, j) + mu * (direction_at<T>(call_, b, i, j, k) - of.drift.at(i, j));
        cell_[k] += count(b, c) * probability_[k] * change;
      }
    }
  }

  static constexpr int CHARTS = 8;

  Call &call_;
  int64_t longest_, m_ = 0;
  bool with_direction_, in_logs_ = false;
  LabelChart<T> labels_;
  std::vector<double> scratch_[MAX_CHARTS][CHARTS];
  Diagonals f_[MAX_CHARTS], beta_[MAX_CHARTS], pull_[MAX_CHARTS], marginal_[MAX_CHARTS];
  Diagonals drift_[MAX_CHARTS], beta_slope_[MAX_CHARTS], pull_slope_[MAX_CHARTS], marginal_slope_[MAX_CHARTS];
  std::unique_ptr<LogChart> log_charts_[MAX_CHARTS];
  std::unique_ptr<LogSlopes> log_slopes_[MAX_CHARTS];
  std::vector<double> probability_, cell_;
};
