// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/text.h"
#include "lockstep/config/schema.h"

namespace lockstep::schema {

namespace {

template <typename Value>
std::string list_text(const std::vector<Value>& values, std::string (*text)(const Value&)) {
  std::string out = "[";
  for (const Value& value : values)
    out += cat(out.size() == 1 ? "" : ", ", text(value));
  return out + "]";
}

std::string integer_text(const std::int64_t& value) { return cat(value); }

std::string double_text(const double& value) {
  const std::string text = cat(value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;  // 'n': inf and nan
}

std::string quoted(const std::string& value) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char letter : value) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += cat('\\', letter);
    } else if (code < 0x20 || code == 0x7f) {
      out += cat("\\u00", kHex[code >> 4], kHex[code & 15]);
    } else {
      out += letter;
    }
  }
  return out + '"';
}

struct ToToml {
  using Text = std::optional<std::string>;
  Text operator()(const bool* value) const { return *value ? "true" : "false"; }
  Text operator()(const std::int64_t* value) const { return integer_text(*value); }
  Text operator()(const double* value) const { return double_text(*value); }
  Text operator()(const std::string* value) const { return quoted(*value); }
  Text operator()(const AxisSize* value) const {
    return value->is_rest ? "\"rest\"" : integer_text(value->ranks);
  }
  Text operator()(const std::vector<std::int64_t>* values) const {
    return list(*values, integer_text);
  }
  Text operator()(const std::vector<double>* values) const { return list(*values, double_text); }
  Text operator()(const std::vector<std::string>* values) const { return list(*values, quoted); }
  template <typename Value>
  Text operator()(const std::optional<Value>* value) const {
    return *value ? (*this)(&**value) : std::nullopt;
  }
  template <typename Value>
  static Text list(const std::vector<Value>& values, std::string (*text)(const Value&)) {
    return values.empty() ? Text() : Text(list_text(values, text));
  }
};

struct TypeName {
  std::string_view operator()(const bool*) const { return "true or false"; }
  std::string_view operator()(const std::int64_t*) const { return "a whole number"; }
  std::string_view operator()(const double*) const { return "a number"; }
  std::string_view operator()(const std::string*) const { return "a string"; }
  std::string_view operator()(const AxisSize*) const { return "a whole number or \"rest\""; }
  std::string_view operator()(const std::vector<std::int64_t>*) const {
    return "a list of whole numbers";
  }
  std::string_view operator()(const std::vector<double>*) const { return "a list of numbers"; }
  std::string_view operator()(const std::vector<std::string>*) const {
    return "a string or a list of strings";
  }
  template <typename Value>
  std::string_view operator()(const std::optional<Value>*) const {
    return (*this)(static_cast<const Value*>(nullptr));
  }
};

}  // namespace

std::string_view type_name(const Field& field) { return std::visit(TypeName(), field); }

std::optional<std::string> to_toml(const Field& field) { return std::visit(ToToml(), field); }

}  // namespace lockstep::schema
