// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Enough of libtorch for parameters, return types and vectors of tensors in a header.
namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}
