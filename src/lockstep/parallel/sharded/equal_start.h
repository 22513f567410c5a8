// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/group.h"
#include "lockstep/parallel/sharded/data_parallel.h"
#include "lockstep/parallel/sharded/flat_values.h"
#include "lockstep/parallel/sharded/parameter_table.h"

namespace lockstep::sharded {

// All are collective; with one rank they do nothing.

/// Throws the same Mismatch on every rank: the counts where they differ, and the first name, shape
/// or type that does.
void check_same_structure(const ParameterTable& table, const Group& group);

/// Rank 0's parameters and buffers everywhere, then a hash of each compared. Errors: Mismatch
/// naming the first that differs.
void make_equal(const ParameterTable& table, const FlatValues& values, const Group& group);

/// Throws the same Mismatch on every rank, naming the first parameter or buffer that differs and
/// the rank.
void check_equal_values(const ParameterTable& table, const Group& group);

/// Rank0: its buffers everywhere. Average: floating-point buffers are averaged, others are rank
/// 0's.
void sync_buffers(const ParameterTable& table, const Group& group, BufferPolicy policy);

}  // namespace lockstep::sharded
