// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/sharded/pure/marks.h"

namespace lockstep::sharded {

namespace {
constexpr int kCountDigits = 4;  // of 12 bits: their sum stays below 2^24
constexpr std::int64_t kDigit =
    4096;                       // also what a late gradient adds to its parameter's first mark
constexpr int kHashDigits = 4;  // of 6 bits, so that sums of squares are exact too
constexpr std::uint32_t kHashDigit = 64;
}  // namespace

std::vector<float> encode(const LocalMarks& marks) {
  std::vector<float> words;
  words.reserve(marks.parameters.size() * kMarksPerParameter + kControlWords);
  for (const LocalMarks::OfParameter& mark : marks.parameters) {
    words.push_back((mark.used ? 1.0F : 0.0F) + (mark.late ? static_cast<float>(kDigit) : 0.0F));
    words.push_back(mark.trainable ? 1.0F : 0.0F);
  }
  words.push_back(marks.active ? 1.0F : 0.0F);
  words.push_back(marks.counted ? 1.0F : 0.0F);
  std::int64_t rest = marks.count;
  for (int digit = 0; digit < kCountDigits; ++digit, rest /= kDigit) {
    words.push_back(static_cast<float>(rest % kDigit));
  }
  std::uint32_t hash = marks.call_hash;
  for (int digit = 0; digit < kHashDigits; ++digit, hash /= kHashDigit) {
    const auto value = static_cast<float>(hash % kHashDigit);
    words.push_back(value);
    words.push_back(value * value);
  }
  return words;
}

GlobalMarks decode(std::span<const float> sums, int num_ranks) {
  GlobalMarks marks;
  const std::size_t control = sums.size() - kControlWords;
  for (std::size_t at = 0; at < control; at += kMarksPerParameter) {
    const auto packed = static_cast<std::int64_t>(sums[at]);
    marks.parameters.push_back({static_cast<int>(packed % kDigit),
                                static_cast<int>(packed / kDigit),
                                static_cast<int>(sums[at + 1])});
  }
  const std::span<const float> words = sums.subspan(control);
  marks.active = static_cast<int>(words[0]);
  marks.counted = static_cast<int>(words[1]);
  std::int64_t worth = 1;
  for (std::size_t digit = 0; digit < kCountDigits; ++digit, worth *= kDigit) {
    marks.count += static_cast<std::int64_t>(words[2 + digit]) * worth;
  }
  for (std::size_t digit = 0; digit < kHashDigits; ++digit) {
    const double sum = words[2 + kCountDigits + 2 * digit];
    const double squares = words[3 + kCountDigits + 2 * digit];
    marks.calls_agree = marks.calls_agree && sum * sum == squares * num_ranks;  // no variance
  }
  return marks;
}

}  // namespace lockstep::sharded
