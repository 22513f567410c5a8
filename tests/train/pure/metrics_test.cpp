// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/pure/metrics.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/train/pure/event_file.h"
#include "lockstep/train/pure/run_folder.h"
#include "lockstep/train/pure/run_state.h"
#include "lockstep/train/pure/trace.h"

#include "support/process.h"

namespace lockstep::train {
namespace {

StepMetrics metrics_of(std::int64_t step) {
  return {.step = step,
          .loss = 1.0 / 3 + 1e-17 * static_cast<double>(step),
          .sent_bytes = {1, 2},
          .peak_memory_bytes = {3, 4}};
}

TEST(Metrics, NumbersReadBackToTheSameDouble) {
  for (const double loss : {1.0 / 3, 0.1 + 0.2, 5e-324, 1.7976931348623157e308}) {
    StepMetrics metrics = metrics_of(1);
    metrics.loss = loss;
    EXPECT_EQ(nlohmann::json::parse(to_json_line(metrics)).at("loss").get<double>(), loss);
  }
}

TEST(Metrics, EveryFieldHasItsName) {
  const auto json = nlohmann::json::parse(to_json_line(metrics_of(4)));
  for (const char* name : {"step",
                           "loss",
                           "grad_norm",
                           "lr",
                           "step_tokens",
                           "total_tokens",
                           "tokens_per_second",
                           "step_ms",
                           "data_ms",
                           "forward_ms",
                           "backward_ms",
                           "exposed_comm_ms",
                           "optimizer_ms",
                           "sent_bytes",
                           "peak_memory_bytes",
                           "loss_scale",
                           "skipped"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
  EXPECT_EQ(json.at("sent_bytes"), nlohmann::json({1, 2}));
}

TEST(Metrics, ResumingCutsLaterLinesAndWhatACrashLeft) {
  const test::TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  {
    MetricsFile file(path);
    for (int step = 1; step <= 5; ++step)
      file.add(to_json_line(metrics_of(step)));
  }
  std::ofstream(path, std::ios::app) << R"({"step":6,"lo)";
  cut_metrics(path, 3);
  MetricsFile(path).add(to_json_line(metrics_of(4)));
  const auto lines = split(trim(test::read_file(path)), '\n');
  ASSERT_EQ(lines.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(nlohmann::json::parse(lines[i]).at("step"), i + 1);
  cut_metrics(folder / "none", 3);  // no file, nothing to cut
}

TEST(Metrics, WhatNoRunHasWrittenIsRefusedAndStays) {
  const test::TemporaryFolder folder;
  const auto path = folder / "notes";
  const std::string line = to_json_line(metrics_of(1));
  for (const std::string& text : {std::string("my notes\nof last week\n"),
                                  std::string("my notes, no line end"),
                                  cat(line, "\nnotes\n", line, "\n"),
                                  cat(line, "\n{\"step\":2,\"lo\n", line, "\n"),
                                  std::string("{\"key\": 1}\n")}) {
    test::write_file(path, text);
    EXPECT_THROW(check_metrics(path), Error) << text;
    EXPECT_THROW(cut_metrics(path, 9), Error) << text;
    EXPECT_EQ(test::read_file(path), text);
  }
  try {
    test::write_file(path, cat(line, "\nnotes\n"));
    check_metrics(path);
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("line 2"));
    EXPECT_THAT(error.what(), testing::HasSubstr("'notes'"));
  }
  for (const std::string& text :
       {std::string(), cat(line, "\n"), cat(line, "\n{\"st"), line, cat(line, "\n\n")}) {
    test::write_file(path, text);
    EXPECT_NO_THROW(check_metrics(path)) << text;
  }
}

TEST(RunFolder, ATraceOverwritesNothingButATrace) {
  const test::TemporaryFolder folder;
  const RunPlaces places{.out = folder / "run", .resume_from = std::nullopt};
  const auto path = folder / "trace.json";
  EXPECT_NO_THROW(check_files(places, {}, path));
  test::write_file(path, chrome_trace({}));
  EXPECT_NO_THROW(check_files(places, {}, path));
  for (const char* text : {"my notes\n", "{}", "{\"traceEvents"}) {
    test::write_file(path, text);
    EXPECT_THROW(check_files(places, {}, path), Error) << text;
  }
  EXPECT_THROW(check_files(places, {}, "/dev/null"), Error);
}

TEST(EventFile, RecordsCarryLengthAndMaskedChecksums) {
  // The checksum of "123456789" under CRC-32C is e3069283; masked as TensorBoard does it is 1e6b2b24... computed by hand below.
  const std::string record = tensorboard_record("123456789");
  ASSERT_EQ(record.size(), 8U + 4 + 9 + 4);
  EXPECT_EQ(record[0], 9);
  EXPECT_EQ(record.substr(12, 9), "123456789");
  const std::uint32_t crc = 0xE3069283U;
  const std::uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(static_cast<unsigned char>(record[21 + i]), (masked >> (8 * i)) & 0xFF);
  }
}

TEST(Trace, IsAChromeTraceWithAProcessARank) {
  Trace trace;
  trace.add("before", "step", "main", Trace::Clock::now(), Trace::Clock::now());
  trace.start();
  const auto begin = Trace::Clock::now();
  trace.add("layers.0",
            "forward",
            "main",
            begin,
            begin + std::chrono::microseconds(250),
            {{"bytes", "12"}});
  trace.stop();
  trace.add("after", "step", "main", begin, begin);
  ASSERT_EQ(trace.spans().size(), 1U);
  const auto spans = parse_spans(to_json(trace.spans()));
  const auto json = nlohmann::json::parse(chrome_trace({spans, spans}));
  int complete = 0;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") != "X")
      continue;
    EXPECT_EQ(event.at("pid"), complete++);
    EXPECT_NEAR(event.at("dur").get<double>(), 250, 1e-6);
    EXPECT_EQ(event.at("args").at("bytes"), "12");
  }
  EXPECT_EQ(complete, 2);
}

TEST(RunState, ReadsBackWhatItWrote_CKP_05) {
  const RunState state{.step = 5,
                       .total_tokens = 99,
                       .seed = 3,
                       .sampler = {.seed = 3, .epoch = 2, .consumed = 40},
                       .data = {.num_samples = 41,
                                .sequence = 7,
                                .order = "shuffled",
                                .tail = "drop",
                                .checksum = "12ab"},
                       .optimizer_steps = {{"w", 4}},
                       .valid_loss = 0.1,
                       .best = Best{.step = 4, .valid_loss = 0.05},
                       .tokenizer = "byte",
                       .config = "a = 1\n"};
  const RunState back = parse_run_state(to_json(state), "here");
  EXPECT_EQ(back.sampler, state.sampler);
  EXPECT_EQ(back.optimizer_steps, state.optimizer_steps);
  EXPECT_EQ(back.best->valid_loss, 0.05);
  EXPECT_EQ(back.config, "a = 1\n");
  check_same_data(state.data, back.data, "here");
}

TEST(RunState, RefusesOtherDataWithBothValues) {
  const DataIdentity saved{
      .num_samples = 41, .sequence = 7, .order = "shuffled", .tail = "drop", .checksum = "12ab"};
  DataIdentity now = saved;
  now.num_samples = 42;
  now.sequence = 8;
  now.order = "sequential";
  now.tail = "repeat";
  now.checksum = "34cd";
  try {
    check_same_data(saved, now, "step-000005");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Config);
    for (const char* part : {"step-000005",
                             "with 41, this run has 42",
                             "with 7, this run has 8",
                             "with shuffled, this run has sequential",
                             "with drop, this run has repeat",
                             "with 12ab, this run has 34cd"})
      EXPECT_THAT(error.what(), testing::HasSubstr(part));
  }
}

}  // namespace
}  // namespace lockstep::train
