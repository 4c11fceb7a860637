// Inside and outside with real numbers instead of logarithms: a product and a sum per split, no exp and no log.
//
// Range. Dividing the weight of every leaf i by 2^e[i] divides the inside value of (i, j) by 2^(e[i] + ... + e[j]) and
// changes nothing else, so the e[i] may be chosen freely. They start so that leaves weigh about 1; when wider spans'
// values drift away from 1, the same number is added to all e[i] (refit). Powers of two cost no digits. As long as
// every possible cell stays within [SMALLEST, LARGEST], no product of two cells and a weight leaves the range of a
// double, and the result is as exact as a double can be. A cell outside it makes the sentence start again in log space.

constexpr double SMALLEST = 0x1p-400;
constexpr double LARGEST = 0x1p+400;

struct SumProduct {
  static Lanes nothing() { return all(0.0); }
  static Lanes add(Lanes sum, Lanes left, Lanes right) { return sum + left * right; }
  static Lanes weigh(Lanes sum, Lanes weight) { return sum * weight; }
};

// Adds `drift` to every word's exponent. False when a cell leaves the range.
static bool refit(const Diagonals &beta, int64_t m, int64_t drift) {
  int lost = 0;
  for (int64_t w = 0; w < m; ++w) {
    const int64_t by = -drift * (w + 1);
    const double scale = std::ldexp(1.0, static_cast<int>(by));
    double *cells = beta.of_width(w);
    for (int64_t i = 0; i < m - w; ++i) {
      if (cells[i] == 0)
        continue;
      cells[i] *= scale;
      lost |= !(cells[i] >= SMALLEST && cells[i] <= LARGEST);
    }
  }
  return !lost;
}

// Inside for a whole sentence: log partition, or false when a cell left the range. A weight in f is 0 or within
// 2^-210 and 2^210 (labels.h sees to that), so that a sum of products in range, times a weight, cannot vanish.
static bool inside_scaled(const Diagonals &beta, const Diagonals &f, int64_t m, double &log_partition) {
  int64_t exponent = 0; // of two, over the whole sentence
  int64_t fitted = 0;   // the width at which the exponents were last fitted
  beta.clear();
  for (int64_t i = 0; i < m; ++i) {
    const double leaf = f.at(i, i);
    if (leaf == 0)
      continue;
    const int e = std::ilogb(leaf);
    beta.at(i, i) = std::ldexp(leaf, -e);
    exponent += e;
  }
  bool exact = true;
  fill_upward<SumProduct>(beta, f, m, [&](int64_t low, int widths, int64_t first, int starts) {
    Lanes high = all(0.0), low_end = all(1.0);
    for (int64_t w = low; w < low + widths; ++w)
      for (int i = 0; i < starts; i += LANES) {
        const Lanes cells = load(beta.of_width(w) + first + i);
        high = larger(cells, high);
        low_end = smaller(one_where_zero(cells), low_end);
      }
    double largest = 0, smallest = 1, each[2 * LANES];
    store(each, high);
    store(each + LANES, low_end);
    for (int t = 0; t < LANES; ++t) {
      largest = std::max(largest, each[t]);
      smallest = std::min(smallest, each[LANES + t]);
    }
    exact &= smallest >= SMALLEST && largest <= LARGEST;
    if (!exact || low <= fitted || largest == 0 || (largest > 0x1p-60 && largest < 0x1p+60))
      return;
    fitted = low + widths - 1;
    const int64_t drift = std::llround(static_cast<double>(std::ilogb(largest)) / static_cast<double>(fitted + 1));
    if (drift == 0)
      return;
    exact = refit(beta, m, drift);
    exponent += drift * m;
  });
  log_partition = std::log(beta.root()) + static_cast<double>(exponent) * LOG_2;
  return exact;
}

// The derivative of the inside chart along a direction; `drift` holds d log f. In the scale of `beta`.
static void inside_slopes(const Diagonals &beta, const Diagonals &slope, const Diagonals &f, const Diagonals &drift,
                          int64_t m) {
  slope.clear();
  for (int64_t i = 0; i < m; ++i)
    slope.at(i, i) = beta.at(i, i) * drift.at(i, i);
  for_each_upward(m, [&](auto vectors, int64_t w, int64_t first) {
    constexpr int V = decltype(vectors)::value;
    Lanes sum[V] = {};
    for (int64_t u = 0; u < w; ++u) {
      const double *left = beta.of_width(u) + first, *right = beta.of_width(w - 1 - u) + first + u + 1;
      const double *left_slope = slope.of_width(u) + first, *right_slope = slope.of_width(w - 1 - u) + first + u + 1;
      for (int v = 0; v < V; ++v) {
        const int64_t at = v * LANES;
        sum[v] += load(left_slope + at) * load(right + at) + load(left + at) * load(right_slope + at);
      }
    }
    for (int v = 0; v < V; ++v) {
      const int64_t at = first + v * LANES;
      store(slope.of_width(w) + at,
            sum[v] * load(f.of_width(w) + at) + load(beta.of_width(w) + at) * load(drift.of_width(w) + at));
    }
  });
}

