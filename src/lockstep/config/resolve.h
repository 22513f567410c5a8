// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/config/config.h"

namespace lockstep {

/// A step's batch in sequences: global = micro * accumulation * data-parallel size.
struct BatchSizes {
  std::int64_t micro = 1;
  std::int64_t accumulation = 1;
  std::int64_t global = 1;
  friend bool operator==(const BatchSizes&, const BatchSizes&) = default;
};

/// Ranks along each mesh axis, outermost first.
struct ParallelSizes {
  std::int64_t pp = 1, dp_replicate = 1, dp_shard = 1, cp = 1, tp = 1;
  std::int64_t data_parallel() const { return dp_replicate * dp_shard; }
  std::int64_t world() const { return pp * data_parallel() * cp * tp; }
  friend bool operator==(const ParallelSizes&, const ParallelSizes&) = default;
};

/// Types of mixed training: "fp64", "fp32", "bf16" or "fp16"; `master` may be "none".
struct PrecisionPolicy {
  std::string compute, reduce, wire, master;
  friend bool operator==(const PrecisionPolicy&, const PrecisionPolicy&) = default;
};

/// A configuration for a world of known size. In `config` the derived values are filled in, so that
/// printing it gives the effective configuration; resolving that again changes nothing.
struct Resolved {
  Config config;
  BatchSizes batch;
  ParallelSizes parallel;
  PrecisionPolicy precision;
};

/// Derives what was not said and refuses what cannot work, all findings in one Config error.
///
/// Batch      Of micro, accumulation and global any two give the third with the data-parallel size
///            D; micro or global alone means accumulation = 1; three that disagree are an error
///            with the three numbers and D.
/// Parallel   Axes are 1 unless said; one may be "rest". The data axis (dp_replicate at zero 0,
///            else dp_shard) is "rest" unless it is said or another axis is "rest". The product is
///            the world size.
/// Precision  reduce: fp64 for fp64, else fp32. wire: as reduce. master: fp32 for 16-bit compute,
///            else none.
Resolved resolve(const Config& config, std::int64_t world_size);

/// What may be asked for by the schema but is not in this version: one finding each. Later versions
/// shorten the table.
std::vector<Finding> unsupported(const Resolved& resolved);

/// What unsupported_text says of a key of which only the default is there.
inline constexpr std::string_view kNotInThisVersion = "not in this version";

/// What the same table says of a key, for the manual: "not in this version" where only the default is there, "not in this
/// version: shm" where some words are not; empty where all of it is there.
std::string unsupported_text(std::string_view section, std::string_view key);

}  // namespace lockstep
