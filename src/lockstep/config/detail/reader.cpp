// SPDX-License-Identifier: Apache-2.0
#include "lockstep/config/detail/reader.h"

#define TOML_ENABLE_FORMATTERS 0
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>

#include <toml++/toml.h>

#include "lockstep/base/text.h"
#include "lockstep/config/schema.h"

namespace lockstep::schema {

namespace {

// Writes a TOML node to the field it is visited with; false where the type does not fit.
struct Assign {
  const toml::node& node;

  bool operator()(bool* out) const { return exact(out); }
  bool operator()(std::int64_t* out) const { return exact(out); }
  bool operator()(std::string* out) const { return exact(out); }
  bool operator()(double* out) const {
    const auto value = node.is_number() ? node.value<double>() : std::nullopt;
    if (value)
      *out = *value;
    return value.has_value();
  }
  bool operator()(AxisSize* out) const {
    const auto word = node.value_exact<std::string>();
    if (word)
      *out = {.ranks = 1, .is_rest = true};
    return word ? *word == "rest" : (*this)(&out->ranks);
  }
  template <typename Value>
  bool operator()(std::optional<Value>* out) const {
    Value value{};
    if (!(*this)(&value))
      return false;
    *out = std::move(value);
    return true;
  }
  template <typename Value>
  bool operator()(std::vector<Value>* out) const {
    std::vector<Value> values;
    const toml::array* array = node.as_array();
    if (array == nullptr &&
        (!std::is_same_v<Value, std::string> || !(*this)(&values.emplace_back())))
      return false;
    if (array != nullptr) {
      for (const toml::node& entry : *array) {
        if (!Assign{entry}(&values.emplace_back()))
          return false;
      }
    }
    *out = std::move(values);
    return true;
  }

 private:
  template <typename Value>
  bool exact(Value* out) const {
    auto value = node.value_exact<Value>();
    if (value)
      *out = std::move(*value);
    return value.has_value();
  }
};

bool fits_word(const std::string& value, const std::string& word) {
  if (value == word)
    return true;
  if (!word.ends_with('N'))
    return false;
  const std::string_view prefix = std::string_view(word).substr(0, word.size() - 1);
  if (!value.starts_with(prefix))
    return false;
  const std::string_view rest = std::string_view(value).substr(prefix.size());
  if (prefix.empty())
    return parse_double(rest).value_or(0) > 0 && std::isfinite(*parse_double(rest));
  return parse_int(rest).value_or(0) > 0;
}

// What a value of the right type must still be; the clause says what is wrong.
template <typename Object>
struct Check {
  const Row<Object>& row;
  using Complaint = std::optional<std::string>;

  Complaint operator()(const bool*) const { return std::nullopt; }
  Complaint operator()(const std::int64_t* value) const {
    return in_range(static_cast<double>(*value), cat(*value));
  }
  Complaint operator()(const double* value) const { return in_range(*value, cat(*value)); }
  Complaint operator()(const AxisSize* value) const { return (*this)(&value->ranks); }
  Complaint operator()(const std::string* value) const {
    const auto fits = [value](const std::string& word) { return fits_word(*value, word); };
    if (row.words.empty() || std::any_of(row.words.begin(), row.words.end(), fits))
      return std::nullopt;
    return cat(
        "'", *value, "' is not one of ", join(row.words, ", "), did_you_mean(*value, row.words));
  }
  template <typename Value>
  Complaint operator()(const std::optional<Value>* value) const {
    return *value ? (*this)(&**value) : std::nullopt;
  }
  template <typename Value>
  Complaint operator()(const std::vector<Value>* values) const {
    for (const Value& value : *values) {
      if (auto complaint = (*this)(&value))
        return complaint;
    }
    if (row.key == "betas" && values->size() != 2)
      return cat("there are two betas, not ", values->size());
    return std::nullopt;
  }

