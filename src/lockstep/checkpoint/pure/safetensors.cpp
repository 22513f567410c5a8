// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/pure/safetensors.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kMostHeaderBytes = 100'000'000;

[[noreturn]] void refuse(std::string_view file, std::string problem, std::string found = "") {
  throw Error({.fault = Fault::Storage,
               .where = {.subject = std::string(file)},
               .problem = std::move(problem),
               .found = std::move(found),
               .next = "The file is damaged or no safetensors file: take another checkpoint, or "
                       "copy the file again"});
}

std::int64_t whole_number(const nlohmann::json& value,
                          std::string_view file,
                          const std::string& what) {
  if (!value.is_number_integer())
    refuse(file, cat(what, " is not a whole number"), value.dump());
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
    refuse(file, cat(what, " is too large"), value.dump());
  }
  const auto number = value.get<std::int64_t>();
  if (number < 0)
    refuse(file, cat(what, " is negative"), value.dump());
  return number;
}

SafetensorsTensor parse_tensor(const std::string& name,
                               const nlohmann::json& fields,
                               std::string_view file) {
  SafetensorsTensor tensor{.name = name};
  const auto part = [&](const char* key) -> const nlohmann::json& {
    if (!fields.is_object() || !fields.contains(key))
      refuse(file, cat("tensor '", name, "' has no ", key));
    return fields.at(key);
  };
  const nlohmann::json& type = part("dtype");
  const auto dtype = type.is_string() ? parse_dtype(type.get<std::string>()) : std::nullopt;
  if (!dtype)
    refuse(file, cat("tensor '", name, "' has an element type that is not known"), type.dump());
  tensor.dtype = *dtype;

  if (!part("shape").is_array())
    refuse(file, cat("the shape of tensor '", name, "' is no list"));
  for (const auto& size : part("shape")) {
    tensor.shape.push_back(whole_number(size, file, cat("a size of tensor '", name, "'")));
  }
  const nlohmann::json& offsets = part("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2)
    refuse(file, cat("tensor '", name, "' has no pair of offsets"));
  tensor.begin_bytes = whole_number(offsets[0], file, cat("an offset of tensor '", name, "'"));
  tensor.end_bytes = whole_number(offsets[1], file, cat("an offset of tensor '", name, "'"));
  return tensor;
}

std::int64_t data_bytes(const SafetensorsTensor& tensor, std::string_view file) {
  std::int64_t bytes = bytes_of(tensor.dtype);
  for (const std::int64_t size : tensor.shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) {
      refuse(file, cat("tensor '", tensor.name, "' has more bytes than can be counted"));
    }
  }
  return bytes;
}

/// In the order of offsets: each tensor starts where the one before ends, and the last ends with
/// the file.
void check_offsets(const SafetensorsHeader& header,
                   std::int64_t file_size_bytes,
                   std::string_view file) {
  const std::int64_t available = file_size_bytes - header.data_start_bytes;
  std::int64_t at = 0;
  for (const SafetensorsTensor& tensor : header.tensors) {
    if (tensor.end_bytes < tensor.begin_bytes || tensor.end_bytes > available) {
      refuse(file,
             cat("tensor '", tensor.name, "' lies outside the file"),
             cat("bytes ",
                 tensor.begin_bytes,
                 " to ",
                 tensor.end_bytes,
                 " of ",
                 std::max<std::int64_t>(available, 0)));
    }
    if (tensor.begin_bytes != at) {
      refuse(file,
             cat("tensor '",
                 tensor.name,
                 tensor.begin_bytes < at ? "' overlaps another" : "' follows a gap"),
             cat("it starts at byte ", tensor.begin_bytes, ", the one before ends at ", at));
    }
    const std::int64_t bytes = data_bytes(tensor, file);
    if (tensor.end_bytes - tensor.begin_bytes != bytes) {
      refuse(file,
             cat("tensor '", tensor.name, "' does not have the bytes of its shape"),
             cat(tensor.end_bytes - tensor.begin_bytes, " bytes for ", bytes));
    }
    at = tensor.end_bytes;
  }
  if (at != available)
    refuse(file, "the data does not end with the file", cat(available, " bytes of data for ", at));
}

}  // namespace

std::int64_t num_elements(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) {
      throw Error({.fault = Fault::Storage,
                   .problem = "a shape with a negative size or more elements than can be counted",
                   .next = "The file is damaged: take another checkpoint"});
    }
  }
  return elements;
}

