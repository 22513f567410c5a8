// SPDX-License-Identifier: Apache-2.0
#include "support/world_job.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/base/text.h"

namespace lockstep::test {

int free_port() {
  for (int port = 20000 + static_cast<int>(::getpid()) % 9000;; ++port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    const bool free = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    ::close(fd);
    if (free)
      return port;
  }
}

std::vector<Running> start(const WorldJob& job) {
  const std::string port = cat(free_port());
  std::vector<Running> ranks;
  for (int rank = 0; rank < (job.started < 0 ? job.size : job.started); ++rank) {
    Command command;
    command.words = {program("programs/world_loop").string()};
    command.words.insert(command.words.end(), job.arguments.begin(), job.arguments.end());
    command.environment = {{"RANK", cat(rank)},
                           {"WORLD_SIZE", cat(job.size)},
                           {"MASTER_ADDR", job.address},
                           {"MASTER_PORT", port},
                           {"LOCAL_RANK", cat(rank)},
                           {"LOCAL_WORLD_SIZE", cat(job.size)},
                           {"OMP_NUM_THREADS", "1"}};
    ranks.emplace_back(command);
  }
  return ranks;
}

std::vector<Finished> wait_all(std::vector<Running>& ranks, std::chrono::milliseconds timeout) {
  std::vector<Finished> ends;
  for (Running& rank : ranks)
    ends.push_back(rank.wait(timeout));
  return ends;
}

std::vector<Finished> run_job(const WorldJob& job, std::chrono::milliseconds timeout) {
  std::vector<Running> ranks = start(job);
  return wait_all(ranks, timeout);
}

}  // namespace lockstep::test
