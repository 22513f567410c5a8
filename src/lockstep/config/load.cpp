// SPDX-License-Identifier: Apache-2.0
#include "lockstep/config/load.h"

#include <fstream>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/config/detail/reader.h"
#include "lockstep/config/resolve.h"
#include "lockstep/config/schema.h"

namespace lockstep {

Config load_config(const std::filesystem::path& file, std::span<const std::string> sets) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (in)
    text << in.rdbuf();
  if (!in || !text) {
    throw Error({.fault = Fault::Storage,
                 .where = {.subject = file.string()},
                 .problem = std::filesystem::exists(file) ? "the configuration cannot be read"
                                                          : "there is no such configuration file",
                 .next = "Check the path; it is relative to the working directory"});
  }
  return parse_config(text.str(), file.string(), sets);
}

Config parse_config(std::string_view text,
                    std::string_view name,
                    std::span<const std::string> sets) {
  schema::Reader reader;
  reader.take_file(text, name);
  for (const std::string& set : sets)
    reader.take_set(set);
  return reader.finish();
}

std::string print_config(const Config& config) {
  Config copy = config;  // a Field points to what may be written
  std::string out;
  std::string_view section;
  const auto print_groups = [&copy, &out] {
    for (OptimizerGroup& group : copy.optimizer.groups) {
      out += "\n[[optimizer.group]]\n";
      for (const auto& row : schema::group_rows()) {
        if (const auto value = schema::to_toml(row.field(group)))
          out += cat(row.key, " = ", *value, "\n");
      }
    }
  };
  for (const auto& row : schema::rows()) {
    const auto value = schema::to_toml(row.field(copy));
    if (row.section != section) {
      if (section == "optimizer")
        print_groups();
      out += cat(out.empty() ? "" : "\n", "[", row.section, "]\n");
      section = row.section;
    }
    if (!value)
      continue;
    const bool fixed = unsupported_text(row.section, row.key) == kNotInThisVersion;
    out += cat(row.key, " = ", *value, fixed ? "  # fixed in this version" : "", "\n");
  }
  return out;
}

namespace {

template <typename Object>
void describe(std::string& out, const std::vector<schema::Row<Object>>& rows) {
  Object defaults;
  std::string_view section;
  for (const auto& row : rows) {
    if (row.section != section) {
      section = row.section;
      out += cat(out.empty() ? "" : "\n",
                 "### `[",
                 section,
                 "]`\n\n| key | type | default | what it is |\n|---|---|---|---|\n");
    }
    const schema::Field field = row.field(defaults);
    const std::string type =
        row.words.empty() ? std::string(schema::type_name(field)) : join(row.words, ", ");
    const std::string limit = unsupported_text(row.section, row.key);
    out += cat("| `",
               row.key,
               "` | ",
               type,
               " | ",
               schema::to_toml(field).value_or("-"),
               " | ",
               row.help,
               limit.empty() ? "" : cat("; **", limit, "**"),
               " |\n");
  }
}

}  // namespace

std::string config_reference() {
  std::string out;
  describe(out, schema::rows());
  describe(out, schema::group_rows());
  return out;
}

}  // namespace lockstep
