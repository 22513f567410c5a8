// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/config/config.h"

namespace lockstep::train {

/// Texts of all ranks, by rank, for one of this rank: Group::gather_text. Collective.
using GatherText =
    std::function<std::vector<std::string>(std::string_view mine, std::string_view subject)>;

/// What every rank must want alike for the ranks to stay equal: names with their values as text, in a fixed order.
using RunValues = std::vector<std::pair<std::string, std::string>>;

/// Every key of a resolved configuration that has a value: "optimizer.lr" with "0.001"; the keys of a parameter group carry its
/// number: "optimizer.group[0].lr".
RunValues values_of(const Config& resolved);

/// Under a launcher each rank reads a command line and a file of its own, and nothing later would notice that they train
/// differently: learning rate, clipping, decay, dropout and length act on each rank alone.
///
/// Contract  Every rank calls, before anything is written.
/// Cost      one exchange of 16 bytes a rank; of the whole text only where ranks differ.
/// Errors    Mismatch, on every rank alike: the first value in which a rank differs from rank 0, with both.
void check_same_run(const RunValues& mine, int rank, const GatherText& gather);

}  // namespace lockstep::train
