// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/pure/event_file.h"

#include <array>
#include <chrono>
#include <unistd.h>

#include <boost/crc.hpp>
#include <protozero/pbf_writer.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::train {
namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "host";
}

std::uint32_t masked_crc(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const std::uint32_t sum = crc.checksum();
  return ((sum >> 15) | (sum << 17)) + 0xA282EAD8U;
}

template <typename Int>
void append_little_endian(std::string& out, Int value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    out.push_back(static_cast<char>((value >> (8 * i)) & 0xFF));
}

// Fields of the messages Event, Summary and Summary.Value.
constexpr int kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5;
constexpr int kSummaryValue = 1, kValueTag = 1, kValueSimple = 2;

}  // namespace

std::string tensorboard_record(std::string_view bytes) {
  std::string length;
  append_little_endian(length, static_cast<std::uint64_t>(bytes.size()));
  std::string record = length;
  append_little_endian(record, masked_crc(length));
  record += bytes;
  append_little_endian(record, masked_crc(bytes));
  return record;
}

std::string scalar_event(std::string_view tag, std::int64_t step, double value, double wall) {
  std::string bytes;
  protozero::pbf_writer event(bytes);
  event.add_double(kEventWallTime, wall);
  event.add_int64(kEventStep, step);
  {
    protozero::pbf_writer summary(event, kEventSummary);
    protozero::pbf_writer scalar(summary, kSummaryValue);
    scalar.add_string(kValueTag, tag.data(), tag.size());
    scalar.add_float(kValueSimple, static_cast<float>(value));
  }
  return bytes;
}

EventFile::EventFile(const std::filesystem::path& folder)
    : path_(folder / cat("events.out.tfevents.",
                         static_cast<std::int64_t>(wall_seconds()),
                         ".",
                         host_name(),
                         ".",
                         getpid())),
      out_(path_, std::ios::binary | std::ios::app) {
  std::string bytes;
  protozero::pbf_writer event(bytes);
  event.add_double(kEventWallTime, wall_seconds());
  event.add_string(kEventFileVersion, "brain.Event:2");
  out_ << tensorboard_record(bytes);
  flush();
}

void EventFile::scalar(std::string_view tag, std::int64_t step, double value) {
  out_ << tensorboard_record(scalar_event(tag, step, value, wall_seconds()));
}

void EventFile::flush() {
  out_.flush();
  if (out_)
    return;
  throw Error(
      {.fault = Fault::Storage,
       .where = {.subject = path_.string()},
       .problem = "the TensorBoard file cannot be written",
       .next = "Check the space and the permissions there, or choose another folder with --out"});
}

}  // namespace lockstep::train
