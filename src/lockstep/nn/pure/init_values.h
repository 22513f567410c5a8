// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lockstep/model/model_spec.h"

namespace lockstep::nn {

/// The normal deviate whose cumulative probability is `p`, 2^-33 <= p <= 1 - 2^-33; right to about
/// 1e-15.
/// Source: Wichura 1988, algorithm AS 241, PPND16.
double normal_quantile(double p);

/// Starting values of logical elements begin, begin + 1, ... (row-major in the whole parameter) of
/// the parameter `name`.
///
/// A function of (seed, name, element) alone: not of the order of construction, nor of which part a
/// rank holds; no generator has a state. Element e is made of word e % 4 of Philox block e / 4.
/// Cost: about 30 ns an element of Normal.
void fill_initial(std::span<double> out,
                  std::uint64_t begin,
                  const Init& init,
                  std::uint64_t seed,
                  std::string_view name);

}  // namespace lockstep::nn
