// How a sentence of m words lies in memory.

static inline int64_t triangle(int64_t m) { return m * (m + 1) / 2; }

// Upper triangle packed row by row: row i holds the cells (i, i) ... (i, m - 1). Labels are read and written in this
// order, which is the order of the tensors.
class Triangle {
public:
  Triangle() = default;
  Triangle(double *cells, int64_t m) : cells_(cells), m_(m) {}
  double *row(int64_t i) const { return cells_ + row_start(i, m_) - i; } // indexed by j
  double &at(int64_t i, int64_t j) const { return row(i)[j]; }
  static int64_t row_start(int64_t i, int64_t m) { return i * m - i * (i - 1) / 2; }

private:
  double *cells_ = nullptr;
  int64_t m_ = 0;
};

// The same cells packed by width: diagonal w holds the spans of w + 1 words, (0, w), (1, w + 1), ... All spans of one
// width are independent of each other, and the children of neighbouring spans are neighbours, so that a chart is
// filled with long vector operations. PAD zeros stand before, between and behind the diagonals: a vector may reach
// over the end of a diagonal and find zeros there.
constexpr int64_t PAD = 16;

static inline int64_t diagonals_size(int64_t m) { return triangle(m) + PAD * (m + 1); }

class Diagonals {
public:
  Diagonals() = default;
  Diagonals(double *cells, int64_t m) : cells_(cells), m_(m) {}
  double *of_width(int64_t w) const { return cells_ + PAD * (w + 1) + w * m_ - w * (w - 1) / 2; } // indexed by start
  int64_t to_wider(int64_t w) const { return PAD + m_ - w; } // from (i, i + w) to (i, i + w + 1)
  double *cells() const { return cells_; }
  double &at(int64_t i, int64_t j) const { return of_width(j - i)[i]; }
  double &root() const { return *of_width(m_ - 1); }
  void clear() const { std::fill_n(cells_, diagonals_size(m_), 0.0); }

private:
  double *cells_ = nullptr;
  int64_t m_ = 0;
};

// Four doubles, computed at once.
#if defined(__GNUC__)
typedef double Lanes __attribute__((vector_size(32)));
static inline Lanes load(const double *from) {
  Lanes x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
static inline void store(double *to, Lanes x) { std::memcpy(to, &x, sizeof x); }
static inline Lanes all(double x) { return Lanes{x, x, x, x}; }
static inline Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }
static inline Lanes smaller(Lanes a, Lanes b) { return a < b ? a : b; }
static inline Lanes one_where_zero(Lanes x) { return x == 0 ? all(1.0) : x; }
static inline Lanes zero_where_zero(Lanes x, Lanes where) { return where == 0 ? Lanes{} : x; }
#else
struct Lanes {
  double x[4] = {};
  Lanes &operator+=(const Lanes &o) {
    for (int t = 0; t < 4; ++t)
      x[t] += o.x[t];
    return *this;
  }
};
template <class F> static inline Lanes each(const Lanes &a, const Lanes &b, F f) {
  Lanes r;
  for (int t = 0; t < 4; ++t)
    r.x[t] = f(a.x[t], b.x[t]);
  return r;
}
static inline Lanes operator+(const Lanes &a, const Lanes &b) {
  return each(a, b, [](double p, double q) { return p + q; });
}
static inline Lanes operator-(const Lanes &a, const Lanes &b) {
  return each(a, b, [](double p, double q) { return p - q; });
}
static inline Lanes operator*(const Lanes &a, const Lanes &b) {
  return each(a, b, [](double p, double q) { return p * q; });
}
static inline Lanes larger(const Lanes &a, const Lanes &b) {
  return each(a, b, [](double p, double q) { return p > q ? p : q; });
}
static inline Lanes smaller(const Lanes &a, const Lanes &b) {
  return each(a, b, [](double p, double q) { return p < q ? p : q; });
}
static inline Lanes one_where_zero(const Lanes &a) {
  return each(a, a, [](double p, double) { return p == 0 ? 1.0 : p; });
}
static inline Lanes zero_where_zero(const Lanes &a, const Lanes &b) {
  return each(a, b, [](double p, double q) { return q == 0 ? 0 : p; });
}
static inline Lanes all(double x) { return Lanes{{x, x, x, x}}; }
static inline Lanes load(const double *from) {
  Lanes r;
  std::memcpy(r.x, from, sizeof r.x);
  return r;
}
static inline void store(double *to, const Lanes &r) { std::memcpy(to, r.x, sizeof r.x); }
#endif
constexpr int LANES = 4;

// Charts are filled in tiles: the spans of BLOCK neighbouring starts and TILE neighbouring widths at a time. What a
// tile loads serves several of its spans, and what a column of tiles reads stays in the nearest cache.
constexpr int64_t BLOCK = 2 * LANES;
constexpr int TILE = 4;
static_assert(BLOCK + TILE <= PAD, "vectors reach over the end of a diagonal");

template <int N> using Count = std::integral_constant<int, N>;

