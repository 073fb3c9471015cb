// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/sim/fibers.hpp>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

using namespace rubato;
using sim::fiber_id;
using sim::fiber_killed;
using sim::fiber_pool;

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

namespace {

#if defined(SANITIZED)
constexpr std::size_t many = 500;  // the thread sanitizer keeps a whole thread's state per fiber
#else
constexpr std::size_t many = 10'000;
#endif

/// Says when it dies.
struct witness {
  bool* dead;

  explicit witness(bool& flag) : dead(&flag) {}
  witness(witness const&) = delete;
  witness& operator=(witness const&) = delete;
  ~witness() { *dead = true; }
};

std::string message(std::exception_ptr const& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (std::exception const& e) {
    return e.what();
  }
}

void resume_all(fiber_pool& fibers, std::vector<fiber_id> const& ids) {
  for (bool any = true; any;) {
    any = false;
    for (fiber_id const id : ids) {
      if (fibers.finished(id)) continue;
      fibers.resume(id);
      any = true;
    }
  }
}

struct memory {
  std::size_t mapped = 0;
  std::size_t resident = 0;
};

memory memory_bytes() {
  std::ifstream statm("/proc/self/statm");
  memory m;
  statm >> m.mapped >> m.resident;
  auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return {m.mapped * page, m.resident * page};
}

}  // namespace

TEST_CASE("a fiber runs when it is resumed, up to its next suspend", "[sim][fibers]") {
  fiber_pool fibers;
  std::vector<int> log;
  fiber_id const id = fibers.spawn([&] {
    log.push_back(1);
    fibers.suspend();
    log.push_back(3);
  });
  CHECK(log.empty());
  CHECK_FALSE(fibers.finished(id));
  fibers.resume(id);
  log.push_back(2);
  CHECK_FALSE(fibers.finished(id));
  fibers.resume(id);
  CHECK(log == std::vector{1, 2, 3});
  CHECK(fibers.finished(id));
  CHECK(fibers.failure(id) == nullptr);
}

TEST_CASE("fibers take turns and keep their locals", "[sim][fibers]") {
  fiber_pool fibers;
  std::vector<int> log;
  std::vector<fiber_id> ids;
  for (int f = 0; f < 3; ++f) {
    ids.push_back(fibers.spawn([&fibers, &log, f] {
      for (int i = 0; i < 3; ++i) {
        log.push_back(10 * f + i);
        fibers.suspend();
      }
    }));
  }
  CHECK(ids == std::vector<fiber_id>{0, 1, 2});
  CHECK(fibers.alive() == 3);
  resume_all(fibers, ids);
  CHECK(log == std::vector{0, 10, 20, 1, 11, 21, 2, 12, 22});
  CHECK(fibers.alive() == 0);
}

TEST_CASE("current names the running fiber", "[sim][fibers]") {
  fiber_pool fibers;
  CHECK_FALSE(fibers.current().has_value());
  std::vector<std::optional<fiber_id>> seen;
  fiber_id const a = fibers.spawn([&] {
    seen.push_back(fibers.current());
    fibers.suspend();
    seen.push_back(fibers.current());
  });
  fiber_id const b = fibers.spawn([&] { seen.push_back(fibers.current()); });
  fibers.resume(a);
  CHECK_FALSE(fibers.current().has_value());
  fibers.resume(b);
  fibers.resume(a);
  CHECK(seen == std::vector<std::optional<fiber_id>>{a, b, a});
}

TEST_CASE("what a body throws is kept", "[sim][fibers]") {
  fiber_pool fibers;
  fiber_id const id = fibers.spawn([&] {
    fibers.suspend();
    throw std::runtime_error("thrown on a fiber");
  });
  fibers.resume(id);
  CHECK(fibers.failure(id) == nullptr);
  CHECK_NOTHROW(fibers.resume(id));
  CHECK(fibers.finished(id));
  CHECK(message(fibers.failure(id)) == "thrown on a fiber");
  CHECK(std::uncaught_exceptions() == 0);
  CHECK(std::current_exception() == nullptr);
}

TEST_CASE("killing unwinds the stack", "[sim][fibers]") {
  fiber_pool fibers;
  bool dead = false;
  bool captured_dead = false;
  bool passed_by = false;
  fiber_id const id = fibers.spawn([&, token = std::make_shared<witness>(captured_dead)] {
    witness const w(dead);
    try {
      fibers.suspend();
    } catch (std::exception const&) {
      passed_by = true;
    }
    passed_by = true;
  });
  fibers.resume(id);
  CHECK_FALSE(dead);
  fibers.kill(id);
  CHECK(dead);
  CHECK(captured_dead);
  CHECK_FALSE(passed_by);
  CHECK(fibers.finished(id));
  CHECK(fibers.failure(id) == nullptr);
  CHECK_NOTHROW(fibers.kill(id));
}

