// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"

#include <utility>

#include "lockstep/base/text.h"

namespace lockstep {

namespace {

bool ends_sentence(std::string_view text) {
  return !text.empty() && std::string_view(".?\n").find(text.back()) != std::string_view::npos;
}

}  // namespace

std::string_view name_of(Fault fault) {
  switch (fault) {
    case Fault::Usage: return "usage";
    case Fault::Config: return "config";
    case Fault::Environment: return "environment";
    case Fault::Mismatch: return "mismatch";
    case Fault::Peer: return "peer";
    case Fault::Storage: return "storage";
    case Fault::Numeric: return "numeric";
    case Fault::Internal: return "internal";
  }
  return "internal";
}

std::string render(const Facts& facts) {
  const Where& where = facts.where;
  std::string place = where.operation;
  if (!where.group.empty())
    place += cat(place.empty() ? "" : " ", "on ", where.group);
  if (!where.subject.empty())
    place += cat(place.empty() ? "" : ", ", where.subject);

  std::string text = where.rank ? cat("[rank ", *where.rank, "] ") : std::string();
  if (!place.empty())
    text += cat(place, ": ");
  text += facts.problem;
  if (!facts.expected.empty())
    text += cat("; expected ", facts.expected);
  if (!facts.found.empty())
    text += cat(facts.expected.empty() ? "; found " : ", found ", facts.found);
  if (!facts.cause.empty())
    text += cat(" (", first_line(facts.cause), ")");
  if (!facts.next.empty())
    text += cat(ends_sentence(text) ? " " : ". ", facts.next);
  return text;
}

Error::Error(Facts facts) : facts_(std::move(facts)), text_(render(facts_)) {}

void throw_findings(Fault fault, std::string_view summary, std::span<const Finding> findings) {
  if (findings.empty())
    return;
  std::string problem(summary);
  for (const Finding& finding : findings) {
    problem += cat("\n  ", finding.where, ": ", finding.what);
    if (!finding.next.empty())
      problem += cat(ends_sentence(problem) ? " " : ". ", finding.next);
  }
  throw Error({.fault = fault, .problem = problem});
}

void assertion_failed(const char* condition, const char* file, int line) {
  throw Error({.fault = Fault::Internal,
               .where = {.subject = cat(file, ":", line)},
               .problem = cat("this should hold: ", condition),
               .next = "Please report it with the command that led here"});
}

}  // namespace lockstep
