// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace lockstep {

namespace detail {
void append(std::string& out, std::string_view text) { out += text; }
void append(std::string& out, char letter) { out += letter; }
void append(std::string& out, double value) {
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}
}  // namespace detail

namespace {

template <typename Part>
std::string join_any(std::span<const Part> parts, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i)
    out += cat(i == 0 ? std::string_view() : separator, parts[i]);
  return out;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

}  // namespace

std::string join(std::span<const std::string> parts, std::string_view separator) {
  return join_any(parts, separator);
}

std::string join(std::span<const int> parts, std::string_view separator) {
  return join_any(parts, separator);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  const std::string* best = nullptr;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance >= best_distance)
      continue;
    best_distance = distance;
    best = &candidate;
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const auto name = nearest(word, candidates);
  return name ? cat("; did you mean '", *name, "'?") : std::string();
}

std::optional<std::int64_t> parse_int(std::string_view text) {
  return parse_number<std::int64_t>(text);
}

std::optional<double> parse_double(std::string_view text) { return parse_number<double>(text); }

std::string fixed(double value, int digits) {
  std::array<char, 400> text{};
  const int size = std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return {text.data(), static_cast<std::size_t>(size)};
}

std::string human_bytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (std::abs(bytes) >= 1000 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  return cat(fixed(bytes, unit == 0 ? 0 : 2), " ", kUnits[unit]);
}

std::string human_seconds(double seconds) {
  if (seconds < 1e-3)
    return cat(fixed(seconds * 1e6, 0), " us");
  if (seconds < 1)
    return cat(fixed(seconds * 1e3, 1), " ms");
  if (seconds < 60)
    return cat(fixed(seconds, 1), " s");
  const auto whole = static_cast<std::int64_t>(seconds);
  const auto two = [](std::int64_t n) { return cat(n < 10 ? "0" : "", n); };
  if (whole < 3600)
    return cat(whole / 60, " min ", two(whole % 60), " s");
  return cat(whole / 3600, " h ", two(whole % 3600 / 60), " min");
}

std::string cut_list(std::span<const std::string> parts, std::size_t most) {
  if (parts.size() <= most)
    return join(parts, ", ");
  return cat(join(parts.first(most), ", "), " and ", parts.size() - most, " more");
}

}  // namespace lockstep