 private:
  Complaint in_range(double value, const std::string& text) const {
    if (!std::isfinite(value))
      return cat(text, " is not a finite number");
    if (!(value >= row.least))
      return cat(text, " is less than ", row.least);
    if (!(value <= row.most))
      return cat(text, " is more than ", row.most);
    return std::nullopt;
  }
};

// A whole number that no 64 bits hold stays a bare string in a --set.
bool is_too_large(const std::string& text) {
  const std::size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const std::string_view digits = std::string_view(text).substr(sign);
  return !digits.empty() && digits.find_first_not_of("0123456789_") == std::string_view::npos &&
         !parse_int(digits);
}

std::string_view kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "a list";
    case toml::node_type::string: return "a string";
    case toml::node_type::integer: return "a whole number";
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "true or false";
    default: return "a date or time";
  }
}

// One source of values: a file, or one --set with the text behind its '='.
class Walk {
 public:
  Walk(Config& config, std::string source, std::optional<std::string> bare)
      : config_(config), source_(std::move(source)), bare_(std::move(bare)) {}

  /// What is wrong with `table`, in the order of its lines (a TOML table is sorted by name).
  std::vector<Finding> root(const toml::table& table) {
    take_root(table);
    std::stable_sort(
        found_.begin(), found_.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
    std::vector<Finding> findings;
    for (Found& found : found_)
      findings.push_back(std::move(found.finding));
    return findings;
  }

 private:
  struct Found {
    toml::source_index line;
    Finding finding;
  };

  void take_root(const toml::table& table) {
    const std::vector<std::string> names = sections();
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        const std::string guess = did_you_mean(name, names);
        const std::string next =
            guess.empty() ? home_of(name, cat("The sections are ", join(names, ", "))) : "";
        complain(node, name, cat("there is no section '", name, "'", guess), next);
      } else if (!node.is_table()) {
        complain(node,
                 name,
                 cat("'", name, "' is a section, not ", kind_of(node)),
                 cat("Write [", name, "] and its keys below"));
      } else {
        section(name, *node.as_table());
      }
    }
  }

  void section(const std::string& name, const toml::table& table) {
    for (const auto& [key, node] : table) {
      const std::string word(key.str());
      if (name == "optimizer" && word == "group") {
        groups(node);
      } else {
        set(rows(), config_, name, word, node);
      }
    }
  }

  void groups(const toml::node& node) {
    const toml::array* array = node.as_array();
    const bool tables =
        array != nullptr &&
        std::all_of(array->begin(), array->end(), [](const auto& e) { return e.is_table(); });
    if (!tables) {
      complain(node,
               "optimizer.group",
               cat("it is a list of tables, not ", kind_of(node)),
               "Write [[optimizer.group]] and its keys below");
      return;
    }
    config_.optimizer.groups.clear();
    for (const toml::node& entry : *array) {
      OptimizerGroup& group = config_.optimizer.groups.emplace_back();
      for (const auto& [key, value] : *entry.as_table())
        set(group_rows(), group, "optimizer.group", std::string(key.str()), value);
      if (group.match.empty())
        complain(entry,
                 "optimizer.group",
                 "the group has no match",
                 "Add match = \"*.bias\", a glob over names");
    }
  }

  template <typename Object>
  void set(const std::vector<Row<Object>>& table,
           Object& object,
           const std::string& section,
           const std::string& key,
           const toml::node& node) {
    const auto is_it = [&](const Row<Object>& row) {
      return row.section == section && row.key == key;
    };
    const auto row = std::find_if(table.begin(), table.end(), is_it);
    const std::string name = cat(section, ".", key);
    if (row == table.end()) {
      std::vector<std::string> keys;
      for (const Row<Object>& other : table) {
        if (other.section == section)
          keys.emplace_back(other.key);
      }
      const std::string guess = did_you_mean(key, keys);
      complain(node,
               name,
               cat("there is no key '", key, "' in [", section, "]", guess),
               guess.empty()
                   ? home_of(key, cat("The keys of [", section, "] are ", join(keys, ", ")))
                   : "");
      return;
    }
    assign(*row, object, name, node);
  }

  template <typename Object>
  void assign(const Row<Object>& row,
              Object& object,
              const std::string& name,
              const toml::node& node) {
    const Field field = row.field(object);
    bool fits = std::visit(Assign{node}, field);
    if (!fits && node.is_number() && std::count(row.words.begin(), row.words.end(), "N") > 0) {
      const toml::value<std::string> number(cat(*node.value<double>()));
      fits = std::visit(Assign{number}, field);
    }
    if (!fits && bare_) {
      const toml::value<std::string> text(*bare_);
      fits = std::visit(Assign{text}, field);
    }
    if (!fits && bare_ && is_too_large(*bare_)) {
      complain(node, name, cat(*bare_, " is out of the range of whole numbers"), "");
    } else if (!fits) {
      complain(node, name, cat("it is ", type_name(field), ", not ", kind_of(node)), "");
    } else if (const auto complaint = std::visit(Check<Object>{row}, field)) {
      complain(node, name, *complaint, "");
    }
  }

  // A key in the wrong section, or under no section: where it belongs.
  static std::string home_of(const std::string& key, const std::string& otherwise) {
    for (const auto& row : rows()) {
      if (row.key == key)
        return cat("'", key, "' belongs to [", row.section, "]");
    }
    return otherwise;
  }

  void complain(const toml::node& node,
                const std::string& name,
                const std::string& what,
                const std::string& next) {
    const toml::source_index line = node.source().begin.line;
    found_.push_back({line, {bare_ ? source_ : cat(source_, ":", line, ", ", name), what, next}});
  }

  Config& config_;
  std::vector<Found> found_;
  std::string source_;
  std::optional<std::string> bare_;
};

