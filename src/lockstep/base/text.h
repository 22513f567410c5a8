// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

namespace detail {
void append(std::string& out, std::string_view text);
void append(std::string& out, char letter);
template <std::same_as<bool> Bool>  // a pointer must not become one
void append(std::string& out, Bool value) {
  append(out, std::string_view(value ? "true" : "false"));
}
void append(std::string& out, double value);  ///< shortest text that reads back to the same double
template <std::integral Int>
  requires(!std::same_as<Int, bool> && !std::same_as<Int, char>)
void append(std::string& out, Int value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}
}  // namespace detail

/// Joins its arguments to one text: strings, characters, numbers, bools.
template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  (detail::append(out, parts), ...);
  return out;
}

std::string join(std::span<const std::string> parts, std::string_view separator);
std::string join(std::span<const int> parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
std::string first_line(std::string_view text);
bool contains(std::string_view text, std::string_view part);

/// The candidate that is closest to `word` in edit distance, or none when nothing is near enough to suggest.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

/// "; did you mean 'x'?" or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

/// The whole of `text` as a number, or none. No leading blanks, no rest.
std::optional<std::int64_t> parse_int(std::string_view text);
std::optional<double> parse_double(std::string_view text);

/// "1.50 GB" (1 GB is 1e9 bytes), "12 B"; "3.2 ms", "1 h 02 min"; `digits` after the point.
std::string human_bytes(double bytes);
std::string human_seconds(double seconds);
std::string fixed(double value, int digits);

/// A list cut to `most` entries with the count of what was left out: "0, 1, 2 and 5 more".
std::string cut_list(std::span<const std::string> parts, std::size_t most);

}  // namespace lockstep
