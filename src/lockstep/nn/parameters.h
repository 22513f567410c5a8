// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/base/torch_fwd.h"
#include "lockstep/nn/model.h"

namespace lockstep::nn {

/// Hands modules their parameters, by name, with starting values that depend on seed, name and
/// logical element only. A scope ("layers.2.attention.") is a view of the same source with a longer
/// prefix.
class Parameters {
 public:
  Parameters(const ModelSpec& spec, const BuildOptions& options);

  Parameters scope(const std::string& name) const;
  at::Tensor make(const std::string& name) const;
  const std::string& prefix() const { return prefix_; }
  const std::shared_ptr<const tensor::Ops>& ops() const { return ops_; }

 private:
  const ModelSpec& spec_;
  const BuildOptions& options_;
  std::shared_ptr<const tensor::Ops> ops_;  // shared with every module that is made
  std::string prefix_;
};

}  // namespace lockstep::nn
