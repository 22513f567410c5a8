// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/checkpoint/pure/dtype.h"

namespace lockstep::checkpoint {

/// Throws Config naming the tensor where the format has no such type.
DType dtype_of(const at::Tensor& tensor, const std::string& name);

/// The bytes of a tensor that is contiguous on the host.
std::span<char> bytes_of(const at::Tensor& tensor);

}  // namespace lockstep::checkpoint
