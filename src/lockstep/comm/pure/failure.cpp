// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/pure/failure.h"

#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"

namespace lockstep {

Failure failure_of(int rank, const std::exception& error) {
  Failure failure{.rank = rank, .facts = {}, .text = error.what(), .operation = "", .phase = ""};
  if (const auto* ours = dynamic_cast<const Error*>(&error)) {
    failure.facts = ours->facts();
  } else {
    failure.facts = {.fault = Fault::Internal, .problem = first_line(error.what())};
  }
  return failure;
}

std::string to_json(const Failure& failure) {
  const Facts& facts = failure.facts;
  const nlohmann::json json = {{"rank", failure.rank},
                               {"text", failure.text},
                               {"operation", failure.operation},
                               {"phase", failure.phase},
                               {"fault", static_cast<int>(facts.fault)},
                               {"group", facts.where.group},
                               {"where_operation", facts.where.operation},
                               {"subject", facts.where.subject},
                               {"problem", facts.problem},
                               {"expected", facts.expected},
                               {"found", facts.found},
                               {"cause", facts.cause},
                               {"next", facts.next}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Failure failure_from_json(std::string_view json) {
  const nlohmann::json read = nlohmann::json::parse(json);
  const auto text = [&](const char* key) { return read.at(key).get<std::string>(); };
  Failure failure{.rank = read.at("rank"),
                  .facts = {},
                  .text = text("text"),
                  .operation = text("operation"),
                  .phase = text("phase")};
  failure.facts = {.fault = static_cast<Fault>(read.at("fault").get<int>()),
                   .where = {.rank = failure.rank,
                             .group = text("group"),
                             .operation = text("where_operation"),
                             .subject = text("subject")},
                   .problem = text("problem"),
                   .expected = text("expected"),
                   .found = text("found"),
                   .cause = text("cause"),
                   .next = text("next")};
  return failure;
}

Facts consequence_of(const Failure& failure, const Where& where) {
  const bool told_alike =
      failure.facts.fault == Fault::Mismatch || failure.facts.fault == Fault::Peer;
  if (told_alike && failure.facts.where.group == where.group) {
    Facts same = failure.facts;
    same.where.rank = where.rank;
    return same;
  }
  std::string problem = cat("rank ", failure.rank, " failed");
  if (!failure.phase.empty())
    problem += cat(" in phase ", failure.phase);
  return {
      .fault = Fault::Peer,
      .where = where,
      .problem = std::move(problem),
      .cause = first_line(failure.text),
      .next = cat("Look at the error of rank ", failure.rank, " first; this one follows from it")};
}

}  // namespace lockstep