std::int64_t SafetensorsHeader::file_bytes() const {
  return data_start_bytes + (tensors.empty() ? 0 : tensors.back().end_bytes);
}

const SafetensorsTensor* SafetensorsHeader::find(std::string_view name) const {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

SafetensorsHeader lay_out(std::vector<SafetensorsTensor> tensors,
                          std::map<std::string, std::string> metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    const std::int64_t wide_a = bytes_of(a.dtype);
    const std::int64_t wide_b = bytes_of(b.dtype);
    return wide_a != wide_b ? wide_a > wide_b : a.name < b.name;
  });
  std::set<std::string_view> names;
  std::int64_t at = 0;
  for (SafetensorsTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second || tensor.name == "__metadata__") {
      throw Error({.fault = Fault::Config,
                   .where = {.subject = tensor.name},
                   .problem = "two tensors of one file have this name",
                   .next = "Give every tensor a name of its own"});
    }
    tensor.begin_bytes = at;
    at += num_elements(tensor.shape) * bytes_of(tensor.dtype);
    tensor.end_bytes = at;
  }
  SafetensorsHeader header{.tensors = std::move(tensors), .metadata = std::move(metadata)};
  header.data_start_bytes = static_cast<std::int64_t>(header_bytes(header).size());
  return header;
}

std::string header_bytes(const SafetensorsHeader& header) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty())
    json["__metadata__"] = header.metadata;
  for (const SafetensorsTensor& tensor : header.tensors) {
    json[tensor.name] = {{"dtype", name_of(tensor.dtype)},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.begin_bytes, tensor.end_bytes}}};
  }
  std::string text = json.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string bytes;
  for (int i = 0; i < kLengthBytes; ++i) {
    bytes.push_back(static_cast<char>(
        static_cast<unsigned char>((static_cast<std::uint64_t>(text.size()) >> (8 * i)) & 0xFF)));
  }
  return bytes + text;
}

std::int64_t header_length(std::string_view first_8_bytes,
                           std::int64_t file_size_bytes,
                           std::string_view file) {
  if (first_8_bytes.size() < kLengthBytes || file_size_bytes < kLengthBytes) {
    refuse(
        file, "the file is shorter than the length of its header", cat(file_size_bytes, " bytes"));
  }
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = (length << 8) | static_cast<unsigned char>(first_8_bytes[i]);
  }
  if (length > static_cast<std::uint64_t>(kMostHeaderBytes)) {
    refuse(file,
           cat("the header claims more than the cap of ", human_bytes(kMostHeaderBytes)),
           cat(length, " bytes"));
  }
  const std::int64_t total = kLengthBytes + static_cast<std::int64_t>(length);
  if (total > file_size_bytes) {
    refuse(file,
           "the header is longer than the file",
           cat(length, " bytes of header in ", file_size_bytes));
  }
  return total;
}

SafetensorsHeader parse_header(std::string_view bytes,
                               std::int64_t file_size_bytes,
                               std::string_view file) {
  const std::int64_t total = header_length(bytes, file_size_bytes, file);
  if (static_cast<std::int64_t>(bytes.size()) < total)
    refuse(file, "the header was not read as a whole");
  const std::string_view text =
      bytes.substr(kLengthBytes, static_cast<std::size_t>(total - kLengthBytes));

  std::set<std::string> seen;
  std::string twice;
  const auto note_keys =
      [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
        if (depth == 1 && event == nlohmann::json::parse_event_t::key &&
            !seen.insert(parsed.get<std::string>()).second) {
          twice = parsed.get<std::string>();
        }
        return true;
      };
  const auto json = nlohmann::json::parse(text, note_keys, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object())
    refuse(file, "the header is no JSON object");
  if (!twice.empty())
    refuse(file, cat("tensor '", twice, "' occurs twice"));

  SafetensorsHeader header{.data_start_bytes = total};
  for (const auto& [name, fields] : json.items()) {
    if (name != "__metadata__") {
      header.tensors.push_back(parse_tensor(name, fields, file));
      continue;
    }
    if (!fields.is_object())
      refuse(file, "__metadata__ is no object");
    for (const auto& [key, value] : fields.items()) {
      if (!value.is_string())
        refuse(file, cat("metadata '", key, "' is no text"), value.dump());
      header.metadata[key] = value.get<std::string>();
    }
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin_bytes, a.end_bytes) < std::pair(b.begin_bytes, b.end_bytes);
  });
  check_offsets(header, file_size_bytes, file);
  return header;
}

}  // namespace lockstep::checkpoint