TEST_CASE("a fiber that never started is dropped with its body", "[sim][fibers]") {
  fiber_pool fibers;
  bool ran = false;
  bool captured_dead = false;
  fiber_id const id =
      fibers.spawn([&ran, token = std::make_shared<witness>(captured_dead)] { ran = true; });
  fibers.kill(id);
  CHECK_FALSE(ran);
  CHECK(captured_dead);
  CHECK(fibers.finished(id));
}

TEST_CASE("a dying fiber cannot wait any more", "[sim][fibers]") {
  fiber_pool fibers;
  int attempts = 0;
  fiber_id const id = fibers.spawn([&] {
    while (attempts < 3) {
      try {
        fibers.suspend();
      } catch (...) {
        ++attempts;
      }
    }
    throw std::logic_error("last words");
  });
  fibers.resume(id);
  fibers.kill(id);
  CHECK(attempts == 3);
  CHECK(message(fibers.failure(id)) == "last words");
}

TEST_CASE("the pool's end kills everybody, the youngest first", "[sim][fibers]") {
  std::vector<int> deaths;
  struct mark {
    std::vector<int>* log;
    int name;
    ~mark() { log->push_back(name); }
  };
  {
    fiber_pool fibers;
    for (int f = 0; f < 3; ++f) {
      fibers.resume(fibers.spawn([&fibers, &deaths, f] {
        mark const m{&deaths, f};
        fibers.suspend();
      }));
    }
    fibers.spawn([] {});
    CHECK(deaths.empty());
  }
  CHECK(deaths == std::vector{2, 1, 0});
}

TEST_CASE("a body may spawn, even while it dies", "[sim][fibers]") {
  bool ran = false;
  bool dropped = false;
  {
    fiber_pool fibers;
    fiber_id child = 0;
    fiber_id const parent = fibers.spawn([&] {
      child = fibers.spawn([&] { ran = true; });
      struct spawner {
        fiber_pool& fibers;
        bool& dropped;
        ~spawner() {
          fibers.spawn([token = std::make_shared<witness>(dropped)] {});
        }
      } const at_end{fibers, dropped};
      fibers.suspend();
    });
    fibers.resume(parent);
    fibers.resume(child);
    CHECK(ran);
  }
  CHECK(dropped);
}

TEST_CASE("calls from the wrong place are refused", "[sim][fibers]") {
  CHECK_THROWS_AS(fiber_pool(1000), option_error);
  fiber_pool fibers;
  CHECK_THROWS_AS(fibers.suspend(), usage_error);
  fiber_id const other = fibers.spawn([] {});
  fiber_id const id = fibers.spawn([&] {
    CHECK_THROWS_AS(fibers.resume(other), usage_error);
    CHECK_THROWS_AS(fibers.kill(other), usage_error);
  });
  fibers.resume(id);
  CHECK(fibers.failure(id) == nullptr);
  CHECK_THROWS_AS(fibers.resume(id), usage_error);
  CHECK_FALSE(fibers.finished(other));
}

TEST_CASE("a fiber may suspend inside a catch block", "[sim][fibers]") {
  // Each handler waits while others throw and catch; then `throw;` must rethrow its own exception.
  fiber_pool fibers;
  std::vector<fiber_id> ids;
  std::vector<std::string> rethrown(4);
  for (std::size_t f = 0; f < rethrown.size(); ++f) {
    ids.push_back(fibers.spawn([&fibers, &rethrown, f] {
      for (std::size_t round = 0; round < 5; ++round) {
        std::string const mine = std::to_string(f) + "." + std::to_string(round);
        try {
          try {
            throw std::runtime_error(mine);
          } catch (std::exception const&) {
            for (std::size_t i = 0; i < f + round; ++i) fibers.suspend();
            CHECK(message(std::current_exception()) == mine);
            throw;
          }
        } catch (std::exception const& e) {
          fibers.suspend();
          CHECK(e.what() == mine);
          rethrown[f] += mine + " ";
        }
        CHECK(std::current_exception() == nullptr);
      }
    }));
  }
  resume_all(fibers, ids);
  CHECK(rethrown[0] == "0.0 0.1 0.2 0.3 0.4 ");
  CHECK(rethrown[3] == "3.0 3.1 3.2 3.3 3.4 ");
  for (fiber_id const id : ids) CHECK(fibers.failure(id) == nullptr);
}