// Outside: `marginal` gets the probability of each span, `pull` (scratch) the outside values times f. A span's parents
// reach further right, with a right sibling, or start further left, with a left sibling. Cells that no tree uses have
// beta = 0 and pull nothing.
static void outside_scaled(const Diagonals &beta, const Diagonals &f, const Diagonals &pull, const Diagonals &marginal,
                           int64_t m) {
  pull.clear();
  marginal.root() = 1;
  pull.root() = f.root() / beta.root();
  for_each_tile_downward(m, [&](auto vectors, auto widths, int64_t high, int64_t first) {
    constexpr int V = decltype(vectors)::value, Q = decltype(widths)::value;
    Lanes sum[Q][V] = {};
    // One parent for width high - q: it reaches d words further right, or left.
    auto add_right = [&](int q, int64_t d) {
      const double *parent = pull.of_width(high - q + d) + first,
                   *sibling = beta.of_width(d - 1) + first + high - q + 1;
      for (int v = 0; v < V; ++v)
        sum[q][v] += load(parent + v * LANES) * load(sibling + v * LANES);
    };
    auto add_left = [&](int q, int64_t d) {
      const double *parent = pull.of_width(high - q + d) + first - d, *sibling = beta.of_width(d - 1) + first - d;
      for (int v = 0; v < V; ++v)
        sum[q][v] += load(parent + v * LANES) * load(sibling + v * LANES);
    };
    // Parents wider than the whole tile, to the right: one parent serves all widths.
    const double *parent = pull.of_width(high + 1) + first, *sibling[Q];
    for (int q = 0; q < Q; ++q)
      sibling[q] = beta.of_width(q) + first + high - q + 1;
    for (int64_t wide = high + 1; wide < m - first; ++wide) {
      for (int v = 0; v < V; ++v) {
        const Lanes p = load(parent + v * LANES);
        for (int q = 0; q < Q; ++q)
          sum[q][v] += p * load(sibling[q] + v * LANES);
      }
      parent += pull.to_wider(wide);
      for (int q = 0; q < Q; ++q)
        sibling[q] += beta.to_wider(wide - high + q - 1);
    }
    // To the left: one sibling serves all widths. No parent is wider than the sentence or starts before it.
    const int64_t furthest = first + V * LANES - 1, common = std::min(furthest, m - 1 - high);
    for (int q = 0; q < Q; ++q) {
      for (int64_t d = q + 1; d <= std::min<int64_t>(Q - 1, common); ++d)
        add_left(q, d);
      for (int64_t d = std::max<int64_t>(common, q) + 1; d <= std::min(furthest, common + q); ++d)
        add_left(q, d);
    }
    const double *left_sibling = beta.of_width(Q - 1) + first - Q, *left_parent[Q];
    for (int q = 0; q < Q; ++q)
      left_parent[q] = pull.of_width(high - q + Q) + first - Q;
    for (int64_t d = Q; d <= common; ++d) {
      for (int v = 0; v < V; ++v) {
        const Lanes s = load(left_sibling + v * LANES);
        for (int q = 0; q < Q; ++q)
          sum[q][v] += s * load(left_parent[q] + v * LANES);
      }
      left_sibling += beta.to_wider(d - 1) - 1;
      for (int q = 0; q < Q; ++q)
        left_parent[q] += pull.to_wider(high - q + d) - 1;
    }
    // Parents inside the tile, width by width.
    for (int q = 0; q < Q; ++q) {
      for (int64_t d = 1; d <= q; ++d) {
        add_right(q, d);
        add_left(q, d);
      }
      for (int v = 0; v < V; ++v) {
        const int64_t w = high - q, at = first + v * LANES;
        const Lanes inner = load(beta.of_width(w) + at), outer = zero_where_zero(sum[q][v], inner);
        store(pull.of_width(w) + at, outer * load(f.of_width(w) + at));
        store(marginal.of_width(w) + at, outer * inner);
      }
    }
  });
}

// The same with the derivative of every quantity along a direction.
static void outside_slopes(const Diagonals &beta, const Diagonals &beta_slope, const Diagonals &f,
                           const Diagonals &drift, const Diagonals &pull, const Diagonals &pull_slope,
                           const Diagonals &marginal, const Diagonals &marginal_slope, int64_t m) {
  pull.clear();
  pull_slope.clear();
  marginal.root() = 1;
  marginal_slope.root() = 0;
  pull.root() = f.root() / beta.root();
  pull_slope.root() = pull.root() * (drift.root() - beta_slope.root() / beta.root());
  for_each_downward(m, [&](auto vectors, int64_t w, int64_t first) {
    constexpr int V = decltype(vectors)::value;
    Lanes sum[V] = {}, sum_slope[V] = {};
    auto add = [&](int64_t parents, int64_t parent, int64_t siblings, int64_t sibling) {
      const double *p = pull.of_width(parents) + parent, *p_slope = pull_slope.of_width(parents) + parent;
      const double *s = beta.of_width(siblings) + sibling, *s_slope = beta_slope.of_width(siblings) + sibling;
      for (int v = 0; v < V; ++v) {
        const int64_t at = v * LANES;
        sum[v] += load(p + at) * load(s + at);
        sum_slope[v] += load(p_slope + at) * load(s + at) + load(p + at) * load(s_slope + at);
      }
    };
    for (int64_t d = 1; d < m - w - first; ++d)
      add(w + d, first, d - 1, first + w + 1);
    const int64_t furthest = std::min<int64_t>(first + V * LANES, m - w) - 1;
    for (int64_t d = 1; d <= furthest; ++d)
      add(w + d, first - d, d - 1, first - d);
    for (int v = 0; v < V; ++v) {
      const int64_t at = first + v * LANES;
      const Lanes inner = load(beta.of_width(w) + at), weight = load(f.of_width(w) + at);
      const Lanes outer = zero_where_zero(sum[v], inner), outer_slope = zero_where_zero(sum_slope[v], inner);
      store(pull.of_width(w) + at, outer * weight);
      store(pull_slope.of_width(w) + at, (outer_slope + outer * load(drift.of_width(w) + at)) * weight);
      store(marginal.of_width(w) + at, outer * inner);
      store(marginal_slope.of_width(w) + at, outer_slope * inner + outer * load(beta_slope.of_width(w) + at));
    }
  });
}
