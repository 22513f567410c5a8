// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/pure/layout.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/pure/block_file.h"

#include "support/complaint.h"
#include "support/process.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

void write_partial(const RunFolder& run, std::int64_t step, const std::string& mark) {
  fs::create_directories(run.partial(step));
  test::write_file(run.partial(step) / "manifest.json", mark);
}

TEST(RunFolder, AStepBecomesTheLatestWhenItIsPublished) {
  const test::TemporaryFolder folder;
  const RunFolder run{folder.path()};
  EXPECT_EQ(latest_step(run), std::nullopt);
  write_partial(run, 20, "a");
  EXPECT_TRUE(steps_in(run).empty());
  publish(run, 20);
  write_partial(run, 1000000, "b");
  publish(run, 1000000);
  EXPECT_THAT(steps_in(run), ElementsAre(20, 1000000));
  EXPECT_EQ(latest_step(run), 1000000);
  EXPECT_EQ(find_checkpoint(folder.path()), run.step(1000000));
  EXPECT_EQ(find_checkpoint(run.step(20)), run.step(20));
  EXPECT_TRUE(fs::exists(folder.path() / "latest" / "manifest.json"));
}

TEST(RunFolder, ANewerCheckpointOfAStepTakesThePlaceOfTheOld) {
  const test::TemporaryFolder folder;
  const RunFolder run{folder.path()};
  write_partial(run, 5, "old");
  publish(run, 5);
  write_partial(run, 5, "new");
  publish(run, 5);
  EXPECT_EQ(read_text(run.step(5) / "manifest.json"), "new");
  EXPECT_FALSE(fs::exists(run.replaced(5)));
}

TEST(RunFolder, LeftOversGoAndACheckpointSetAsideComesBack_CKP_04) {
  const test::TemporaryFolder folder;
  const RunFolder run{folder.path()};
  write_partial(run, 5, "good");
  publish(run, 5);
  write_partial(run, 7, "set aside");
  fs::rename(run.partial(7), run.replaced(7));  // killed between the two renames
  fs::create_directories(run.partial(9));       // killed while writing
  fs::create_directories(run.step(3));          // killed while removing
  fs::create_symlink("checkpoints/x", folder / ".latest.moving");
  EXPECT_THAT(clean_left_overs(run),
              ElementsAre(".step-000009.partial", "step-000003", ".latest.moving"));
  EXPECT_THAT(steps_in(run), ElementsAre(5, 7));
  EXPECT_EQ(latest_step(run), 5);
  EXPECT_TRUE(clean_left_overs(run).empty());
}

TEST(RunFolder, ACheckpointSetAsideIsFoundWhileLatestPointsToNothing_CKP_04) {
  const test::TemporaryFolder folder;
  const RunFolder run{folder.path()};
  write_partial(run, 6, "good");
  publish(run, 6);
  fs::rename(run.step(6), run.replaced(6));  // killed between the two renames
  for (const fs::path& given : {folder.path(), run.step(6)}) {
    const fs::path found = find_checkpoint(given);
    EXPECT_EQ(found, run.replaced(6));
    EXPECT_TRUE(is_set_aside(found));
    EXPECT_EQ(put_back(found), found);
  }
  clean_left_overs(run);
  EXPECT_EQ(put_back(run.replaced(6)), run.step(6));
  EXPECT_EQ(find_checkpoint(folder.path()), run.step(6));
  EXPECT_FALSE(is_set_aside(run.step(6)));
}

TEST(RunFolder, SaysWhatIsMissing) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(test::complaint(Fault::Storage, [&] { find_checkpoint(folder / "nothing"); }),
              HasSubstr("no such folder"));
  EXPECT_THAT(test::complaint(Fault::Storage, [&] { find_checkpoint(folder.path()); }),
              HasSubstr("neither manifest.json nor a link"));
  fs::create_symlink("checkpoints/step-000004", folder / "latest");
  EXPECT_THAT(test::complaint(Fault::Storage, [&] { find_checkpoint(folder.path()); }),
              HasSubstr("points to checkpoints/step-000004"));
}

TEST(Keep, DeletesTheOldestAndNeverTheExempt_CKP_09) {
  EXPECT_THAT(steps_to_delete({1, 2, 3, 4, 5}, 5, 2, {}), ElementsAre(1, 2, 3));
  EXPECT_THAT(steps_to_delete({1, 2, 3, 4, 5}, 5, 2, {1}), ElementsAre(2, 3));
  EXPECT_THAT(steps_to_delete({1}, 1, 3, {}), ElementsAre());
  EXPECT_THROW(steps_to_delete({1, 2}, 2, 0, {}), Error);
}

