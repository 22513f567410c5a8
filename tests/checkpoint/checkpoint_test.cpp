// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/checkpoint.h"

#include <fstream>
#include <sys/mount.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/pure/safetensors.h"

#include "support/complaint.h"
#include "support/process.h"
#include "support/run_ranks.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::run_ranks;
using testing::HasSubstr;

at::Tensor values(const std::vector<std::int64_t>& shape, double first) {
  return (at::arange(num_elements(shape), at::kFloat) * 0.5 + first).reshape(shape);
}

/// Whole tensors, as replicas hold them; different in every element and step.
std::vector<StateTensor> replicas(double step) {
  std::vector<StateTensor> list;
  for (int i = 0; i < 7; ++i)
    list.push_back(whole_tensor(cat("layers.", i, ".weight"), values({5 + i, 3}, step * 100 + i)));
  list.push_back(whole_tensor("optimizer.exp_avg.layers.0.weight", values({5, 3}, step * 1000)));
  list.push_back(whole_tensor("scalar", values({}, step)));
  return list;
}

/// The flat slice of every tensor that `rank` of `size` holds.
std::vector<StateTensor> shards(double step, int rank, int size) {
  std::vector<StateTensor> list = replicas(step);
  for (StateTensor& tensor : list) {
    const std::int64_t all = tensor.part.end;
    tensor.part.begin = all * rank / size;
    tensor.part.end = all * (rank + 1) / size;
    tensor.data = tensor.data.flatten().slice(0, tensor.part.begin, tensor.part.end).clone();
  }
  return list;
}

void expect_equal(const std::vector<StateTensor>& a, const std::vector<StateTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(at::equal(a[i].data, b[i].data)) << a[i].name;
}

std::vector<StateTensor> emptied(std::vector<StateTensor> list) {
  for (StateTensor& tensor : list)
    tensor.data = at::full_like(tensor.data, -1);
  return list;
}

void save_replicas(const RunFolder& run, std::int64_t step, int ranks) {
  run_ranks(ranks, [&](World& world) {
    save(run,
         {.step = step, .tensors = replicas(static_cast<double>(step)), .state = R"({"mark":7})"},
         world.all());
  });
}

TEST(Checkpoint, AnyNumberOfRanksReadsWhatAnyOtherWrote) {
  const test::TemporaryFolder folder;
  const RunFolder run{folder.path()};
  run_ranks(4, [&](World& world) {
    save(run,
         {.step = 3,
          .tensors = shards(3, world.rank().value, 4),
          .aliases = {{"head", "layers.6.weight"}}},
         world.all());
  });
  EXPECT_EQ(latest_step(run), 3);
  for (const int size : {1, 2, 3}) {
    for (int rank = 0; rank < size; ++rank) {
      auto got = emptied(shards(3, rank, size));
      const auto report =
          Checkpoint(find_checkpoint(folder.path())).load(got, Scope::Everything, Names::Strict);
      EXPECT_EQ(report.num_loaded, 9);
      expect_equal(got, shards(3, rank, size));
    }
  }
  std::vector<StateTensor> tied = {whole_tensor("head", at::zeros({11, 3}))};
  Checkpoint(run.step(3)).load(tied, Scope::Model, Names::Lenient);
  EXPECT_TRUE(at::equal(tied[0].data, replicas(3)[6].data));
}

TEST(Checkpoint, ReplicasShareTheWriting_F10) {
  const test::TemporaryFolder folder;
  const RunFolder run{folder.path()};
  save_replicas(run, 2, 3);
  const Checkpoint saved(run.step(2));
  saved.verify();
  EXPECT_EQ(saved.manifest().num_ranks, 3);
  EXPECT_EQ(saved.state(), R"({"mark":7})");
  EXPECT_EQ(saved.manifest().files.size(), 4U);  // one a rank, and the index
  for (const IndexEntry& entry : saved.index().entries)
    EXPECT_EQ(entry.pieces.size(), 1U);
  auto got = emptied(replicas(2));
  saved.load(got, Scope::Everything, Names::Strict);
  expect_equal(got, replicas(2));
}

TEST(Checkpoint, OneChangedByteIsFoundAndTheFileNamed_CKP_04) {
  const test::TemporaryFolder folder;
  const RunFolder run{folder.path()};
  save_replicas(run, 1, 2);
  for (const char* name : {"rank-00001.safetensors", "index.json", "manifest.json"}) {
    save_replicas(run, 2, 2);
    const fs::path path = run.step(2) / name;
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(-40, std::ios::end);
      const auto at = file.tellg();
      const char old = static_cast<char>(file.get());
      file.seekp(at);
      file.put(static_cast<char>(old ^ 0x15));
    }
    const std::string message = test::complaint(Fault::Storage, [&] {
      auto got = emptied(replicas(2));
      Checkpoint(find_checkpoint(folder.path())).load(got, Scope::Everything, Names::Strict);
    });
    EXPECT_THAT(message, HasSubstr(path.string()));
  }
  fs::resize_file(run.step(2) / "rank-00000.safetensors", 100);
  EXPECT_THAT(test::complaint(Fault::Storage, [&] { Checkpoint(run.step(2)); }),
              HasSubstr("manifest.json"));
  auto older = emptied(replicas(1));
  Checkpoint(run.step(1)).load(older, Scope::Everything, Names::Strict);
  expect_equal(older, replicas(1));
}

