// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/region/region.h"

namespace lockstep {

/// A stretch of time in which one thing ran.
struct Span {
  enum class Phase { Forward, Backward };
  std::string name;  ///< of the region
  Phase phase = Phase::Forward;
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

/// Takes spans as they end. Called from the thread that runs the model, in backward from
/// autograd's; must not throw.
class SpanSink {
 public:
  virtual ~SpanSink() = default;
  virtual void add(const Span& span) = 0;
};

/// Outermost decorator: times every region, what `inner` does around the body (gathering
/// parameters, recomputing) included.
///
/// Forward is from the call to the return. Backward is from the gradient of an output to the
/// gradient of the first input, by hooks on those tensors; a region none of whose inputs needs a
/// gradient (the embedding) has no backward span.
/// Cost: two clock readings a region, and two hooks where gradients are wanted.
class TraceRegion final : public Region {
 public:
  /// Both are shared: `inner` with the strategy that composed it, `sink` with whoever writes the
  /// trace.
  TraceRegion(std::shared_ptr<Region> inner, std::shared_ptr<SpanSink> sink);
  Tensors run(std::string_view name, const Tensors& inputs, const RegionBody& body) override;

 private:
  std::shared_ptr<Region> inner_;
  std::shared_ptr<SpanSink> sink_;
};

}  // namespace lockstep
