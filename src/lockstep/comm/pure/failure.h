// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep {

/// One rank's failure as the others see it, and as the job's first cause.
struct Failure {
  int rank = 0;
  Facts facts;       ///< what it threw; for a foreign exception the problem is its first line
  std::string text;  ///< the rendered error
  std::string
      operation;      ///< the last operation of that rank, "all_reduce #16 on all (ranks 0 1 2)"
  std::string phase;  ///< what it was doing
};

Failure failure_of(int rank, const std::exception& error);

std::string to_json(const Failure& failure);
Failure failure_from_json(std::string_view json);

/// The error of a rank that stops because of `failure`: Peer, naming the rank that failed first and its cause. What was found
/// out about a group of this rank (Mismatch, or who is missing) stays as it is, with the same facts.
Facts consequence_of(const Failure& failure, const Where& where);

}  // namespace lockstep
