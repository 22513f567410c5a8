// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/config/config.h"

namespace lockstep::schema {

/// Fills a Config from TOML, a file and then single settings, and collects what is wrong on the
/// way.
class Reader {
 public:
  /// Throws Config at once for bad syntax: what follows could only mislead.
  void take_file(std::string_view text, std::string_view name);
  void take_set(const std::string& set);
  /// The configuration, or one Config error with every finding.
  Config finish() const;

 private:
  Config config_;
  std::vector<Finding> findings_;
};

}  // namespace lockstep::schema
