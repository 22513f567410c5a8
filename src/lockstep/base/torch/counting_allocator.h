// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// Makes libtorch's CPU tensors count in the ledger of base/memory.h, under the tag of the thread that takes the block.
/// For programs, at their start; a library never does this by being loaded. Calling it again does nothing.
/// Cost: 64 bytes more a block.
void install_counting_allocator();

}  // namespace lockstep
