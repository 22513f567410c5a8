// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/pure/rank_identity.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const Variables& variables) {
  try {
    (void)identify_rank(variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Environment);
    return error.what();
  }
  return "";
}

void expect_rank(const Variables& variables,
                 int rank,
                 int size,
                 int local_rank,
                 int local_size,
                 const std::string& source) {
  const RankIdentity found = identify_rank(variables);
  EXPECT_EQ(found.rank, rank) << source;
  EXPECT_EQ(found.size, size) << source;
  EXPECT_EQ(found.local_rank, local_rank) << source;
  EXPECT_EQ(found.local_size, local_size) << source;
  EXPECT_EQ(found.source, source);
}

TEST(RankIdentity, IsOneProcessWithoutAnySign) {
  expect_rank({{"HOME", "/root"}, {"RANK", ""}}, 0, 1, 0, 1, "one process");
}

TEST(RankIdentity, ReadsEachSystemsVariables_LAU_13) {
  expect_rank({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}},
              5,
              8,
              1,
              4,
              "RANK");
  expect_rank({{"PET_NNODES", "3"}, {"PET_NODE_RANK", "2"}, {"PET_NPROC_PER_NODE", "1"}},
              2,
              3,
              0,
              1,
              "PET");
  expect_rank({{"OMPI_COMM_WORLD_RANK", "3"},
               {"OMPI_COMM_WORLD_SIZE", "6"},
               {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}},
              3,
              6,
              0,
              3,
              "Open MPI");
  expect_rank(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}},
      1,
      2,
      1,
      2,
      "PMI");
  expect_rank({{"MV2_COMM_WORLD_RANK", "4"},
               {"MV2_COMM_WORLD_SIZE", "5"},
               {"MV2_COMM_WORLD_LOCAL_RANK", "0"},
               {"MV2_COMM_WORLD_LOCAL_SIZE", "1"}},
              4,
              5,
              0,
              1,
              "MVAPICH");
  expect_rank(
      {{"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_NNODES", "2"}},
      3,
      4,
      1,
      2,
      "Slurm");
}

TEST(RankIdentity, CountsSlurmsTasksPerNode) {
  const Variables base = {{"SLURM_PROCID", "7"},
                          {"SLURM_NTASKS", "8"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_TASKS_PER_NODE", "3(x2),2"}};
  for (const auto& [node, size] : {std::pair<std::string, int>{"0", 3}, {"1", 3}, {"2", 2}}) {
    Variables variables = base;
    variables["SLURM_NODEID"] = node;
    EXPECT_EQ(identify_rank(variables).local_size, size);
  }
}

TEST(RankIdentity, IsNeverZeroByDefaultWhereThereAreSignsOfMore_LAU_13) {
  EXPECT_THAT(
      refusal({{"SLURM_NTASKS", "4"}}),
      AllOf(HasSubstr("SLURM_NTASKS=4"), HasSubstr("SLURM_PROCID unset"), HasSubstr("srun")));
  EXPECT_THAT(refusal({{"WORLD_SIZE", "2"}}), HasSubstr("RANK unset"));
  EXPECT_THAT(refusal({{"RANK", "1"}}), HasSubstr("WORLD_SIZE unset"));
  EXPECT_THAT(refusal({{"OMPI_COMM_WORLD_SIZE", "4"}}), HasSubstr("OMPI_COMM_WORLD_SIZE=4"));
  EXPECT_THAT(refusal({{"PET_NNODES", "2"}, {"PET_NPROC_PER_NODE", "8"}, {"PET_NODE_RANK", "0"}}),
              HasSubstr("lockstep run"));
  expect_rank({{"SLURM_NTASKS", "1"}}, 0, 1, 0, 1, "one process");
}

TEST(RankIdentity, PrintsBothSetsThatDisagree) {
  EXPECT_THAT(
      refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}}),
      AllOf(HasSubstr("RANK says rank 0 of 2"), HasSubstr("Slurm says rank 3 of 4")));
  EXPECT_THAT(refusal({{"OMPI_COMM_WORLD_RANK", "1"},
                       {"OMPI_COMM_WORLD_SIZE", "2"},
                       {"PMI_RANK", "0"},
                       {"PMI_SIZE", "2"}}),
              AllOf(HasSubstr("Open MPI says rank 1 of 2"), HasSubstr("PMI says rank 0 of 2")));
  expect_rank({{"PMI_RANK", "1"},
               {"PMI_SIZE", "2"},
               {"MPI_LOCALRANKID", "1"},
               {"MPI_LOCALNRANKS", "2"},
               {"SLURM_PROCID", "1"},
               {"SLURM_NTASKS", "2"}},
              1,
              2,
              1,
              2,
              "PMI");
}

TEST(RankIdentity, IsTheInnerLaunchersUnderAnotherOne) {
  // lockstep run or torchrun inside a Slurm step or a pod.
  expect_rank({{"RANK", "5"},
               {"WORLD_SIZE", "8"},
               {"LOCAL_RANK", "1"},
               {"LOCAL_WORLD_SIZE", "4"},
               {"TORCHELASTIC_RUN_ID", "x"},
               {"SLURM_PROCID", "1"},
               {"SLURM_NTASKS", "2"},
               {"PET_NNODES", "2"},
               {"PET_NODE_RANK", "1"},
               {"PET_NPROC_PER_NODE", "4"}},
              5,
              8,
              1,
              4,
              "RANK");
  // mpirun inside an allocation.
  expect_rank({{"OMPI_COMM_WORLD_RANK", "3"},
               {"OMPI_COMM_WORLD_SIZE", "6"},
               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
               {"OMPI_UNIVERSE_SIZE", "6"},
               {"SLURM_PROCID", "0"},
               {"SLURM_NTASKS", "6"}},
              3,
              6,
              1,
              2,
              "Open MPI");
}

TEST(RankIdentity, TellsNumbersThatAreNoneOrOutOfRangeAllAtOnce) {
  EXPECT_THAT(refusal({{"RANK", "two"}, {"WORLD_SIZE", "-4"}}),
              AllOf(HasSubstr("'two'"), HasSubstr("'-4'")));
  EXPECT_THAT(refusal({{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "10.0.0.1"}}),
              HasSubstr("rank 4 in a world of 4"));
  EXPECT_THAT(
      refusal({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}}),
      HasSubstr("local rank 2 of 2"));
  EXPECT_THAT(refusal({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "70000"}}),
              HasSubstr("70000"));
}

TEST(RankIdentity, TakesTheMeetingPlaceAsTyped) {
  const RankIdentity found = identify_rank({{"RANK", "1"},
                                            {"WORLD_SIZE", "2"},
                                            {"MASTER_ADDR", "node-a.example"},
                                            {"MASTER_PORT", "29500"},
                                            {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                            {"TORCHELASTIC_RESTART_COUNT", "3"}});
  EXPECT_EQ(found.master_address, "node-a.example");
  EXPECT_EQ(found.master_port, 29500);
  EXPECT_TRUE(found.agent_store);
  EXPECT_EQ(found.attempt, 3);
  EXPECT_EQ(identify_rank({{"PET_NNODES", "2"},
                           {"PET_NODE_RANK", "1"},
                           {"PET_MASTER_ADDR", "job-0"},
                           {"PET_MASTER_PORT", "29500"}})
                .master_address,
            "job-0");
}

}  // namespace
}  // namespace lockstep
