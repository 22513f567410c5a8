// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep::checkpoint {

/// Element types of the safetensors format, by its names.
enum class DType { F64, F32, F16, BF16, I64, I32, I16, I8, U8, Bool, F8E4M3, F8E5M2 };

std::string_view name_of(DType type);
std::optional<DType> parse_dtype(std::string_view name);
std::int64_t bytes_of(DType type);

}  // namespace lockstep::checkpoint
