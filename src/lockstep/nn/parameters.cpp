// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/parameters.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "lockstep/nn/pure/init_values.h"

namespace lockstep::nn {

Parameters::Parameters(const ModelSpec& spec, const BuildOptions& options)
    : spec_(spec), options_(options), ops_(options.ops ? options.ops : tensor::serial()) {}

Parameters Parameters::scope(const std::string& name) const {
  Parameters inner = *this;
  inner.prefix_ += name + ".";
  return inner;
}

at::Tensor Parameters::make(const std::string& name) const {
  const ParameterSpec& parameter = spec_.parameter(prefix_ + name);
  const at::Tensor values = at::empty(parameter.shape, at::kDouble);
  double* out = values.mutable_data_ptr<double>();
  at::parallel_for(0, parameter.elements(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    fill_initial({out + begin, static_cast<std::size_t>(end - begin)},
                 static_cast<std::uint64_t>(begin),
                 parameter.init,
                 options_.seed,
                 parameter.name);
  });
  return values.to(options_.device, options_.dtype);
}

}  // namespace lockstep::nn
