// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/pure/index.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/pure/safetensors.h"

namespace lockstep::checkpoint {
namespace {

using testing::HasSubstr;
using Sizes = std::vector<std::int64_t>;

/// Cuts [0, size) in n parts that differ by one at most.
std::pair<std::int64_t, std::int64_t> slice(std::int64_t size, int n, int i) {
  return {size * i / n, size * (i + 1) / n};
}

/// Columns over `tp`, then each box flat over `dp`: a mesh of tp x dp pieces.
std::vector<Part> cut(const Sizes& shape, int tp, int dp) {
  std::vector<Part> parts;
  for (int t = 0; t < tp; ++t) {
    Part box = whole(shape);
    const auto [low, high] = slice(shape.back(), tp, t);
    box.offset.back() = low;
    box.extent.back() = high - low;
    const std::int64_t all = num_elements(box.extent);
    for (int d = 0; d < dp; ++d) {
      std::tie(box.begin, box.end) = slice(all, dp, d);
      parts.push_back(box);
    }
  }
  return parts;
}

/// The values of a part when element i of the tensor has the value i.
std::vector<std::int64_t> values_of(const Part& part, const Sizes& shape) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = part.begin; i < part.end; ++i) {
    std::int64_t rest = i;
    std::int64_t value = 0;
    std::int64_t stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      value += (part.offset[d] + rest % part.extent[d]) * stride;
      rest /= part.extent[d];
      stride *= shape[d];
    }
    values.push_back(value);
  }
  return values;
}

IndexEntry entry_of(const Sizes& shape, const std::vector<Part>& parts) {
  IndexEntry entry{.name = "w", .shape = shape};
  for (std::size_t i = 0; i < parts.size(); ++i)
    entry.pieces.push_back({.file = cat("f", i), .key = "w", .part = parts[i]});
  return entry;
}

TEST(Reshard, AnyMeshReadsWhatAnyOtherWrote) {
  const Sizes shape = {3, 5, 7};
  for (const auto& [tp, dp] :
       {std::pair(1, 1), std::pair(1, 4), std::pair(2, 3), std::pair(7, 2), std::pair(3, 5)}) {
    const auto written = cut(shape, tp, dp);
    const IndexEntry entry = entry_of(shape, written);
    EXPECT_EQ(coverage_fault(entry), "");
    for (const auto& [new_tp, new_dp] :
         {std::pair(1, 1), std::pair(1, 3), std::pair(2, 2), std::pair(4, 6)}) {
      for (const Part& wanted : cut(shape, new_tp, new_dp)) {
        std::vector<std::int64_t> got(static_cast<std::size_t>(wanted.size()), -1);
        for (const PieceRead& read : reads_for(entry, wanted)) {
          const auto source = values_of(read.piece->part, shape);
          for (const Stretch& stretch : read.stretches) {
            for (std::int64_t i = 0; i < stretch.count; ++i) {
              auto& place = got[static_cast<std::size_t>(stretch.target + i)];
              EXPECT_EQ(place, -1) << "written twice";
              place = source[static_cast<std::size_t>(stretch.source + i)];
            }
          }
        }
        EXPECT_EQ(got, values_of(wanted, shape))
            << tp << "x" << dp << " to " << new_tp << "x" << new_dp;
      }
    }
  }
}

TEST(Reshard, ReadsOnlyThePiecesThatMeetTheWantedSlice) {
  const Sizes shape = {100};
  const IndexEntry entry = entry_of(shape, cut(shape, 1, 10));
  Part wanted = whole(shape);
  wanted.begin = 35;
  wanted.end = 45;
  const auto reads = reads_for(entry, wanted);
  ASSERT_EQ(reads.size(), 2U);
  EXPECT_EQ(reads[0].piece->file, "f3");
  EXPECT_EQ(reads[0].stretches, (std::vector<Stretch>{{5, 0, 5}}));
  EXPECT_EQ(reads[1].stretches, (std::vector<Stretch>{{0, 5, 5}}));
}

TEST(Reshard, EqualBoxesAreOneRun) {
  EXPECT_EQ(common_stretches(whole({64, 33}), whole({64, 33})),
            (std::vector<Stretch>{{0, 0, 64 * 33}}));
}

TEST(Reshard, ScalarsAndEmptyTensorsAreParts) {
  EXPECT_EQ(common_stretches(whole({}), whole({})), (std::vector<Stretch>{{0, 0, 1}}));
  EXPECT_TRUE(common_stretches(whole({0, 3}), whole({0, 3})).empty());
  EXPECT_EQ(coverage_fault(entry_of({0, 3}, {whole({0, 3})})), "");
}

TEST(Index, ReadsBackWhatItWrote) {
  Index index;
  index.entries = {entry_of({4, 6}, cut({4, 6}, 2, 2))};
  index.aliases = {{"head", "w"}};
  const Index back = parse_index(to_json(index), "index.json");
  ASSERT_NE(back.find("head"), nullptr);
  EXPECT_EQ(back.find("head")->name, "w");
  ASSERT_EQ(back.find("w")->pieces.size(), 4U);
  EXPECT_EQ(back.find("w")->pieces[3].part, index.entries[0].pieces[3].part);
  EXPECT_EQ(back.find("x"), nullptr);
}

std::string refusal(const Index& index) {
  try {
    parse_index(to_json(index), "index.json");
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::Storage);
    return e.what();
  }
  return "accepted";
}

TEST(Index, RefusesPiecesThatDoNotMakeTheTensor) {
  auto parts = cut({4, 6}, 1, 3);
  parts.pop_back();
  EXPECT_THAT(refusal({.entries = {entry_of({4, 6}, parts)}}), HasSubstr("16 of 24"));
  parts.push_back(parts.front());
  EXPECT_THAT(refusal({.entries = {entry_of({4, 6}, parts)}}),
              HasSubstr("f0 and f2 hold the same"));
  EXPECT_THAT(refusal({.entries = {entry_of({4, 6}, {whole({4, 7})})}}),
              HasSubstr("leaves the tensor in dim 1"));
  EXPECT_THAT(refusal({.entries = {entry_of({4, 6}, {whole({24})})}}),
              HasSubstr("1 dims in a tensor of 2"));
  EXPECT_THAT(refusal({.aliases = {{"a", "b"}}}), HasSubstr("'a' stands for 'b'"));
}

TEST(Index, RefusesAFileOutsideTheCheckpoint) {
  IndexEntry entry = entry_of({2}, {whole({2})});
  entry.pieces[0].file = "../other";
  EXPECT_THAT(refusal({.entries = {entry}}), HasSubstr("outside the checkpoint"));
}

}  // namespace
}  // namespace lockstep::checkpoint
