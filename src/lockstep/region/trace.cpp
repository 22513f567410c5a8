// SPDX-License-Identifier: Apache-2.0
#include "lockstep/region/trace.h"

#include <utility>

#include <ATen/ATen.h>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

/// Begins at the first gradient that arrives; the hooks of one region's call share it.
struct BackwardSpan {
  std::string name;
  std::shared_ptr<SpanSink> sink;
  Clock::time_point begin{};
  bool begun = false;
};

const at::Tensor* first_with_gradient(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.requires_grad()) {
      return &tensor;
    }
  }
  return nullptr;
}

void trace_backward(std::string_view name,
                    const Tensors& inputs,
                    const Tensors& outputs,
                    const std::shared_ptr<SpanSink>& sink) {
  const at::Tensor* input = first_with_gradient(inputs);
  if (input == nullptr || first_with_gradient(outputs) == nullptr) {
    return;
  }
  auto span = std::make_shared<BackwardSpan>(BackwardSpan{.name = std::string(name), .sink = sink});
  for (const at::Tensor& output : outputs) {
    if (output.defined() && output.requires_grad()) {
      output.register_hook([span](const at::Tensor&) {
        if (!span->begun) {
          span->begun = true;
          span->begin = Clock::now();
        }
      });
    }
  }
  input->register_hook([span](const at::Tensor&) {
    if (std::exchange(span->begun, false)) {
      span->sink->add({.name = span->name,
                       .phase = Span::Phase::Backward,
                       .begin = span->begin,
                       .end = Clock::now()});
    }
  });
}

}  // namespace

TraceRegion::TraceRegion(std::shared_ptr<Region> inner, std::shared_ptr<SpanSink> sink)
    : inner_(std::move(inner)), sink_(std::move(sink)) {}

Tensors TraceRegion::run(std::string_view name, const Tensors& inputs, const RegionBody& body) {
  const Clock::time_point begin = Clock::now();
  Tensors outputs = inner_->run(name, inputs, body);
  sink_->add({.name = std::string(name),
              .phase = Span::Phase::Forward,
              .begin = begin,
              .end = Clock::now()});
  trace_backward(name, inputs, outputs, sink_);
  return outputs;
}

}  // namespace lockstep
