// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include "lockstep/base/text.h"
#include "lockstep/cli/common/build_info.h"
#include "lockstep/cli/engine/commands.h"
#include "lockstep/comm/pure/process_card.h"
#include "lockstep/comm/pure/rank_identity.h"
#include "lockstep/comm/rank_main.h"
#include "lockstep/mesh/mesh_text.h"

namespace lockstep::cli {

namespace {

struct InfoOptions {
  std::string mesh;
  bool json = false;
  int timeout_seconds = 60;
};

std::vector<std::string> devices() {
  std::vector<std::string> names = {cat("cpu (", at::get_num_threads(), " threads)")};
  const int count = at::globalContext().hasCUDA()
                        ? static_cast<int>(at::detail::getCUDAHooks().deviceCount())
                        : 0;
  for (int device = 0; device < count; ++device)
    names.push_back(cat("cuda:", device));
  return names;
}

std::vector<std::string> backends() {
  return kBackends.empty() ? std::vector<std::string>{} : split(kBackends, ' ');
}

// What this process knows of itself; `mesh` is none before the ranks met.
nlohmann::json describe(const RankIdentity& identity, const Mesh* mesh) {
  const ProcessCard card = own_process_card();
  nlohmann::json rank = {{"rank", identity.rank},
                         {"local_rank", identity.local_rank},
                         {"local_world_size", identity.local_size},
                         {"world_size", identity.size},
                         {"source", identity.source},
                         {"host", card.host},
                         {"pid", card.pid},
                         {"backends", backends()},
                         {"devices", devices()}};
  if (mesh == nullptr)
    return rank;
  for (const Axis axis : kAxes)
    rank["coordinates"][std::string(name_of(axis))] = mesh->coordinate({identity.rank}, axis);
  rank["place"] = mesh->place({identity.rank});
  return rank;
}

std::string line_of(const nlohmann::json& rank) {
  const auto list = [&](const char* key) {
    return join(rank.at(key).get<std::vector<std::string>>(), ", ");
  };
  std::string line = cat("rank ",
                         rank.at("rank").get<int>(),
                         " of ",
                         rank.at("world_size").get<int>(),
                         " (local rank ",
                         rank.at("local_rank").get<int>(),
                         " of ",
                         rank.at("local_world_size").get<int>(),
                         "; source ",
                         rank.at("source").get<std::string>(),
                         ") on ",
                         rank.at("host").get<std::string>(),
                         ", pid ",
                         rank.at("pid").get<int>());
  if (rank.contains("place"))
    line += cat("; mesh: ", rank.at("place").get<std::string>());
  return cat(line, "; backends: ", list("backends"), "; devices: ", list("devices"), "\n");
}

nlohmann::json document(const std::vector<nlohmann::json>& ranks, const Mesh* mesh) {
  nlohmann::json sizes = nullptr;
  if (mesh != nullptr) {
    sizes = nlohmann::json::object();
    for (const Axis axis : kAxes)
      sizes[std::string(name_of(axis))] = mesh->size(axis);
  }
  return {
      {"version", kVersion}, {"torch_version", kTorchVersion}, {"mesh", sizes}, {"ranks", ranks}};
}

void show(World& world, const RankIdentity& told, const InfoOptions& options) {
  const Mesh mesh = parse_mesh(options.mesh, world.size());
  RankIdentity identity = told;
  identity.local_rank = world.local_rank();
  identity.local_size = world.local_size();
  const nlohmann::json mine = describe(identity, &mesh);
  if (!options.json) {
    std::cout << line_of(mine) << std::flush;
    return;
  }
  std::vector<nlohmann::json> ranks;
  for (const std::string& text : world.all().gather_text(mine.dump(), "info"))
    ranks.push_back(nlohmann::json::parse(text));
  if (world.rank().value == 0)
    std::cout << document(ranks, &mesh).dump(2) + "\n" << std::flush;
}

int info(const InfoOptions& options) {
  const RankIdentity identity = identify_rank(process_variables());
  if (identity.size > 1 && (identity.master_address.empty() || identity.master_port == 0)) {
    // Who this is can be told without the others; where they meet is not known.
    const nlohmann::json mine = describe(identity, nullptr);
    std::cout << (options.json ? document({mine}, nullptr).dump(2) + "\n" : line_of(mine))
              << std::flush;
    std::cerr << "lockstep info: MASTER_ADDR or MASTER_PORT is not set, so this rank did not meet "
                 "the others\n";
    return 0;
  }
  return rank_main([&](World& world) { show(world, identity, options); },
                   {.timeout = std::chrono::seconds(options.timeout_seconds)});
}

}  // namespace

std::function<int()> make_info(CLI::App& app) {
  const auto options = std::make_shared<InfoOptions>();
  app.add_option("--mesh",
                 options->mesh,
                 "axes and sizes, such as pp=2,tp=2; what is left goes to dp_replicate")
      ->default_str("dp_replicate=all");
  app.add_option("--timeout", options->timeout_seconds, "seconds to wait for the other ranks")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", options->json, "one document, printed by rank 0");
  return [options] { return info(*options); };
}

}  // namespace lockstep::cli
