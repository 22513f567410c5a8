// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/detail/tensor_bytes.h"

#include <array>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::array kTypes = {
    std::pair(at::kDouble, DType::F64),
    std::pair(at::kFloat, DType::F32),
    std::pair(at::kHalf, DType::F16),
    std::pair(at::kBFloat16, DType::BF16),
    std::pair(at::kLong, DType::I64),
    std::pair(at::kInt, DType::I32),
    std::pair(at::kShort, DType::I16),
    std::pair(at::kChar, DType::I8),
    std::pair(at::kByte, DType::U8),
    std::pair(at::kBool, DType::Bool),
    std::pair(at::kFloat8_e4m3fn, DType::F8E4M3),
    std::pair(at::kFloat8_e5m2, DType::F8E5M2),
};

}  // namespace

DType dtype_of(const at::Tensor& tensor, const std::string& name) {
  for (const auto& [torch_type, type] : kTypes) {
    if (tensor.scalar_type() == torch_type)
      return type;
  }
  throw Error({.fault = Fault::Config,
               .where = {.subject = name},
               .problem = "a checkpoint cannot hold tensors of this element type",
               .found = c10::toString(tensor.scalar_type()),
               .next = "Convert the tensor before saving it"});
}

std::span<char> bytes_of(const at::Tensor& tensor) {
  LOCKSTEP_ASSERT(tensor.is_contiguous() && tensor.device().is_cpu());
  return {static_cast<char*>(tensor.data_ptr()), tensor.nbytes()};
}

}  // namespace lockstep::checkpoint
