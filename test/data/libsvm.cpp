// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/data/libsvm.hpp>

#include <catch2/catch.hpp>

#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>
#include <rubato/data/synthetic.hpp>

#include "real_data.hpp"
#include "scratch_file.hpp"

namespace rd = rubato::data;
using namespace std::string_literals;
using rubato::data_error;
using rubato::option_error;
using rubato_test::real_data;
using rubato_test::scratch_file;

namespace {

std::string slurp(std::string const& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string gzipped(std::string_view text) {
  scratch_file const file;
  gzFile const out = gzopen(file.path().c_str(), "wb");
  REQUIRE(gzwrite(out, text.data(), static_cast<unsigned>(text.size())) ==
          static_cast<int>(text.size()));
  REQUIRE(gzclose(out) == Z_OK);
  return slurp(file.path());
}

rd::dataset parse(std::string_view text, rd::libsvm_options const& options = {}) {
  return rd::parse_libsvm(text, "mem", options);
}

std::string error_of(std::string_view text, rd::libsvm_options const& options = {}) {
  try {
    static_cast<void>(parse(text, options));
  } catch (data_error const& e) {
    return e.what();
  }
  return "no error";
}

std::string read_error(std::string const& path) {
  try {
    static_cast<void>(rd::read_libsvm(path));
  } catch (data_error const& e) {
    return e.what();
  }
  return "no error";
}

std::vector<float> labels_of(rd::dataset const& data) {
  return {data.labels().begin(), data.labels().end()};
}

std::string text_of(rd::dataset const& data, std::string_view newline = "\n") {
  std::string text;
  for (rd::example const row : data.rows()) {
    text += fmt::format("{}", row.label);
    for (std::size_t k = 0; k < row.indices.size(); ++k) {
      text += fmt::format(" {}:{}", row.indices[k] + 1, row.values[k]);
    }
    text += newline;
  }
  return text;
}

bool same(rd::dataset const& a, rd::dataset const& b) {
  return a.features() == b.features() &&
         std::ranges::equal(a.rows(), b.rows(), [](rd::example x, rd::example y) {
           return x.label == y.label && std::ranges::equal(x.indices, y.indices) &&
                  std::ranges::equal(x.values, y.values);
         });
}

rd::dataset sample() {
  return rd::make_synthetic({.rows = 4000, .features = 900, .nonzeros_per_row = 30});
}

}  // namespace

TEST_CASE("libsvm text becomes rows with indices from 0", "[data]") {
  rd::dataset const data = parse("+1 1:0.5 3:-2e-1\n-1 2:+4 \n");
  REQUIRE(data.size() == 2);
  CHECK(data.features() == 3);
  CHECK(data[0].label == 1);
  CHECK(data[0].indices[0] == 0);
  CHECK(data[0].indices[1] == 2);
  CHECK(data[0].values[1] == -0.2F);
  CHECK(data[1].label == -1);
  CHECK(data[1].values[0] == 4);
}

TEST_CASE("libsvm lines may look in many ways", "[data]") {
  rd::dataset const plain = parse("1 1:1 2:2\n-1\n1 3:4\n");
  CHECK(same(plain, parse("1 1:1 2:2\n-1\n1 3:4")));          // no last newline
  CHECK(same(plain, parse("1 1:1 2:2\r\n-1\r\n1 3:4\r\n")));  // CRLF
  CHECK(same(plain, parse("1 1:1 2:2\r\n-1\r\n1 3:4\r")));
  CHECK(same(plain, parse("\n  \t\n1 1:1 2:2\n\r\n-1\n\n1 3:4\n\n")));        // blank lines
  CHECK(same(plain, parse(" 1\t1:1   2:2 \n -1 \n1 3:4\t\n")));               // blanks
  CHECK(same(plain, parse("# 9 9:9\n1 1:1 2:2#3:7\n-1 # 1:1\n#\n1 3:4 #")));  // comments
  CHECK(same(plain, parse("\xef\xbb\xbf"
                          "1 1:1 2:2\n-1\n1 3:4\n")));                // byte order mark
  CHECK(same(plain, parse("1.0 1:1. 2:.2e1\n-1e0\n+1 003:+4.0\n")));  // number formats
}

TEST_CASE("libsvm rows without features count", "[data]") {
  rd::dataset const data = parse("1\n-1\n");
  CHECK(data.size() == 2);
  CHECK(data.features() == 0);
  CHECK(data.nonzeros() == 0);
}

TEST_CASE("binary labels become -1 and +1", "[data]") {
  using v = std::vector<float>;
  CHECK(labels_of(parse("+1\n-1\n1\n")) == v{1, -1, 1});
  CHECK(labels_of(parse("0\n1\n0.0\n")) == v{-1, 1, -1});
  CHECK(labels_of(parse("1\n0\n-0\n")) == v{1, -1, -1});
  CHECK(labels_of(parse("1\n2\n1\n")) == v{-1, 1, -1});
  CHECK(labels_of(parse("2\n1\n")) == v{1, -1});
}

TEST_CASE("one class is enough", "[data]") {
  using v = std::vector<float>;
  CHECK(labels_of(parse("1\n1\n")) == v{1, 1});
  CHECK(labels_of(parse("-1\n")) == v{-1});
  CHECK(labels_of(parse("0\n")) == v{-1});
  CHECK(labels_of(parse("2\n")) == v{1});
  CHECK(labels_of(parse("1\n", {.labels = rd::label_kind::one_two})) == v{-1});
  CHECK(labels_of(parse("1\n", {.labels = rd::label_kind::zero_one})) == v{1});
}

TEST_CASE("raw labels are kept", "[data]") {
  rd::libsvm_options const raw{.labels = rd::label_kind::raw};
  CHECK(labels_of(parse("3\n-0.25\n1e3\n0\n2\n", raw)) == std::vector<float>{3, -0.25F, 1000, 0, 2});
  CHECK(error_of("nan\n", raw) == "mem:1: label 'nan' is not finite, expected a finite number");
}

TEST_CASE("a bad line is named with line, reason and what was expected", "[data]") {
  struct bad_text {
    std::string text;
    std::string error;
  };
  std::string const out_of_range =
      " is out of range, expected 0 or a magnitude between 1e-45 and 3.4e38";
  std::string const no_label = " is not a number, expected a number, then index:value pairs";
  auto const [text, error] = GENERATE_COPY(values<bad_text>({
      {"x 1:1\n", "mem:1: label 'x'" + no_label},
      {"1 1:1\n\n# c\n1:1\n", "mem:4: label '1:1'" + no_label},
      {"1,2 1:1\n", "mem:1: label '1,2'" + no_label},
      {"+-1 1:1\n", "mem:1: label '+-1'" + no_label},
      {"++1 1:1\n", "mem:1: label '++1'" + no_label},
      {"+ 1:1\n", "mem:1: label '+'" + no_label},
      {"0x1 1:1\n", "mem:1: label '0x1'" + no_label},
      {"inf 1:1\n", "mem:1: label 'inf' is not finite, expected a finite number"},
      {"1e999\n", "mem:1: label '1e999'" + out_of_range},
      {"1\n3\n", "mem:2: label '3' is not one of this file's kind, expected -1/+1 or 0/1 or 1/2"},
      {"-1\n1\n0\n", "mem:3: label '0' is not one of this file's kind, expected -1/+1"},
      {"0\n2\n", "mem:2: label '2' is not one of this file's kind, expected 0/1"},
      {"0\n-1\n", "mem:2: label '-1' is not one of this file's kind, expected 0/1"},
      {"1.5\n", "mem:1: label '1.5' is not one of this file's kind, expected -1/+1 or 0/1 or 1/2"},
      {"1 1:1\n1 5\n", "mem:2: no colon in '5', expected index:value"},
      {"1 qid:3 1:1\n",
       "mem:1: 'qid:3' belongs to ranking data, which is not supported, "
       "expected index:value"},
      {"1 0:1\n", "mem:1: index 0, expected indices from 1 on"},
      {"1 -1:1\n", "mem:1: index '-1' is not a whole number, expected index:value"},
      {"1 +1:1\n", "mem:1: index '+1' is not a whole number, expected index:value"},
      {"1 a:1\n", "mem:1: index 'a' is not a whole number, expected index:value"},
      {"1 1.5:1\n", "mem:1: index '1.5' is not a whole number, expected index:value"},
      {"1 :1\n", "mem:1: index '' is not a whole number, expected index:value"},
      {"1\r\n1 2:1 2:1\r\n", "mem:2: index 2 occurs twice, expected increasing indices"},
      {"1 5:1 3:1", "mem:1: index 3 comes after 5, expected increasing indices"},
      {"1 268435457:1\n", "mem:1: index '268435457' is too large, expected at most 268435456"},
      {"1 99999999999999999999:1\n",
       "mem:1: index '99999999999999999999' is too large, expected at most 268435456"},
      {"1 1:\n", "mem:1: value '' is not a number, expected index:value"},
      {"1 1: 2\n", "mem:1: value '' is not a number, expected index:value"},
      {"1 1:2:3\n", "mem:1: value '2:3' is not a number, expected index:value"},
      {"1 1:1,5\n", "mem:1: value '1,5' is not a number, expected index:value"},
      {"1 1:0x5\n", "mem:1: value '0x5' is not a number, expected index:value"},
      {"1 1:nan\n", "mem:1: value 'nan' is not finite, expected a finite number"},
      {"1 1:-inf\n", "mem:1: value '-inf' is not finite, expected a finite number"},
      {"1 1:1e39\n", "mem:1: value '1e39'" + out_of_range},
      {"1 1:1e-60\n", "mem:1: value '1e-60'" + out_of_range},
      {"1 1:1e-400\n", "mem:1: value '1e-400'" + out_of_range},
      {"1 1:1\0\n"s, "mem:1: value '1\\x00' is not a number, expected index:value"},
      {"1\r1 1:1\n", "mem:1: no colon in '1', expected index:value"},
      {"\x1b[31m\n", "mem:1: label '\\x1b[31m'" + no_label},
      {std::string(40, 'y'), "mem:1: label '" + std::string(32, 'y') + "...'" + no_label},
      {"1 1:" + std::string(300, '0') + "\n",
       "mem:1: field '1:" + std::string(30, '0') +
           "...' goes on for more than 256 bytes, expected a blank earlier"},
      {"", "mem: no examples, expected lines of 'label index:value ...'"},
      {"\n # c\n\n", "mem: no examples, expected lines of 'label index:value ...'"},
  }));
  CHECK(error_of(text) == error);
  // The same through a file, where the window moves, and with the file's name.
  scratch_file const file(text);
  CHECK(read_error(file.path()) == file.path() + error.substr(3));
}

TEST_CASE("the largest index and value that are allowed are allowed", "[data]") {
  CHECK(parse("1 268435456:3.4028234e38\n").features() == 268435456);
  CHECK(parse("1 1:3.4028235e+38\n")[0].values[0] == std::numeric_limits<float>::max());
  CHECK(parse("1 1:-3.4028235e+38\n")[0].values[0] == std::numeric_limits<float>::lowest());
  CHECK(error_of("1 1:3.4028236e38\n") == "mem:1: value '3.4028236e38' is out of range, expected 0 or a magnitude "
                                          "between 1e-45 and 3.4e38");
  CHECK(parse("1 1:1e-45\n")[0].values[0] > 0);
  CHECK(parse("1 1:0 2:-0.0\n").nonzeros() == 2);
  CHECK(parse("1 1:" + std::string(254, '0') + "\n").nonzeros() == 1);
  rd::libsvm_options const wide{.features_max = std::size_t{1} << 32};
  CHECK(parse("1 4294967296:1\n", wide)[0].indices[0] == 0xffffffff);
  CHECK(error_of("1 4294967297:1\n", wide) ==
        "mem:1: index '4294967297' is too large, expected at most 4294967296");
}

TEST_CASE("the number of features can be fixed", "[data]") {
  CHECK(parse("1 2:1\n", {.features = 5}).features() == 5);
  CHECK(error_of("1 6:1\n", {.features = 5}) ==
        "mem:1: index '6' is too large, expected at most 5");
  CHECK(error_of("1 4:1\n", {.features_max = 3}) ==
        "mem:1: index '4' is too large, expected at most 3");
  std::size_t const beyond = (std::size_t{1} << 32) + 1;
  CHECK_THROWS_AS(parse("1\n", {.features = beyond}), option_error);
  CHECK_THROWS_AS(parse("1\n", {.features_max = beyond}), option_error);
  CHECK_THROWS_AS(parse("1\n", {.features_max = 0}), option_error);
}

TEST_CASE("a file that cannot be read is an io error with its name", "[data]") {
  try {
    static_cast<void>(rd::read_libsvm("/no/such/file"));
    FAIL("it was read");
  } catch (data_error const& e) {
    CHECK(e.code() == rubato::errc::io);
    CHECK(e.what() == "/no/such/file: cannot open: No such file or directory"s);
  }
  std::string const directory = std::filesystem::temp_directory_path().string();
  CHECK(read_error(directory) == directory + ": cannot read: Is a directory");
}

TEST_CASE("text, file, CRLF and gzip give the same rows, across all block borders", "[data]") {
  rd::dataset const data = sample();
  std::string const text = text_of(data);
  REQUIRE(text.size() > 1'000'000);
  CHECK(same(data, parse(text, {.features = 900})));
  scratch_file const file(text);
  CHECK(same(data, rd::read_libsvm(file.path(), {.features = 900})));
  file.write(text_of(data, "\r\n"));
  CHECK(same(data, rd::read_libsvm(file.path(), {.features = 900})));
  file.write(gzipped(text));
  CHECK(same(data, rd::read_libsvm(file.path(), {.features = 900})));
  std::size_t const half = text.find('\n', text.size() / 2) + 1;
  file.write(gzipped(text.substr(0, half)) + gzipped(text.substr(half)));
  CHECK(same(data, rd::read_libsvm(file.path(), {.features = 900})));
}

TEST_CASE("a gzip file that stops early is reported wherever it stops", "[data]") {
  std::string const whole = gzipped("1 1:1 2:2\n-1 3:4\n1 12:0.75\n");
  scratch_file const file;
  for (std::size_t size = 2; size < whole.size(); ++size) {
    file.write(std::string_view(whole).substr(0, size));
    INFO(size << " of " << whole.size() << " bytes");
    REQUIRE(read_error(file.path()) == file.path() + ": truncated gzip stream, expected more data");
  }
  file.write(std::string_view(gzipped(text_of(sample()))).substr(0, 200'000));
  CHECK(read_error(file.path()) == file.path() + ": truncated gzip stream, expected more data");
}

TEST_CASE("a gzip file that was changed is reported", "[data]") {
  std::string bytes = gzipped("1 1:1 2:2\n-1 3:4\n");
  bytes[bytes.size() - 6] ^= 1;  // the checksum
  scratch_file const file(bytes);
  CHECK(read_error(file.path()) == file.path() + ": broken gzip stream (" + file.path() +
                                       ": incorrect data check), expected intact data");
}

TEST_CASE("a gzip file whose later member was changed is reported", "[data]") {
  std::string const first = gzipped("1 1:1 2:2\n");
  std::string const second = gzipped("-1 3:4\n");
  scratch_file const file(first + second);
  CHECK(rd::read_libsvm(file.path()).size() == 2);
  for (std::size_t i = 0; i < second.size(); ++i) {
    if (i >= 4 && i < 10) continue;  // its time, how it was packed, and where
    std::string changed = second;
    changed[i] = static_cast<char>(changed[i] ^ 0x81);
    file.write(first + changed);
    INFO(i);
    CHECK(read_error(file.path()) != "no error");
    file.write(first + second.substr(0, i));
    CHECK((read_error(file.path()) == "no error") == (i == 0));
  }
  file.write(first + "-1 3:4\n");
  CHECK(read_error(file.path()) == file.path() + ": broken gzip stream (" + file.path() +
                                       ": incorrect header check), expected intact data");
}

TEST_CASE("zeros may follow the end of a gzip file, and nothing behind them", "[data]") {
  std::size_t const zeros = GENERATE(1U, 511U, 300'000U);
  std::string const padded = gzipped("1 1:1 2:2\n-1 3:4\n") + std::string(zeros, '\0');
  scratch_file const file(padded);
  CHECK(rd::read_libsvm(file.path()).size() == 2);
  file.write(padded + gzipped("1 1:1\n"));
  CHECK(read_error(file.path()) == file.path() + ": broken gzip stream (" + file.path() +
                                       ": bytes behind the zeros at its end), expected intact data");
}

TEST_CASE("long lines cost no memory", "[data]") {
  scratch_file const file;
  gzFile const out = gzopen(file.path().c_str(), "wb1");
  REQUIRE(gzputs(out, "1 1:1 #") > 0);
  std::string const chunk(1 << 20, GENERATE('a', ' ', '\0'));
  for (int i = 0; i < 64; ++i) REQUIRE(gzwrite(out, chunk.data(), 1 << 20) == 1 << 20);
  REQUIRE(gzclose(out) == Z_OK);
  auto const peak_kib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  auto const before = peak_kib();
  CHECK(rd::read_libsvm(file.path()).size() == 1);
  CHECK(peak_kib() - before < 16 * 1024);
}

TEST_CASE("any bytes give rows or a data_error, never anything else", "[data][fuzz]") {
  std::string const seed_text =
      "# comment\n+1 1:0.5 3:-2e-1 268435456:1\r\n-1 2:+4 \n\n-1\n"
      "1 1:1e-45 2:3.4e38 3:0\n-1 7:.5e+3#x";
  std::string const alphabet = "0123456789+-.:e# \t\r\nqidnax\0\xff\x80"s;
  rubato::random_stream random(20'26);
  int parsed = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    if (round % 2 == 0) {
      text.resize(random.below(200));
      bool const text_like = random.chance(0.8);
      for (char& c : text) {
        c = text_like ? alphabet[random.below(alphabet.size())] : static_cast<char>(random());
      }
    } else {
      text = seed_text.substr(random.below(seed_text.size()));
      for (std::uint64_t edits = random.below(4); edits > 0 && !text.empty(); --edits) {
        std::size_t const at = random.below(text.size());
        switch (random.below(3)) {
          case 0:
            text[at] = alphabet[random.below(alphabet.size())];
            break;
          case 1:
            text.erase(at, 1 + random.below(9));
            break;
          default:
            text.insert(at, text.substr(random.below(text.size()), random.below(30)));
        }
      }
    }
    try {
      rd::dataset const data = rd::parse_libsvm(
          text, "fuzz", {.labels = round % 3 == 0 ? rd::label_kind::raw : rd::label_kind::binary});
      ++parsed;
      REQUIRE(data.size() <= text.size());
      REQUIRE(data.nonzeros() <= text.size());
    } catch (data_error const& e) {
      REQUIRE(std::string_view(e.what()).starts_with("fuzz:"));
      REQUIRE(std::string_view(e.what()).find(", expected ") != std::string_view::npos);
    }
  }
  CHECK(parsed > 1000);  // otherwise it would test the first line of the parser only
}

TEST_CASE("any change to a gzip file gives rows or a data_error", "[data][fuzz]") {
  std::string const whole =
      gzipped(text_of(rd::make_synthetic({.rows = 50, .features = 40, .nonzeros_per_row = 5})));
  rubato::random_stream random(7);
  scratch_file const file;
  for (int round = 0; round < 1000; ++round) {
    std::string bytes = whole;
    for (auto edits = 1 + random.below(3); edits > 0; --edits) {
      bytes[random.below(bytes.size())] = static_cast<char>(random());
    }
    file.write(bytes);
    try {
      static_cast<void>(rd::read_libsvm(file.path()));
    } catch (data_error const& e) {
      REQUIRE(std::string_view(e.what()).starts_with(file.path() + ":"));
    }
  }
}

TEST_CASE("a9a has the published counts", "[data][real]") {
  auto const path = real_data("a9a");
  if (!path) return;
  rd::dataset const train = rd::read_libsvm(*path);
  CHECK(train.size() == 32'561);
  CHECK(train.features() == 123);
  CHECK(train.nonzeros() == 451'592);
  CHECK(std::ranges::count(train.labels(), -1.0F) == 24'720);
  CHECK(std::ranges::count(train.labels(), 1.0F) == 7'841);
}

TEST_CASE("a9a.t fits the train set's width", "[data][real]") {
  auto const path = real_data("a9a.t");
  if (!path) return;
  CHECK(rd::read_libsvm(*path).features() == 122);
  rd::dataset const test = rd::read_libsvm(*path, {.features = 123});
  CHECK(test.size() == 16'281);
  CHECK(test.features() == 123);
  CHECK(test.nonzeros() == 225'731);
  CHECK(std::ranges::count(test.labels(), 1.0F) == 3'846);
}

TEST_CASE("farm-ads is read from gzip", "[data][real]") {
  auto const path = real_data("farm-ads.libsvm.gz");
  if (!path) return;
  rd::dataset const data = rd::read_libsvm(*path);
  CHECK(data.size() == 4'143);
  CHECK(data.features() == 54'877);
  CHECK(data.nonzeros() == 817'141);
  CHECK(std::ranges::count(data.labels(), -1.0F) == 1'933);
  CHECK(std::ranges::count(data.labels(), 1.0F) == 2'210);
}

TEST_CASE("the rcv1 sample has fractional values", "[data][real]") {
  auto const path = real_data("rcv1_sample_train.libsvm.gz");
  if (!path) return;
  rd::dataset const data = rd::read_libsvm(*path);
  CHECK(data.size() == 1'000);
  CHECK(data.features() == 47'117);
  CHECK(data.nonzeros() == 77'739);
  for (rd::example const row : data.rows()) {
    double norm2 = 0;
    for (float const x : row.values) norm2 += double(x) * double(x);
    REQUIRE(norm2 == Approx(1).margin(1e-3));
  }
}
