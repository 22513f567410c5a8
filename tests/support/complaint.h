// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::test {

/// The text of the Error that `body` throws, which must be of `fault`; "no error" when it throws none.
template <typename Body>
std::string complaint(Fault fault, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), fault) << error.what();
    return error.what();
  }
  return "no error";
}

}  // namespace lockstep::test
