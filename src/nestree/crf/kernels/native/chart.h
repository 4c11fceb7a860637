// Upper triangles, packed row by row: row i holds the cells (i, i) ... (i, m - 1).

static inline int64_t triangle(int64_t m) { return m * (m + 1) / 2; }

class Triangle {
public:
  Triangle() = default;
  Triangle(double *cells, int64_t m) : cells_(cells), m_(m) {}
  double *row(int64_t i) const { return cells_ + i * m_ - i * (i - 1) / 2 - i; } // indexed by j
  double &at(int64_t i, int64_t j) const { return row(i)[j]; }

private:
  double *cells_ = nullptr;
  int64_t m_ = 0;
};
