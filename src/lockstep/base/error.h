// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// What kind of thing went wrong. The value is the exit status of a process that ends because of it.
enum class Fault {
  Usage = 2,        ///< the command line
  Config = 3,       ///< values, or the build, cannot work
  Environment = 4,  ///< port, file, device, variable
  Mismatch = 5,     ///< ranks disagree; found before data moved
  Peer = 6,         ///< another rank died or is late
  Storage = 7,      ///< file unreadable or unwritable, checksum wrong; old files are untouched
  Numeric = 8,      ///< not finite; parameters were not stepped
  Internal = 70,    ///< our own bug
};

std::string_view name_of(Fault fault);

/// Where it happened. What is not known stays empty and is left out of the text.
struct Where {
  std::optional<int> rank;
  std::string group;      ///< label of the group, e.g. "dp_shard (ranks 1 3 5 7)"
  std::string operation;  ///< e.g. "all_reduce #417"
  std::string subject;    ///< the tensor, file, key or flag it is about
};

/// The facts of one error. `problem` is a lower-case clause, `next` an order that a user can carry out.
struct Facts {
  Fault fault = Fault::Internal;
  Where where;
  std::string problem;
  std::string expected;
  std::string found;
  std::string cause;  ///< first line of a foreign error that lies beneath
  std::string next;
};

/// "[rank 3] all_reduce #417 on dp (ranks 1 3), x: problem; expected a, found b (cause). Next."
std::string render(const Facts& facts);

/// The one exception of the library: facts, and the text made of them.
class Error : public std::exception {
 public:
  explicit Error(Facts facts);
  const char* what() const noexcept override { return text_.c_str(); }
  const Facts& facts() const { return facts_; }
  Fault fault() const { return facts_.fault; }
  int exit_status() const { return static_cast<int>(facts_.fault); }

 private:
  Facts facts_;
  std::string text_;
};

/// One "no" of several that a caller expects, such as a wrong configuration value.
struct Finding {
  std::string where;  ///< "run.toml:12, optimizer.lr"
  std::string what;
  std::string next;
};

/// Throws one Error of `fault` that lists every finding, a line each. Does nothing when there is none.
void throw_findings(Fault fault, std::string_view summary, std::span<const Finding> findings);

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace lockstep

/// For our own bugs, never for input.
#define LOCKSTEP_ASSERT(condition) \
  ((condition) ? void() : ::lockstep::assertion_failed(#condition, __FILE__, __LINE__))
