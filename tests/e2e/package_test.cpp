// SPDX-License-Identifier: Apache-2.0
// A user's own project: find_package(lockstep) from an install tree, and add_subdirectory of the
// sources.
#include <gtest/gtest.h>

#include "lockstep/base/text.h"

#include "support/process.h"

namespace lockstep::test {
namespace {

Finished shell(const std::string& command, const TemporaryFolder& folder) {
  return run({.words = {"bash", "-c", command},
              .directory = folder.path(),
              .timeout = std::chrono::seconds(280)});
}

TEST(Package, FindPackageBuildsAUsersProgramThatTrains) {
  const TemporaryFolder folder;
  const Finished installed = shell(
      cat("cmake --install ", LOCKSTEP_BUILD_DIR, " --prefix $PWD/prefix >/dev/null"), folder);
  ASSERT_EQ(installed.status, 0) << installed.err;
  write_file(folder / "CMakeLists.txt",
             "cmake_minimum_required(VERSION 3.25)\n"
             "project(mine CXX)\n"
             "find_package(lockstep REQUIRED)\n"
             "add_executable(mine mine.cpp)\n"
             "target_link_libraries(mine PRIVATE lockstep::lockstep)\n");
  write_file(folder / "mine.cpp",
             read_file(program("").parent_path() / "../examples/01_minimal_ddp/minimal_ddp.cpp"));
  const Finished built = shell(
      "cmake -S . -B out -G Ninja -DCMAKE_PREFIX_PATH=$PWD/prefix && cmake --build out", folder);
  ASSERT_EQ(built.status, 0) << built.out << built.err;
  const Finished trained = shell(cat("prefix/bin/lockstep run -n 2 -- out/mine ",
                                     LOCKSTEP_SOURCE_DIR,
                                     "/data/demo/train.tokens"),
                                 folder);
  EXPECT_EQ(trained.status, 0) << trained.out << trained.err;
  EXPECT_TRUE(contains(trained.out, "loss")) << trained.out;
}

TEST(Package, AddSubdirectoryGivesTheSameTargets) {
  const TemporaryFolder folder;
  write_file(folder / "CMakeLists.txt",
             cat("cmake_minimum_required(VERSION 3.25)\n"
                 "project(mine CXX)\n"
                 "add_subdirectory(",
                 LOCKSTEP_SOURCE_DIR,
                 " lockstep)\n"
                 "add_executable(mine mine.cpp)\n"
                 "target_link_libraries(mine PRIVATE lockstep::base)\n"
                 "add_executable(everything all.cpp)\n"
                 "target_link_libraries(everything PRIVATE lockstep::lockstep)\n"));
  write_file(folder / "mine.cpp",
             "#include <cstdio>\n#include \"lockstep/base/text.h\"\n"
             "int main() { std::puts(lockstep::cat(\"built \", 42).c_str()); }\n");
  write_file(folder / "all.cpp", "int main() {}\n");
  // Only what needs no libtorch is built here, in seconds; the rest is configured and planned.
  const Finished built = shell(
      "cmake -S . -B out -G Ninja && ninja -C out mine && ninja -C out -n everything && out/mine",
      folder);
  EXPECT_EQ(built.status, 0) << built.out << built.err;
  EXPECT_TRUE(contains(built.out, "built 42")) << built.out;
}

}  // namespace
}  // namespace lockstep::test