TEST_CASE("a fiber may suspend in a destructor during unwinding", "[sim][fibers]") {
  fiber_pool fibers;
  struct waits_when_it_dies {
    fiber_pool& fibers;
    ~waits_when_it_dies() {
      CHECK(std::uncaught_exceptions() == 1);
      fibers.suspend();
      CHECK(std::uncaught_exceptions() == 1);
    }
  };
  bool caught = false;
  fiber_id const unwinding = fibers.spawn([&] {
    try {
      waits_when_it_dies const w{fibers};
      throw std::runtime_error("a");
    } catch (std::exception const& e) {
      caught = std::string(e.what()) == "a";
    }
    CHECK(std::uncaught_exceptions() == 0);
  });
  fiber_id const calm = fibers.spawn([&] {
    CHECK(std::uncaught_exceptions() == 0);
    try {
      throw std::logic_error("b");
    } catch (std::logic_error const&) {
      fibers.suspend();
    }
  });
  fibers.resume(unwinding);
  CHECK(std::uncaught_exceptions() == 0);
  fibers.resume(calm);
  CHECK(std::current_exception() == nullptr);
  fibers.resume(unwinding);
  CHECK(caught);
  fibers.resume(calm);
  CHECK(fibers.finished(calm));
}

TEST_CASE("the owner may be inside a catch block, and a killed fiber too", "[sim][fibers]") {
  fiber_pool fibers;
  bool dead = false;
  fiber_id const id = fibers.spawn([&] {
    witness const w(dead);
    CHECK(std::current_exception() == nullptr);
    try {
      throw std::runtime_error("on the fiber");
    } catch (std::exception const&) {
      fibers.suspend();
    }
  });
  try {
    throw std::runtime_error("owner's");
  } catch (std::exception const&) {
    fibers.resume(id);
    CHECK(message(std::current_exception()) == "owner's");
    fibers.kill(id);
    CHECK(message(std::current_exception()) == "owner's");
  }
  CHECK(dead);
  CHECK(std::current_exception() == nullptr);
}

TEST_CASE("fibers throw and wait at random without mixing their exceptions", "[sim][fibers]") {
  fiber_pool fibers;
  std::vector<fiber_id> ids;
  int checks = 0;
  for (std::uint64_t f = 0; f < 50; ++f) {
    ids.push_back(fibers.spawn([&fibers, &checks, f] {
      random_stream random(1, f);
      std::function<void(std::uint64_t)> const nest = [&](std::uint64_t depth) {
        std::uint64_t const mine = random();
        try {
          if (random.chance(0.5)) fibers.suspend();
          if (depth > 0 && random.chance(0.5)) nest(depth - 1);
          throw mine;
        } catch (std::uint64_t const caught) {
          if (random.chance(0.5)) fibers.suspend();
          if (depth > 0) nest(depth - 1);
          if (random.chance(0.5)) fibers.suspend();
          if (caught != mine) throw std::logic_error("somebody else's exception");
          ++checks;
        }
      };
      for (int i = 0; i < 5; ++i) nest(4);
    }));
  }
  random_stream random(2);
  for (int round = 0; round < 2000; ++round) {
    fiber_id const id = ids[static_cast<std::size_t>(random.below(ids.size()))];
    if (!fibers.finished(id)) fibers.resume(id);
  }
  resume_all(fibers, ids);
  for (fiber_id const id : ids) CHECK(fibers.failure(id) == nullptr);
  CHECK(checks >= 50 * 5 * 5);
}

TEST_CASE("pools nest: a fiber of one may own another", "[sim][fibers]") {
  fiber_pool outer;
  std::vector<int> log;
  fiber_id const id = outer.spawn([&] {
    fiber_pool inner;
    fiber_id const child = inner.spawn([&] {
      log.push_back(1);
      inner.suspend();
      log.push_back(3);
      throw std::runtime_error("inner");
    });
    inner.resume(child);
    log.push_back(2);
    outer.suspend();
    inner.resume(child);
    CHECK(message(inner.failure(child)) == "inner");
  });
  outer.resume(id);
  outer.resume(id);
  CHECK(outer.finished(id));
  CHECK(log == std::vector{1, 2, 3});
}

TEST_CASE("to fetch a fiber's memory early changes nothing, wherever it is", "[sim][fibers]") {
  fiber_pool fibers;
  int steps = 0;
  fiber_id const id = fibers.spawn([&] {
    ++steps;
    fibers.suspend();
    ++steps;
  });
  auto const fetch = [&] {
    fibers.look_up(id);
    fibers.warm_up(id);
  };
  fetch();  // it has no stack yet
  CHECK(steps == 0);
  fibers.resume(id);
  fetch();
  CHECK(steps == 1);
  fibers.resume(id);
  fetch();  // it has none any more
  CHECK(steps == 2);
  CHECK(fibers.finished(id));
  CHECK(fibers.failure(id) == nullptr);
}

