// SPDX-License-Identifier: Apache-2.0
// The recorder's bytes against the counters of the loopback interface, in a network namespace where nobody else sends.
#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <net/if.h>
#include <sched.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "lockstep/base/text.h"

#include "support/run_ranks.h"

namespace lockstep::test {
namespace {

// Bytes that loopback sent in the namespace of the calling thread.
std::int64_t interface_bytes() {
  std::ifstream file("/proc/thread-self/net/dev");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find("lo:");
    if (colon == std::string::npos)
      continue;
    std::vector<std::string> fields;
    for (const std::string& field : split(line.substr(colon + 3), ' ')) {
      if (!field.empty())
        fields.push_back(field);
    }
    return parse_int(fields.at(8)).value();
  }
  return -1;
}

// Threads made from here on live in a network of their own with loopback up.
bool enter_own_network() {
  if (::unshare(CLONE_NEWNET) != 0)
    return false;
  const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  const bool up = ::ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  ::close(fd);
  return up;
}

struct Measured {
  std::int64_t on_the_wire = 0;
  std::int64_t recorded = 0;
};

// `operation` once a rank, between barriers, in the calling thread's network.
Measured measure(int size, const std::function<void(const Group&)>& operation) {
  std::atomic<std::int64_t> before = 0;
  std::atomic<std::int64_t> after = 0;
  std::atomic<std::int64_t> recorded = 0;
  run_ranks(size, [&](World& world) {
    const Group all = world.all();
    all.barrier("start").wait();
    if (world.rank().value == 0)
      before = interface_bytes();
    all.barrier("measured from here").wait();
    const std::int64_t sent = world.recorder().totals().sent_bytes;
    operation(all);
    recorded += world.recorder().totals().sent_bytes - sent;
    all.barrier("end").wait();
    if (world.rank().value == 0)
      after = interface_bytes();
  });
  return {.on_the_wire = after - before, .recorded = recorded};
}

TEST(Traffic, RecordedBytesAreThoseOfTheInterface) {
  bool possible = false;
  std::thread([&] {
    possible = enter_own_network();
    if (!possible)
      return;
    for (const int size : {2, 3, 5}) {
      const std::int64_t slice = 400'003;
      const auto check = [&](const char* name, const std::function<void(const Group&)>& operation) {
        const Measured found = measure(size, operation);
        // Headers of TCP and Gloo, acknowledgements and three barriers come on top of the payload.
        EXPECT_GT(found.recorded, 0) << name;
        EXPECT_GE(found.on_the_wire, found.recorded) << name << " at " << size;
        EXPECT_LE(static_cast<double>(found.on_the_wire),
                  1.03 * static_cast<double>(found.recorded) + 60'000)
            << name << " at " << size;
      };
      check("all_reduce", [&](const Group& all) {
        all.all_reduce(at::ones({slice}), ReduceOp::Sum, "x").wait();
      });
      check("reduce_scatter", [&](const Group& all) {
        all.reduce_scatter(at::empty({slice}), at::ones({slice * all.size()}), ReduceOp::Sum, "x")
            .wait();
      });
      check("all_gather", [&](const Group& all) {
        all.all_gather(at::empty({slice * all.size()}), at::ones({slice}), "x").wait();
      });
      check("broadcast",
            [&](const Group& all) { all.broadcast(at::ones({slice}), {1}, "x").wait(); });
      check("all_to_all", [&](const Group& all) {
        const at::Tensor in = at::ones({slice * all.size()});
        all.all_to_all(at::empty_like(in), in, "x").wait();
      });
      check("send", [&](const Group& all) {
        const at::Tensor tensor = at::ones({slice});
        if (all.rank().value == 0)
          all.send(tensor, {1}, "x").wait();
        if (all.rank().value == 1)
          all.recv(tensor, {0}, "x").wait();
      });
    }
  }).join();
  if (!possible)
    GTEST_SKIP() << "a network namespace needs root";
}

}  // namespace
}  // namespace lockstep::test
