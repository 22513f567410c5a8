// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/pure/dtype.h"

namespace lockstep::checkpoint {

/// The header of a safetensors file: what lies where, without the data.
///
///   [u64 little-endian: length of the JSON text][JSON text, padded with blanks to 8 bytes][data]
///
/// Offsets count from the start of the data. Files are as any safetensors reader expects them.
/// Source  the safetensors format description (Hugging Face); code own.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  std::int64_t begin_bytes = 0;  ///< from the start of the data
  std::int64_t end_bytes = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;       ///< in the order of their offsets
  std::map<std::string, std::string> metadata;  ///< text to text, "__metadata__" in the file
  std::int64_t data_start_bytes = 0;            ///< length of everything before the data

  std::int64_t file_bytes() const;
  const SafetensorsTensor* find(std::string_view name) const;
};

/// Elements of a shape; a scalar has one. Throws Storage past 2^63 - 1 or for a negative size.
std::int64_t num_elements(const std::vector<std::int64_t>& shape);

/// Sets offsets and order: wide element types first, so that every tensor stays aligned to its
/// element, then by name. Throws Config for a name that occurs twice.
SafetensorsHeader lay_out(std::vector<SafetensorsTensor> tensors,
                          std::map<std::string, std::string> metadata);

/// The bytes before the data.
std::string header_bytes(const SafetensorsHeader& header);

/// The header's length as the first 8 bytes of a file tell it, checked against the file's size and
/// a cap of 100 MB. Throws Storage naming `file`.
std::int64_t header_length(std::string_view first_8_bytes,
                           std::int64_t file_size_bytes,
                           std::string_view file);

/// Reads `bytes`, the file's first header_length() bytes. Everything is checked: JSON, types,
/// shapes against bytes, offsets inside the file, overlaps and gaps. Throws Storage naming `file`;
/// never reads beyond `bytes`.
SafetensorsHeader parse_header(std::string_view bytes,
                               std::int64_t file_size_bytes,
                               std::string_view file);

}  // namespace lockstep::checkpoint
