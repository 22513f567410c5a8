// SPDX-License-Identifier: Apache-2.0
#include "lockstep/mesh/mesh_text.h"

#include <algorithm>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

namespace {

const std::vector<std::string>& names() {
  static const std::vector<std::string> all = {
      "pp", "dp_replicate", "dp_shard", "cp", "tp", "tp_depth", "tp_row"};
  return all;
}

int& field(MeshSizes& sizes, std::string_view name) {
  const std::vector<int*> fields = {&sizes.pp,
                                    &sizes.dp_replicate,
                                    &sizes.dp_shard,
                                    &sizes.cp,
                                    &sizes.tp,
                                    &sizes.tp_depth,
                                    &sizes.tp_row};
  return *fields[static_cast<std::size_t>(std::find(names().begin(), names().end(), name) -
                                          names().begin())];
}

Error usage(std::string_view text, std::string problem, std::string next) {
  return Error({.fault = Fault::Usage,
                .where = {.subject = cat("mesh ", text)},
                .problem = std::move(problem),
                .next = std::move(next)});
}

}  // namespace

Mesh parse_mesh(std::string_view text, int ranks) {
  MeshSizes sizes;
  bool named_replicate = false;
  for (const std::string& entry : text.empty() ? std::vector<std::string>{} : split(text, ',')) {
    const std::size_t equals = entry.find('=');
    const std::string name(trim(entry.substr(0, equals)));
    const auto size = parse_int(trim(equals == std::string::npos ? "" : entry.substr(equals + 1)));
    if (std::count(names().begin(), names().end(), name) == 0) {
      throw usage(text,
                  cat("there is no axis '", name, "'", did_you_mean(name, names())),
                  cat("The axes are ", join(names(), ", ")));
    }
    if (!size || *size < 1 || *size > ranks)
      throw usage(text, cat("'", entry, "' gives no size from 1 to ", ranks), "Write AXIS=N");
    field(sizes, name) = static_cast<int>(*size);
    named_replicate = named_replicate || name == "dp_replicate";
  }
  const int taken = Mesh(sizes).size();
  if (!named_replicate && ranks % taken == 0)
    sizes.dp_replicate = ranks / taken;
  const Mesh mesh(sizes);
  if (mesh.size() == ranks)
    return mesh;
  throw usage(text,
              cat("the axes multiply to ", mesh.size(), ", but there are ", ranks, " ranks"),
              cat("Start ", mesh.size(), " ranks, or change a size"));
}

}  // namespace lockstep