// Calls body(number of vectors) for `starts` neighbouring starts of a block.
template <class Body> static inline void with_vectors(int64_t starts, Body body) {
  starts > LANES ? body(Count<2>()) : body(Count<1>());
}

// Tiles from narrow to wide, as inside needs them: blocks of starts from right to left, widths upward.
// body(vectors, widths in the tile, lowest width, first start)
template <class Body> static inline void for_each_tile_upward(int64_t m, Body body) {
  for (int64_t first = (m - 1) / BLOCK * BLOCK; first >= 0; first -= BLOCK)
    for (int64_t w = 1; w < m - first;)
      with_vectors(m - w - first, [&](auto vectors) {
        const bool whole = w >= TILE - 1 && w + TILE <= m - first;
        whole ? body(vectors, Count<TILE>(), w, first) : body(vectors, Count<1>(), w, first);
        w += whole ? TILE : 1;
      });
}

// Tiles from wide to narrow, as outside needs them, without the root: blocks from left to right, widths downward.
// body(vectors, widths in the tile, highest width, first start)
template <class Body> static inline void for_each_tile_downward(int64_t m, Body body) {
  for (int64_t first = 0; first < m; first += BLOCK)
    for (int64_t w = std::min(m - 2, m - 1 - first); w >= 0;) {
      const bool whole = w >= TILE - 1;
      with_vectors(m - (whole ? w - TILE + 1 : w) - first, [&](auto vectors) {
        whole ? body(vectors, Count<TILE>(), w, first) : body(vectors, Count<1>(), w, first);
      });
      w -= whole ? TILE : 1;
    }
}

// The same orders with a single width at a time: body(vectors, width, first start).
template <class Body> static inline void for_each_upward(int64_t m, Body body) {
  for (int64_t first = (m - 1) / BLOCK * BLOCK; first >= 0; first -= BLOCK)
    for (int64_t w = 1; w < m - first; ++w)
      with_vectors(m - w - first, [&](auto vectors) { body(vectors, w, first); });
}
template <class Body> static inline void for_each_downward(int64_t m, Body body) {
  for (int64_t first = 0; first < m; first += BLOCK)
    for (int64_t w = std::min(m - 2, m - 1 - first); w >= 0; --w)
      with_vectors(m - w - first, [&](auto vectors) { body(vectors, w, first); });
}

// Fills a chart from its leaves upward. Algebra says what "sum", "product" and "nothing" are:
//   chart(i, j) = weight(i, j) x sum over splits of chart(i, split) x chart(split + 1, j)
// after(lowest width, number of widths, first start, number of starts) is called when a tile is done.
template <class Algebra, class After>
static inline void fill_upward(const Diagonals &chart, const Diagonals &weight, int64_t m, After after) {
  for_each_tile_upward(m, [&](auto vectors, auto widths, int64_t low, int64_t first) {
    constexpr int V = decltype(vectors)::value, Q = decltype(widths)::value;
    Lanes sum[Q][V];
    for (int q = 0; q < Q; ++q)
      for (int v = 0; v < V; ++v)
        sum[q][v] = Algebra::nothing();
    // One split for width low + q: the left child has width u.
    auto add = [&](int q, int64_t u) {
      const double *left = chart.of_width(u) + first, *right = chart.of_width(low + q - 1 - u) + first + u + 1;
      for (int v = 0; v < V; ++v)
        sum[q][v] = Algebra::add(sum[q][v], load(left + v * LANES), load(right + v * LANES));
    };
    // Splits whose children are narrower than the whole tile: first those that only some widths have, then the bulk,
    // where one left child serves all widths.
    for (int q = 0; q < Q; ++q)
      for (int64_t u = q; u < std::min<int64_t>(Q - 1, low); ++u)
        add(q, u);
    const double *left = chart.of_width(Q - 1) + first, *right[Q];
    for (int q = 0; q < Q; ++q)
      right[q] = chart.of_width(std::max<int64_t>(0, low + q - Q)) + first + Q;
    for (int64_t u = Q - 1; u < low; ++u) {
      for (int v = 0; v < V; ++v) {
        const Lanes l = load(left + v * LANES);
        for (int q = 0; q < Q; ++q)
          sum[q][v] = Algebra::add(sum[q][v], l, load(right[q] + v * LANES));
      }
      left += chart.to_wider(u);
      for (int q = 0; q < Q; ++q)
        right[q] += 1 - chart.to_wider(low + q - 2 - u);
    }
    // Splits with a child inside the tile, width by width.
    for (int q = 0; q < Q; ++q) {
      for (int64_t t = 0; t < q; ++t) {
        add(q, t);
        add(q, low + t);
      }
      for (int v = 0; v < V; ++v) {
        const int64_t at = first + v * LANES;
        store(chart.of_width(low + q) + at, Algebra::weigh(sum[q][v], load(weight.of_width(low + q) + at)));
      }
    }
    after(low, Q, first, V * LANES);
  });
}