TEST(Keep, NeverDeletesWhatWasJustSavedAndTheAbandonedBranchFirst_CKP_09) {
  EXPECT_THAT(steps_to_delete({4, 7, 9}, 4, 1, {}), ElementsAre(7, 9));
  EXPECT_THAT(steps_to_delete({2, 3, 4, 7, 9}, 4, 2, {}), ElementsAre(7, 9, 2));
  EXPECT_THAT(steps_to_delete({2, 3, 4, 7, 9}, 4, 4, {}), ElementsAre(7));
  EXPECT_THAT(steps_to_delete({3, 4, 7, 9}, 4, 1, {3, 9}), ElementsAre(7));
}

TEST(StepName, SortsByStepAndReadsBack) {
  EXPECT_EQ(step_name(20), "step-000020");
  EXPECT_EQ(step_of("step-000020"), 20);
  EXPECT_EQ(step_of("step-20"), std::nullopt);
  EXPECT_EQ(step_of("step-00002x"), std::nullopt);
  EXPECT_EQ(step_of(step_name(12345678)), 12345678);
}

class BlockFile : public testing::Test {
 protected:
  FileRecord write(const std::string& text, std::int64_t block_bytes) {
    BlockWriter writer(path_, block_bytes);
    writer.append(text.substr(0, 10));
    writer.append(text.substr(10));
    return writer.finish();
  }
  test::TemporaryFolder folder_;
  fs::path path_ = folder_ / "rank-00000.safetensors";
};

TEST_F(BlockFile, ReadsAnyRangeAndVerifiesOnlyItsBlocks) {
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += static_cast<char>('a' + i % 26);
  const FileRecord record = write(text, 64);
  EXPECT_EQ(record.blocks.size(), 16U);
  {
    std::fstream file(path_, std::ios::in | std::ios::out);
    file.seekp(700);
    file.put('!');
  }
  BlockReader reader(path_, record, 64);
  std::string got(300, ' ');
  reader.read(333, got);
  EXPECT_EQ(got, text.substr(333, 300));
  const std::string message = test::complaint(Fault::Storage, [&] { reader.read(650, got); });
  EXPECT_THAT(message, HasSubstr(path_.string()));
  EXPECT_THAT(message, HasSubstr("checksum of bytes 640 to 704 is wrong"));
  EXPECT_THAT(test::complaint(Fault::Storage, [&] { reader.read(900, got); }),
              HasSubstr("outside the file"));
}

TEST_F(BlockFile, ACutByteIsFoundByItsSize_CKP_04) {
  const FileRecord record = write(std::string(500, 'x'), 64);
  fs::resize_file(path_, 499);
  EXPECT_THAT(test::complaint(Fault::Storage, [&] { BlockReader(path_, record, 64); }),
              HasSubstr("expected 500 bytes, found 499 bytes"));
}

TEST_F(BlockFile, TwoWritersOfOneFileAreAnError_CKP_03) {
  const BlockWriter first(path_, 64);
  EXPECT_THAT(test::complaint(Fault::Storage, [&] { BlockWriter(path_, 64); }),
              HasSubstr("two writers of one file"));
}

TEST_F(BlockFile, WhatIsNotFinishedLeavesNoFile) {
  {
    BlockWriter(path_, 64).append("abc");
  }
  EXPECT_FALSE(fs::exists(path_));
}

TEST(ManifestFile, KnowsWhenItWasChanged) {
  const Manifest manifest{.step = 20,
                          .num_ranks = 3,
                          .block_bytes = 64,
                          .files = {{"f", 100, {"a", "b"}}},
                          .state = R"({"lr":0.1})"};
  const std::string text = to_json(manifest);
  const Manifest back = parse_manifest(text, "manifest.json");
  EXPECT_EQ(back.step, 20);
  EXPECT_EQ(back.file("f", "here").blocks, manifest.files[0].blocks);
  EXPECT_EQ(back.state, R"({"lr":0.1})");
  std::string changed = text;
  changed.replace(changed.find("0.1"), 3, "0.2");
  EXPECT_THAT(test::complaint(Fault::Storage, [&] { parse_manifest(changed, "manifest.json"); }),
              HasSubstr("own checksum"));
  EXPECT_THAT(
      test::complaint(Fault::Storage, [&] { parse_manifest(text.substr(0, 50), "manifest.json"); }),
      HasSubstr("cannot be read"));
  EXPECT_THAT(test::complaint(Fault::Storage, [&] { (void)back.file("g", "here"); }),
              HasSubstr("does not list g"));
}

}  // namespace
}  // namespace lockstep::checkpoint
