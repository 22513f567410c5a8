// SPDX-License-Identifier: Apache-2.0
// Reads the #include lines of src/lockstep against the table of layers: no arrow points up, and
// pure parts see no libtorch.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::set<std::string>>& allowed() {
  static const std::map<std::string, std::set<std::string>> table = [] {
    std::map<std::string, std::set<std::string>> layers = {
        {"base", {}},
        {"model", {"base"}},
        {"mesh", {"base"}},
        {"config", {"base", "model", "mesh"}},
        {"comm", {"base", "mesh"}},
        {"data", {"base"}},
        {"region", {"base"}},
        {"parallel/tensor", {"base", "mesh", "comm", "region"}},
        {"parallel/pipeline", {"base", "mesh", "comm", "region"}},
        {"parallel/sharded", {"base", "mesh", "comm", "region"}},
        {"parallel/context", {"base", "mesh", "comm", "region"}},
        {"nn", {"base", "model", "mesh", "comm", "region", "parallel/tensor", "parallel/context"}},
        {"optim", {"base", "comm", "parallel/sharded"}},
        {"checkpoint", {"base", "model", "mesh", "comm"}},
        {"launch", {"base", "mesh", "config"}},
    };
    std::set<std::string> below;
    for (const auto& [layer, may] : layers)
      below.insert(layer);
    for (const char* layer : {"strategy", "train", "infer", "diagnose", "cli"}) {
      layers[layer] = below;
      below.insert(layer);
    }
    layers["plan"] = {"base",
                      "model",
                      "mesh",
                      "config",
                      "parallel/tensor",
                      "parallel/pipeline",
                      "parallel/sharded"};
    layers["cli"].insert("plan");
    return layers;
  }();
  return table;
}

// Whole layers without libtorch; elsewhere the folder pure/ (and cli/front) is.
bool is_pure(const std::string& path) {
  for (const char* layer : {"base/",
                            "model/",
                            "mesh/",
                            "config/",
                            "plan/",
                            "launch/",
                            "cli/common/",
                            "cli/front/",
                            "cli/train/"}) {
    if (path.starts_with(layer))
      return !path.starts_with("base/torch/");
  }
  return contains(path, "/pure/");
}

std::string layer_of(const std::string& path) {
  const std::string top = path.substr(0, path.find('/'));
  if (top != "parallel")
    return top;
  return path.substr(0, path.find('/', top.size() + 1));
}

std::vector<std::string> includes_of(const fs::path& file) {
  std::vector<std::string> names;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const std::string_view text = trim(line);
    if (!text.starts_with("#include"))
      continue;
    const std::size_t begin = text.find_first_of("<\"");
    if (begin == std::string_view::npos)
      continue;
    names.emplace_back(text.substr(begin + 1, text.find_first_of(">\"", begin + 1) - begin - 1));
  }
  return names;
}

/// Calls check(path below src/lockstep, included name) for every include of every source file.
template <typename Check>
int walk(Check check) {
  const fs::path root = fs::path(LOCKSTEP_SOURCE_DIR) / "src/lockstep";
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string extension = entry.path().extension().string();
    if (extension != ".h" && extension != ".cpp")
      continue;
    ++files;
    const std::string path = fs::relative(entry.path(), root).string();
    for (const std::string& name : includes_of(entry.path()))
      check(path, name);
  }
  return files;
}

TEST(Layers, NoIncludePointsUp) {
  const int files = walk([](const std::string& path, const std::string& name) {
    constexpr std::string_view kOurs = "lockstep/";
    if (!name.starts_with(kOurs))
      return;
    const std::string from = layer_of(path);
    const std::string to = layer_of(name.substr(kOurs.size()));
    ASSERT_TRUE(allowed().contains(from)) << path << " is in no layer of the table";
    EXPECT_TRUE(from == to || allowed().at(from).contains(to)) << path << " includes " << name;
  });
  EXPECT_GT(files, 20) << "the test did not find the sources";
}

TEST(Layers, PurePartsIncludeNoTorch) {
  walk([](const std::string& path, const std::string& name) {
    if (!is_pure(path))
      return;
    for (const char* prefix : {"torch/", "ATen/", "c10/", "lockstep/base/torch/"}) {
      EXPECT_FALSE(name.starts_with(prefix)) << path << " includes " << name;
    }
    if (name.starts_with("lockstep/")) {
      EXPECT_TRUE(is_pure(name.substr(9))) << path << " includes " << name << ", which is not pure";
    }
  });
}

TEST(Layers, HeadersNeverIncludeTheWholeOfTorch) {
  walk([](const std::string& path, const std::string& name) {
    if (path.ends_with(".h")) {
      EXPECT_NE(name, "torch/torch.h") << path;
    }
  });
}

}  // namespace
}  // namespace lockstep