TEST(Checkpoint, NamesShapesAndTypesAreStrict_CKP_02) {
  const test::TemporaryFolder folder;
  const RunFolder run{folder.path()};
  run_ranks(1, [&](World& world) {
    save(run,
         {.step = 1,
          .tensors = {whole_tensor("a", values({2}, 1)),
                      whole_tensor("b", values({3}, 2)),
                      whole_tensor("x", values({1}, 3))}},
         world.all());
  });
  const Checkpoint saved(run.step(1));
  std::vector<StateTensor> model = {whole_tensor("a", at::zeros({2})),
                                    whole_tensor("b", at::zeros({3})),
                                    whole_tensor("c", at::zeros({4}))};
  const std::string strict =
      test::complaint(Fault::Config, [&] { saved.load(model, Scope::Everything, Names::Strict); });
  EXPECT_THAT(strict, HasSubstr("2 match; missing in the checkpoint: c; not in the model: x"));
  const LoadReport report = saved.load(model, Scope::Everything, Names::Lenient);
  EXPECT_EQ(report.num_loaded, 2);
  EXPECT_THAT(report.missing, testing::ElementsAre("c"));
  EXPECT_THAT(report.unexpected, testing::ElementsAre("x"));
  std::vector<StateTensor> none = {whole_tensor("y", at::zeros({2}))};
  EXPECT_THAT(
      test::complaint(Fault::Config, [&] { saved.load(none, Scope::Everything, Names::Lenient); }),
      HasSubstr("0 match"));
  std::vector<StateTensor> wrong = {whole_tensor("a", at::zeros({3})),
                                    whole_tensor("b", at::zeros({3}, at::kDouble)),
                                    whole_tensor("x", at::zeros({1}))};
  const std::string misfit =
      test::complaint(Fault::Config, [&] { saved.load(wrong, Scope::Everything, Names::Strict); });
  EXPECT_THAT(misfit, HasSubstr("F32 [2], the model F32 [3]"));
  EXPECT_THAT(misfit, HasSubstr("F32 [3], the model F64 [3]"));
}

TEST(Checkpoint, RanksThatDisagreeOnATensorSaveNothing) {
  const test::TemporaryFolder folder;
  const RunFolder run{folder.path()};
  std::vector<std::string> messages(2);
  run_ranks(2, [&](World& world) {
    const int rank = world.rank().value;
    messages[static_cast<std::size_t>(rank)] = test::complaint(Fault::Mismatch, [&] {
      save(run, {.step = 1, .tensors = {whole_tensor("w", values({4 + rank}, 0))}}, world.all());
    });
  });
  for (const std::string& message : messages)
    EXPECT_THAT(message, HasSubstr("F32 [4] (rank 0), found F32 [5] (rank 1)"));
  EXPECT_TRUE(steps_in(run).empty());
  EXPECT_FALSE(fs::exists(run.partial(1)));
}

TEST(Checkpoint, AFullDiskLeavesTheOldOneWhole_CKP_09) {
  const test::TemporaryFolder folder;
  const fs::path disk = folder / "disk";
  fs::create_directories(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=256k") != 0)
    GTEST_SKIP() << "mounting a small disk needs root";
  const RunFolder run{disk};
  std::vector<std::string> messages(2);
  run_ranks(2, [&](World& world) {
    const auto tensors = [](double step) {
      return std::vector<StateTensor>{whole_tensor("a", values({100, 120}, step)),
                                      whole_tensor("b", values({100, 130}, step))};
    };
    save(run, {.step = 1, .tensors = tensors(1)}, world.all());
    messages[static_cast<std::size_t>(world.rank().value)] = test::complaint(Fault::Storage, [&] {
      save(run,
           {.step = 2,
            .tensors = tensors(2),
            .state = cat("{\"filler\":\"", std::string(100000, 'x'), "\"}")},
           world.all());
    });
  });
  for (const std::string& message : messages)
    EXPECT_THAT(message, testing::Not(HasSubstr("no error")));
  EXPECT_THAT(messages[0] + messages[1],
              testing::AnyOf(HasSubstr("No space left"), HasSubstr("no room")));
  EXPECT_EQ(latest_step(run), 1);
  EXPECT_FALSE(fs::exists(run.partial(2)));
  Checkpoint(run.step(1)).verify();
  ::umount(disk.c_str());
}

}  // namespace
}  // namespace lockstep::checkpoint
