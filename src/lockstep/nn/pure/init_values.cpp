// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/pure/init_values.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/base/philox.h"

namespace lockstep::nn {
namespace {

/// Highest power first.
double polynomial(const std::array<double, 8>& coefficients, double x) {
  double value = 0.0;
  for (const double coefficient : coefficients) {
    value = value * x + coefficient;
  }
  return value;
}

double central_quantile(double q) {
  static constexpr std::array kAbove{2.5090809287301226727e+3,
                                     3.3430575583588128105e+4,
                                     6.7265770927008700853e+4,
                                     4.5921953931549871457e+4,
                                     1.3731693765509461125e+4,
                                     1.9715909503065514427e+3,
                                     1.3314166789178437745e+2,
                                     3.3871328727963666080e+0};
  static constexpr std::array kBelow{5.2264952788528545610e+3,
                                     2.8729085735721942674e+4,
                                     3.9307895800092710610e+4,
                                     2.1213794301586595867e+4,
                                     5.3941960214247511077e+3,
                                     6.8718700749205790830e+2,
                                     4.2313330701600911252e+1,
                                     1.0};
  const double r = 0.180625 - q * q;
  return q * polynomial(kAbove, r) / polynomial(kBelow, r);
}

double tail_quantile(double tail) {
  static constexpr std::array kAbove{7.74545014278341407640e-4,
                                     2.27238449892691845833e-2,
                                     2.41780725177450611770e-1,
                                     1.27045825245236838258e+0,
                                     3.64784832476320460504e+0,
                                     5.76949722146069140550e+0,
                                     4.63033784615654529590e+0,
                                     1.42343711074968357734e+0};
  static constexpr std::array kBelow{1.05075007164441684324e-9,
                                     5.47593808499534494600e-4,
                                     1.51986665636164571966e-2,
                                     1.48103976427480074590e-1,
                                     6.89767334985100004550e-1,
                                     1.67638483018380384940e+0,
                                     2.05319162663775882187e+0,
                                     1.0};
  const double r = std::sqrt(-std::log(tail)) - 1.6;
  return polynomial(kAbove, r) / polynomial(kBelow, r);
}

double value_of(std::uint32_t word, const Init& init) {
  const double p = (static_cast<double>(word) + 0.5) * 0x1p-32;
  return init.kind == Init::Kind::Normal ? init.scale * normal_quantile(p)
                                         : init.scale * (2.0 * p - 1.0);
}

}  // namespace

double normal_quantile(double p) {
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    return central_quantile(q);
  }
  return q < 0.0 ? -tail_quantile(p) : tail_quantile(1.0 - p);
}

void fill_initial(std::span<double> out,
                  std::uint64_t begin,
                  const Init& init,
                  std::uint64_t seed,
                  std::string_view name) {
  if (init.kind == Init::Kind::Zeros || init.kind == Init::Kind::Ones) {
    std::fill(out.begin(), out.end(), init.kind == Init::Kind::Ones ? 1.0 : 0.0);
    return;
  }
  const std::uint64_t key = mix(mix(seed ^ hash_name("initial value")) ^ hash_name(name));
  std::array<std::uint32_t, 4> words{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t element = begin + i;
    if (i == 0 || element % 4 == 0) {
      const std::uint64_t block = element / 4;
      words = philox(
          {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key);
    }
    out[i] = value_of(words[element % 4], init);
  }
}

}  // namespace lockstep::nn
