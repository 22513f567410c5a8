// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/pure/dtype.h"

#include <array>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

struct Row {
  DType type;
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array kRows = {
    Row{DType::F64, "F64", 8},
    Row{DType::F32, "F32", 4},
    Row{DType::F16, "F16", 2},
    Row{DType::BF16, "BF16", 2},
    Row{DType::I64, "I64", 8},
    Row{DType::I32, "I32", 4},
    Row{DType::I16, "I16", 2},
    Row{DType::I8, "I8", 1},
    Row{DType::U8, "U8", 1},
    Row{DType::Bool, "BOOL", 1},
    Row{DType::F8E4M3, "F8_E4M3", 1},
    Row{DType::F8E5M2, "F8_E5M2", 1},
};

const Row& row_of(DType type) {
  for (const Row& row : kRows) {
    if (row.type == type)
      return row;
  }
  throw Error({.problem = "an element type without a row in the table"});
}

}  // namespace

std::string_view name_of(DType type) { return row_of(type).name; }

std::int64_t bytes_of(DType type) { return row_of(type).bytes; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name)
      return row.type;
  }
  return std::nullopt;
}

}  // namespace lockstep::checkpoint