TEST_CASE("pools of distinct threads are independent", "[sim][fibers]") {
  std::vector<std::thread> threads;
  std::vector<int> sums(4);
  for (std::size_t t = 0; t < sums.size(); ++t) {
    threads.emplace_back([&sum = sums[t]] {
      fiber_pool fibers;
      std::vector<fiber_id> ids;
      for (int f = 0; f < 20; ++f) {
        ids.push_back(fibers.spawn([&] {
          for (int i = 0; i < 10; ++i) {
            ++sum;
            fibers.suspend();
          }
        }));
      }
      resume_all(fibers, ids);
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(sums == std::vector{200, 200, 200, 200});
}

TEST_CASE("stacks hold what they promise, and are given back", "[sim][fibers]") {
  fiber_pool fibers(256 * 1024);
  memory const before = memory_bytes();
  for (std::size_t i = 0; i < 2 * many; ++i) {
    fibers.resume(fibers.spawn([i] {
      char volatile deep[128 * 1024];
      deep[0] = static_cast<char>(i);
      deep[sizeof deep - 1] = deep[0];
    }));
  }
#if !defined(SANITIZED)
  CHECK(memory_bytes().mapped < before.mapped + many * 128 * 1024);
#else
  static_cast<void>(before);
#endif
  CHECK(fibers.alive() == 0);
}

TEST_CASE("thousands of fibers alive cost a page or two each", "[sim][fibers]") {
  memory const before = memory_bytes();
  fiber_pool fibers;
  std::vector<fiber_id> ids;
  std::size_t runs = 0;
  for (std::size_t i = 0; i < many; ++i) {
    ids.push_back(fibers.spawn([&] {
      for (;;) {
        ++runs;
        fibers.suspend();
      }
    }));
  }
  random_stream random(1);
  random.shuffle(std::span(ids));
  for (int round = 0; round < 3; ++round) {
    for (fiber_id const id : ids) fibers.resume(id);
  }
  CHECK(runs == 3 * many);
#if !defined(SANITIZED)
  CHECK(memory_bytes().resident - before.resident < 400'000'000);
#else
  static_cast<void>(before);
#endif
  memory const most = memory_bytes();
  for (std::size_t i = 0; i < many; i += 2) fibers.kill(ids[i]);
  CHECK(fibers.alive() == many / 2);
  for (std::size_t i = 1; i < many; i += 2) fibers.kill(ids[i]);
  CHECK(fibers.alive() == 0);
#if !defined(SANITIZED)
  CHECK(memory_bytes().mapped < most.mapped - many * 128 * 1024);
#else
  static_cast<void>(most);
#endif
  fibers.resume(fibers.spawn([&] { ++runs; }));  // there is memory for more
  CHECK(runs == 3 * many + 1);
}

#if !defined(SANITIZED)
namespace {

// Uses a bit more than `kilobytes` of stack. Each frame knows the one above it, so that no compiler
// makes a loop of this.
[[gnu::noinline]] int dig(int kilobytes, char const volatile* above) {
  char volatile frame[1024];
  frame[0] = static_cast<char>(above[0] + 1);
  return kilobytes > 1 ? dig(kilobytes - 1, frame) + frame[0] : frame[0];
}

}  // namespace

TEST_CASE("fibers do not run out of mappings", "[sim][fibers]") {
  // Where a guard page splits a mapping, a process may have some 32,000 of them.
  auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const probe = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(probe != MAP_FAILED);
  bool const guards_split = ::madvise(probe, page, 102) != 0;  // MADV_GUARD_INSTALL
  ::munmap(probe, page);
  fiber_pool fibers(16 * 1024);
  std::size_t const count = guards_split ? 10'000 : 40'000;
  for (std::size_t i = 0; i < count; ++i) fibers.resume(fibers.spawn([&] { fibers.suspend(); }));
  CHECK(fibers.alive() == count);
}

TEST_CASE("a stack overflow ends in the guard page", "[sim][fibers]") {
  // Stacks are mapped several at once: the first one alone, and some of those after it together.
  fiber_id const before = GENERATE(0u, 1u, 6u);
  pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    struct rlimit const no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    // Catch's handler would report the signal as this test's failure.
    std::signal(SIGSEGV, SIG_DFL);
    fiber_pool fibers(16 * 1024);
    int result = 0;
    for (fiber_id i = 0; i < before; ++i) fibers.spawn([&] { fibers.suspend(); });
    fiber_id const digger = fibers.spawn([&] {
      fibers.suspend();
      char const top = 1;
      result = dig(20, &top);
    });
    // Its neighbours lie where an unguarded overflow of a few KiB would end, and do no harm at
    // once.
    for (int i = 0; i < 4; ++i) fibers.spawn([&] { fibers.suspend(); });
    for (fiber_id id = 0; id < digger + 5; ++id) fibers.resume(id);
    fibers.resume(digger);
    ::_exit(result == 0 ? 1 : 2);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
}
#endif
