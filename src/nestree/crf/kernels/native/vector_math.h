// exp for whole rows. Written so that the compiler turns each loop over it into vector instructions:
// libm's exp is exact to the last bit but is called one value at a time.
// Relative error: about 1e-7 (float) and 1e-15 (double). exp(-inf) = 0, NaN stays NaN.

static inline float exp_below_88(float x) {
  const float low = -87.3f;
  float y = x < low ? low : x;
  // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the lowest mantissa bits.
  const float magic = 12582912.0f;
  float shifted = y * 1.44269504088896341f + magic;
  float whole = shifted - magic;
  float r = y - whole * 0.693359375f;
  r = r - whole * -2.12194440e-4f;
  float p = 1.9841270e-4f;
  p = p * r + 1.3888889e-3f;
  p = p * r + 8.3333333e-3f;
  p = p * r + 4.1666667e-2f;
  p = p * r + 1.6666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  int32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = static_cast<int32_t>(static_cast<uint32_t>(bits) + 127u) << 23;
  float scale;
  std::memcpy(&scale, &bits, sizeof scale);
  float result = p * scale;
  return x < low ? 0.0f : result;
}

static inline double exp_below_88(double x) {
  const double low = -708.0;
  double y = x < low ? low : x;
  const double magic = 6755399441055744.0; // 1.5 * 2^52
  double shifted = y * 1.4426950408889634 + magic;
  double whole = shifted - magic;
  double r = y - whole * 6.93147180369123816490e-01;
  r = r - whole * 1.90821492927058770002e-10;
  double p = 1.6059043836821613e-10; // 1/13!
  p = p * r + 2.0876756987868099e-09;
  p = p * r + 2.5052108385441720e-08;
  p = p * r + 2.7557319223985893e-07;
  p = p * r + 2.7557319223985888e-06;
  p = p * r + 2.4801587301587302e-05;
  p = p * r + 1.9841269841269841e-04;
  p = p * r + 1.3888888888888889e-03;
  p = p * r + 8.3333333333333332e-03;
  p = p * r + 4.1666666666666664e-02;
  p = p * r + 1.6666666666666666e-01;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  int64_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = static_cast<int64_t>(static_cast<uint64_t>(bits) + 1023u) << 52;
  double scale;
  std::memcpy(&scale, &bits, sizeof scale);
  double result = p * scale;
  return x < low ? 0.0 : result;
}