// The text as one TOML value under `value`, or the whole of it as a string.
toml::table value_of(const std::string& text) {
  try {
    toml::table table = toml::parse(cat("value = ", text));
    if (table.size() == 1 && table.contains("value"))
      return table;
  } catch (const toml::parse_error&) {
    // a bare string
  }
  return toml::table{{"value", text}};
}

}  // namespace

void Reader::take_file(std::string_view text, std::string_view name) {
  try {
    const toml::table root = toml::parse(text);
    for (Finding& finding : Walk(config_, std::string(name), std::nullopt).root(root))
      findings_.push_back(std::move(finding));
  } catch (const toml::parse_error& error) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = cat(name, ":", error.source().begin.line)},
                 .problem = "the file is not TOML",
                 .cause = std::string(error.description()),
                 .next = cat("Correct line ",
                             error.source().begin.line,
                             ", column ",
                             error.source().begin.column)});
  }
}

void Reader::take_set(const std::string& set) {
  const std::size_t equals = set.find('=');
  const std::string_view name = trim(std::string_view(set).substr(0, equals));
  const std::size_t dot = name.find('.');
  const std::string source = cat("--set ", set);
  if (equals == std::string::npos || dot == std::string_view::npos || dot == 0 ||
      dot + 1 == name.size()) {
    findings_.push_back(
        {source, "it is not section.key=value", "Write for example --set optimizer.lr=3e-4"});
    return;
  }
  const std::string text(trim(std::string_view(set).substr(equals + 1)));
  toml::table value = value_of(text);
  toml::table section;
  section.insert(name.substr(dot + 1), std::move(*value.get("value")));
  toml::table root;
  root.insert(name.substr(0, dot), std::move(section));
  for (Finding& finding : Walk(config_, source, text).root(root))
    findings_.push_back(std::move(finding));
}

Config Reader::finish() const {
  const std::string summary = findings_.size() == 1
                                  ? "1 problem in the configuration"
                                  : cat(findings_.size(), " problems in the configuration");
  throw_findings(Fault::Config, summary, findings_);
  return config_;
}

}  // namespace lockstep::schema
