// exp for whole rows. Written so that the compiler turns each loop over it into vector instructions: libm's exp is
// exact to the last bit but is called one value at a time.
//
// exp_scaled(x) = 2^SCALE exp(x) for x <= 0, so that numbers far below 1 keep their digits: float32 reaches down to
// exp(-146) this way. Relative error about 1e-7 (float) and 1e-15 (double); exp_scaled(-inf) = 0, NaN stays NaN.

constexpr int SCALE = 86;
constexpr double LOG_2 = 0.69314718055994530942;

template <class T> struct ExpTraits;
template <> struct ExpTraits<float> {
  typedef int32_t Int;
  typedef uint32_t Unsigned;
  static constexpr int MANTISSA = 23, BIAS = 127, DEGREE = 7;
  static constexpr float LOW[2] = {-87.3f, -146.8f};
  static constexpr float MAGIC = 12582912.0f; // 1.5 * 2^23
  static constexpr float LN2_HIGH = 0.693359375f, LN2_LOW = -2.12194440e-4f;
};
template <> struct ExpTraits<double> {
  typedef int64_t Int;
  typedef uint64_t Unsigned;
  static constexpr int MANTISSA = 52, BIAS = 1023, DEGREE = 13;
  static constexpr double LOW[2] = {-708.0, -767.0};
  static constexpr double MAGIC = 6755399441055744.0; // 1.5 * 2^52
  static constexpr double LN2_HIGH = 6.93147180369123816490e-01, LN2_LOW = 1.90821492927058770002e-10;
};

// 1/13!, 1/12!, ... 1/0!
constexpr double TAYLOR[14] = {1.6059043836821613e-10,
                               2.0876756987868099e-09,
                               2.5052108385441720e-08,
                               2.7557319223985893e-07,
                               2.7557319223985888e-06,
                               2.4801587301587302e-05,
                               1.9841269841269841e-04,
                               1.3888888888888889e-03,
                               8.3333333333333332e-03,
                               4.1666666666666664e-02,
                               1.6666666666666666e-01,
                               0.5,
                               1.0,
                               1.0};

template <int SCALED_BY, class T> static inline T exp_of(T x) {
  typedef ExpTraits<T> Of;
  const T low = Of::LOW[SCALED_BY ? 1 : 0];
  const T y = x < low ? low : x;
  // Adding MAGIC rounds to the nearest integer and leaves it in the lowest bits of the mantissa.
  const T shifted = y * T(1.4426950408889634) + Of::MAGIC;
  const T whole = shifted - Of::MAGIC;
  T r = y - whole * Of::LN2_HIGH;
  r = r - whole * Of::LN2_LOW;
  T p = T(TAYLOR[13 - Of::DEGREE]);
  for (int t = 14 - Of::DEGREE; t < 14; ++t)
    p = p * r + T(TAYLOR[t]);
  typename Of::Int bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits =
      static_cast<typename Of::Int>((static_cast<typename Of::Unsigned>(bits) + Of::BIAS + SCALED_BY) << Of::MANTISSA);
  T scale;
  std::memcpy(&scale, &bits, sizeof scale);
  const T result = p * scale;
  return x < low ? T(0) : result;
}

template <class T> static inline T exp_scaled(T x) { return exp_of<SCALE>(x); }
template <class T> static inline T exp_plain(T x) { return exp_of<0>(x); }
