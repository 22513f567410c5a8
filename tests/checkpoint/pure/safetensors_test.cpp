// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/pure/safetensors.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
namespace {

using testing::HasSubstr;

std::string file_of(std::string json, std::size_t data_bytes) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i)
    bytes[i] = static_cast<char>((json.size() >> (8 * i)) & 0xFF);
  return bytes + json + std::string(data_bytes, 'd');
}

SafetensorsHeader parse(const std::string& file) {
  return parse_header(file, static_cast<std::int64_t>(file.size()), "model.safetensors");
}

std::string refusal(const std::string& file) {
  try {
    parse(file);
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::Storage);
    EXPECT_THAT(e.what(), HasSubstr("model.safetensors"));
    return e.what();
  }
  return "accepted";
}

TEST(Safetensors, ReadsBackWhatItWroteWithTheWidestTypesFirst) {
  const auto header = lay_out({{.name = "small", .dtype = DType::U8, .shape = {3}},
                               {.name = "half", .dtype = DType::BF16, .shape = {5}},
                               {.name = "scalar", .dtype = DType::I64, .shape = {}},
                               {.name = "empty", .dtype = DType::F32, .shape = {0, 7}},
                               {.name = "wide", .dtype = DType::F32, .shape = {2, 3}}},
                              {{"format", "pt"}});
  const std::string bytes = header_bytes(header);
  EXPECT_EQ(bytes.size() % 8, 0U);
  const std::string file =
      bytes + std::string(static_cast<std::size_t>(header.file_bytes()) - bytes.size(), 'x');
  const auto back = parse(file);
  EXPECT_EQ(back.metadata.at("format"), "pt");
  ASSERT_EQ(back.tensors.size(), 5U);
  for (const auto& tensor : back.tensors) {
    EXPECT_EQ(tensor.begin_bytes % bytes_of(tensor.dtype), 0) << tensor.name;
    EXPECT_EQ(tensor.shape, header.find(tensor.name)->shape);
  }
  EXPECT_EQ(back.tensors.front().name, "scalar");
  EXPECT_EQ(back.find("wide")->end_bytes - back.find("wide")->begin_bytes, 24);
  EXPECT_EQ(back.find("other"), nullptr);
}

TEST(Safetensors, RefusesTwoTensorsOfOneName) {
  EXPECT_THROW(lay_out({{.name = "a", .shape = {1}}, {.name = "a", .shape = {2}}}, {}), Error);
}

TEST(Safetensors, ChecksTheHeaderLengthBeforeReadingOn) {
  EXPECT_THAT(refusal("abc"), HasSubstr("shorter than the length"));
  std::string huge = file_of("{}", 0);
  huge[7] = '\x7F';
  EXPECT_THAT(refusal(huge), HasSubstr("cap"));
  std::string longer = file_of("{}", 0);
  longer[0] = 100;
  EXPECT_THAT(refusal(longer), HasSubstr("longer than the file"));
}

TEST(Safetensors, NamesTheTensorThatLiesWhereItCannot) {
  const auto one = [](const std::string& fields, std::size_t data) {
    return refusal(file_of(cat("{\"w\":", fields, "}"), data));
  };
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 7),
              HasSubstr("'w' lies outside"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", 8),
              HasSubstr("'w' lies outside"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", 8),
              HasSubstr("bytes of its shape"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[2],"data_offsets":[4,12]})", 12), HasSubstr("gap"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 9),
              HasSubstr("does not end with the file"));
  EXPECT_THAT(one(R"({"dtype":"F99","shape":[2],"data_offsets":[0,8]})", 8),
              HasSubstr("not known"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", 8),
              HasSubstr("negative"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]})", 8),
              HasSubstr("more bytes"));
  EXPECT_THAT(one(R"({"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,8]})", 8),
              HasSubstr("more bytes"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})", 8),
              HasSubstr("too large"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[2.5],"data_offsets":[0,8]})", 8),
              HasSubstr("whole number"));
  EXPECT_THAT(one("7", 8), HasSubstr("has no dtype"));
  EXPECT_THAT(
      refusal(file_of(
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
          6)),
      HasSubstr("'b' overlaps"));
  EXPECT_THAT(
      refusal(file_of(
          R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
          0)),
      HasSubstr("occurs twice"));
  EXPECT_THAT(refusal(file_of("[1]", 0)), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal(file_of("{", 0)), HasSubstr("no JSON object"));
}

TEST(Safetensors, DamagedBytesAreRefusedOrReadButNeverCrash) {
  const auto header =
      lay_out({{.name = "a", .shape = {4, 4}}, {.name = "b", .dtype = DType::I64, .shape = {3}}},
              {{"k", "v"}});
  const std::string whole = header_bytes(header) + std::string(88, 'x');
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = whole;
    const std::size_t changes = 1 + random() % 3;
    for (std::size_t c = 0; c < changes; ++c)
      bytes[random() % (bytes.size() - 80)] = static_cast<char>(random() % 256);
    if (round % 5 == 0)
      bytes.resize(random() % bytes.size());
    try {
      parse(bytes);
    } catch (const Error& e) {
      EXPECT_EQ(e.fault(), Fault::Storage);
    }
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
