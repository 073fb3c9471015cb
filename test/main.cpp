// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// main() of every test program: Catch2's, plus
//   --seed, --seeds, --faults  see seeds.hpp
//   --from PATH                only the test cases of a folder or file under test/; under a sanitizer without those
//                              tagged [numeric], under the thread sanitizer without [unthreaded] as well
// plus a line of totals for cmake/run_tests, appended to the file that RUBATO_TEST_TALLY names.
#define CATCH_CONFIG_RUNNER
#ifdef RUBATO_TEST_SANITIZED  // the sanitizer tells more of a crash than Catch2 does
#define CATCH_CONFIG_NO_POSIX_SIGNALS
#endif
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "seeds.hpp"

namespace {

#if CATCH_VERSION_MAJOR >= 3
using Catch::Clara::Opt;
using listener = Catch::EventListenerBase;
#else
using Catch::clara::Opt;
using listener = Catch::TestEventListenerBase;
#endif

#if CATCH_VERSION_MAJOR >= 3
Catch::TestCaseInfo const& info(Catch::TestCaseHandle const& test) {
  return test.getTestCaseInfo();
}
#else
Catch::TestCaseInfo const& info(Catch::TestCase const& test) { return test; }
#endif

[[maybe_unused]] bool is_tagged(Catch::TestCaseInfo const& test, std::string const& name) {
  return std::ranges::any_of(test.tags, [&](auto const& tag) {
#if CATCH_VERSION_MAJOR >= 3
    return tag.original == name;
#else
    return tag == name;
#endif
  });
}

// Whether it is about the numbers that very many steps end at: under a sanitizer they take minutes, and others run
// the same code; or has one thread, of which the thread sanitizer has nothing to say.
bool is_left_out([[maybe_unused]] Catch::TestCaseInfo const& test) {
#ifdef RUBATO_TEST_SANITIZED
  if (is_tagged(test, "numeric")) return true;
#endif
#ifdef RUBATO_TEST_THREAD_SANITIZED
  if (is_tagged(test, "unthreaded")) return true;
#endif
  return false;
}

// A compiler may be given some sources with an absolute path and some with a relative one.
std::string below_tests(std::string const& file) {
  std::string const folder = "/test/";
  std::string const path = '/' + file;
  auto const at = path.rfind(folder);
  return at == std::string::npos ? file : path.substr(at + folder.size());
}

struct selection {
  std::string names;  // Catch2's way to ask for a list of them
  bool is_empty = true;  // not even what is left out here
};

// By name, since Catch2's own `--filenames-as-tags` confuses files of one name in two folders.
selection tests_from(std::string const& path, Catch::Session& session) {
  selection all;
  std::string& names = all.names;
  for (auto const& test : Catch::getAllTestCasesSorted(session.config())) {
    std::string const file = below_tests(info(test).lineInfo.file);
    bool const inside = file == path || file.rfind(path + '/', 0) == 0;
    if (!inside) continue;
    all.is_empty = false;
    if (info(test).isHidden() || is_left_out(info(test))) continue;
    names += names.empty() ? "\"" : ",\"";
    for (char const letter : info(test).name) {
      if (letter == '\\' || letter == '"' || letter == ',' || letter == '[') names += '\\';
      names += letter;
    }
    names += '"';
  }
  return all;
}

class tally : public listener {
 public:
  using listener::listener;

  void testRunEnded(Catch::TestRunStats const& run) override {
    char const* const path = std::getenv("RUBATO_TEST_TALLY");
    if (path == nullptr) return;
    // One short write in append mode, since several programs may end at once.
    if (std::FILE* const file = std::fopen(path, "a")) {
      auto const& cases = run.totals.testCases;
      std::fprintf(file, "%s %s\n", std::to_string(cases.passed).c_str(),
                   std::to_string(cases.failed).c_str());
      std::fclose(file);
    }
  }
};
CATCH_REGISTER_LISTENER(tally)

class current_file : public listener {
 public:
  using listener::listener;

  void testCaseStarting(Catch::TestCaseInfo const& test) override {
    listener::testCaseStarting(test);
    rubato::test::options().file = below_tests(test.lineInfo.file);
  }
};
CATCH_REGISTER_LISTENER(current_file)

}  // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  std::string from;
  auto& seeds = rubato::test::options();
  seeds.program = argv[0];
  session.cli(session.cli() | Opt(seeds.first, "N")["--seed"]("property tests: run only seed N") |
              Opt(seeds.count, "N")["--seeds"]("property tests: run N seeds") |
              Opt(seeds.faults)["--faults"]("searches under faults: print how often each kind happened") |
              Opt(from, "path")["--from"]("only the tests of this folder or file of test/"));
  if (int const bad_arguments = session.applyCommandLine(argc, argv)) return bad_arguments;
  try {  // now rather than in the middle of a test
    (void)rubato::test::first_seed();
    (void)rubato::test::seed_count(1);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  if (!from.empty()) {
    auto const [names, is_empty] = tests_from(from, session);
    if (is_empty) {
      std::fprintf(stderr, "--from %s: there are no tests\n", from.c_str());
      return 2;
    }
    if (names.empty()) return 0;
    auto data = session.configData();
    data.testsOrTags = {names};
    session.useConfigData(data);
  }
  return session.run();
}
