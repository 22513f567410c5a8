// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/comm/backend/backend.h"

namespace lockstep::comm {

std::string why_no_gloo() {
  return "its declarations were not checked against this version of libtorch";
}

std::unique_ptr<Backend> connect_gloo(const Meeting&) {
  throw Error({.fault = Fault::Config,
               .where = {.subject = "backend gloo"},
               .problem = "this build has no Gloo backend",
               .cause = why_no_gloo(),
               .next = "Build with torch 2.13.0 (or 2.14.1)"});
}

}  // namespace lockstep::comm
