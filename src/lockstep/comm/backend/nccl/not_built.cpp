// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/comm/backend/backend.h"

namespace lockstep::comm {

std::string why_no_nccl() { return "it was built without LOCKSTEP_CUDA"; }

std::unique_ptr<Backend> connect_nccl(const Meeting&) {
  throw Error(
      {.fault = Fault::Config,
       .where = {.subject = "backend nccl"},
       .problem = "this build sends no CUDA tensors",
       .cause = why_no_nccl(),
       .next = "Build the preset cuda with a CUDA wheel of torch, or copy the tensors to the CPU"});
}

}  // namespace lockstep::comm
