// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace lockstep::train {

/// One TensorBoard record: length, its masked checksum, the bytes, their masked checksum.
/// Source: the TFRecord format; CRC-32C, rotated right by 15 plus 0xa282ead8.
std::string tensorboard_record(std::string_view bytes);

/// A scalar as the bytes of an Event of TensorBoard.
std::string scalar_event(std::string_view tag,
                         std::int64_t step,
                         double value,
                         double wall_seconds);

/// events.out.tfevents.SECONDS.HOST.PID in a folder, for TensorBoard. A run that is resumed starts a further file, which
/// TensorBoard lays over the steps of the earlier ones.
class EventFile {
 public:
  explicit EventFile(const std::filesystem::path& folder);
  void scalar(std::string_view tag, std::int64_t step, double value);
  /// Throws Storage when what was added could not be written.
  void flush();

 private:
  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace lockstep::train
