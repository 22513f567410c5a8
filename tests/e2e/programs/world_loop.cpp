// SPDX-License-Identifier: Apache-2.0
// One rank that loops over an all_reduce, and does something wrong when told to. For tests of launching and of faults.
//   --steps N            all_reduces (10)         --step-ms T    pause in each step (0)
//   --timeout-ms T       of the world (60000)     --elements N   of each all_reduce (1000)
//   --backend NAME       of the world (auto)
//   --rank R --at S --do WHAT   at step S, rank R does: sleep (for --sleep-ms), exit (status 0), exit3 (status 3), throw, bad_alloc,
//                        abort, kill, segv, extra (one more all_reduce, named metric), shape, operation, barrier (an extra one),
//                        finish (ends early), hang
//   --barrier            each step ends with a barrier
//   --gather             each step begins with an exchange of texts through the store
// Prints "rank R of N joined", then "rank R step S" for each step done.
#include <cstdlib>
#include <iostream>
#include <map>
#include <new>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "lockstep/base/text.h"
#include "lockstep/comm/rank_main.h"

namespace {

using lockstep::cat;
using lockstep::Group;
using lockstep::ReduceOp;
using lockstep::World;

struct Options {
  std::map<std::string, std::string> values = {{"steps", "10"},
                                               {"step-ms", "0"},
                                               {"timeout-ms", "60000"},
                                               {"elements", "1000"},
                                               {"backend", "auto"},
                                               {"rank", "-1"},
                                               {"at", "1"},
                                               {"do", ""},
                                               {"sleep-ms", "60000"},
                                               {"barrier", "0"},
                                               {"gather", "0"}};
  const std::string& text(const std::string& name) const { return values.at(name); }
  int number(const std::string& name) const {
    return static_cast<int>(lockstep::parse_int(values.at(name)).value());
  }
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = std::string(argv[i]).substr(2);
    if (name == "barrier" || name == "gather") {
      options.values[name] = "1";
    } else if (options.values.contains(name) && i + 1 < argc) {
      options.values[name] = argv[++i];
    } else {
      std::cerr << "world_loop: unknown option " << argv[i] << "\n";
      std::exit(2);
    }
  }
  return options;
}

void say(const std::string& line) { std::cout << line + "\n" << std::flush; }

void misbehave(const std::string& what, const Group& all, const Options& options) {
  if (what == "sleep")
    std::this_thread::sleep_for(std::chrono::milliseconds(options.number("sleep-ms")));
  if (what == "exit")
    std::_Exit(0);
  if (what == "exit3")
    std::_Exit(3);
  if (what == "throw")
    throw std::runtime_error("the data of this rank is broken");
  if (what == "bad_alloc")
    throw std::bad_alloc();
  if (what == "abort")
    std::abort();
  if (what == "kill")
    ::kill(::getpid(), SIGKILL);
  if (what == "segv")
    ::raise(SIGSEGV);
  if (what == "extra")
    all.all_reduce(at::ones({1}), ReduceOp::Sum, "metric").wait();
  if (what == "shape")
    all.all_reduce(at::ones({2 * options.number("elements"), 4}), ReduceOp::Sum, "gradient").wait();
  if (what == "operation")
    all.broadcast(at::ones({options.number("elements")}), {0}, "gradient").wait();
  if (what == "barrier")
    all.barrier("end of step").wait();
  while (what == "hang")
    std::this_thread::sleep_for(std::chrono::seconds(1));
}

void loop(World& world, const Options& options) {
  const Group all = world.all();
  say(cat("rank ", world.rank().value, " of ", world.size(), " joined"));
  for (int step = 1; step <= options.number("steps"); ++step) {
    world.phase("forward");
    std::this_thread::sleep_for(std::chrono::milliseconds(options.number("step-ms")));
    const bool mine = world.rank().value == options.number("rank") && step == options.number("at");
    if (mine)
      misbehave(options.text("do"), all, options);
    if (mine && options.text("do") == "finish")
      return;
    if (options.number("gather") != 0)
      all.gather_text(cat(step), "report");
    world.phase("reduce");
    const at::Tensor gradient =
        at::full({options.number("elements")}, world.rank().value + step, at::kDouble);
    all.all_reduce(gradient, ReduceOp::Sum, "gradient").wait();
    const double expected = world.size() * (world.size() - 1) / 2.0 + world.size() * step;
    if (gradient[0].item<double>() != expected)
      throw std::runtime_error("the sum is wrong");
    if (options.number("barrier") != 0)
      all.barrier("end of step").wait();
    say(cat("rank ", world.rank().value, " step ", step));
  }
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  const Options options = parse(argc, argv);
  return lockstep::rank_main([&](World& world) { loop(world, options); },
                             {.timeout = std::chrono::milliseconds(options.number("timeout-ms")),
                              .backend = options.text("backend")});
}
