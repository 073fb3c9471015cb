// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// rubato-server's lists of tables.
#include <catch2/catch.hpp>

#include <cstddef>
#include <string>

#include "rubato/server/blueprint.hpp"
#include "src/tools/server/host.hpp"
#include "tools/server_words.hpp"

using namespace rubato;
using Catch::Matchers::StartsWith;
using test::complaint;
using test::parsed;

TEST_CASE("rubato-server's lists have a value for each table, or one for all") {
  auto const one = parsed({"--storage", "sparse", "--width", "8", "--partition", "hash"}).tables;
  REQUIRE(one.size() == 1);
  CHECK(one[0].storage == "sparse");
  CHECK(one[0].partition == "hash");
  CHECK(one[0].rows == 0);
  CHECK(one[0].width == 8);

  auto const two = parsed({"--storage", "dense,sparse", "--rows", "1000,0", "--width", "16",
                           "--partition", "range,hash"})
                       .tables;
  REQUIRE(two.size() == 2);
  CHECK(two[0].storage == "dense");
  CHECK(two[1].storage == "sparse");
  CHECK(two[0].partition == "range");
  CHECK(two[1].partition == "hash");
  CHECK(two[0].rows == 1000);
  CHECK(two[1].rows == 0);
  CHECK(two[0].width == 16);
  CHECK(two[1].width == 16);

  CHECK(parsed({"--storage", "sparse,sparse"}).tables.size() == 2);
  CHECK(parsed({"--rows", "7", "--width", "1,2,3"}).tables[2].width == 3);
  CHECK(parsed({"--rows", "18446744073709551615", "--storage", "sparse"}).tables[0].rows ==
        18'446'744'073'709'551'615U);
  CHECK(parsed({"--protocol", "dyn_sgd", "--storage", "multi_version_sparse,multi_version",
                "--rows", "0,5"})
            .tables[0]
            .is_sparse());
}

TEST_CASE("rubato-server's lists of types and merges are those of its tables") {
  auto const three =
      parsed({"--rows", "7,8,9", "--type", "float,int32,int64", "--merge", "average,sum,protocol"}).tables;
  REQUIRE(three.size() == 3);
  CHECK(three[0].type == "float");
  CHECK(three[1].type == "int32");
  CHECK(three[2].type == "int64");
  CHECK(three[0].merge == "average");
  CHECK(three[1].merge == "sum");
  CHECK(three[2].merge == "protocol");

  auto const all = parsed({"--rows", "7,8", "--type", "double", "--merge", "sum"}).tables;
  REQUIRE(all.size() == 2);
  for (auto const& t : all) {
    CHECK(t.type == "double");
    CHECK(t.merge == "sum");
  }
  CHECK(parsed({"--rows", "7", "--type", "float,double"}).tables.size() == 2);
  CHECK(parsed({"--rows", "7", "--merge", "protocol,sum"}).tables.size() == 2);
  CHECK(parsed({"--rows", "7"}).tables[0].type == "float");
  CHECK(parsed({"--rows", "7"}).tables[0].merge == "protocol");
}

TEST_CASE("what is wrong in rubato-server's lists is named") {
  CHECK(complaint({"--rows", "1,2,3", "--width", "1,2"}) ==
        "--width: 2 values for 3 tables, expected 1 or 3");
  CHECK(complaint({"--rows", "1,2,3", "--partition", "hash,hash,hash,hash"}) ==
        "--rows: 3 values for 4 tables, expected 1 or 4");
  CHECK(complaint({"--rows", "1,2,3", "--storage", "dense,dense"}) ==
        "--storage: 2 values for 3 tables, expected 1 or 3");

  std::string const whole = ", expected a whole number from ";
  CHECK(complaint({"--rows", "-1"}) == "--rows: \"-1\"" + whole + "0 to 2^64 - 1");
  CHECK_THAT(complaint({"--rows", "18446744073709551616"}),
             StartsWith("--rows: \"18446744073709551616\"" + whole));
  CHECK_THAT(complaint({"--rows", "3,-1"}), StartsWith("--rows: table 1: \"-1\"" + whole));
  CHECK_THAT(complaint({"--rows", ",3"}), StartsWith("--rows: table 0: \"\"" + whole));
  CHECK_THAT(complaint({"--rows", "3,"}), StartsWith("--rows: table 1: \"\"" + whole));
  CHECK_THAT(complaint({"--rows", "3,,4"}), StartsWith("--rows: table 1: \"\"" + whole));
  CHECK_THAT(complaint({"--rows", "3, 4"}), StartsWith("--rows: table 1: \" 4\"" + whole));
  CHECK_THAT(complaint({"--rows", "3,1e6"}), StartsWith("--rows: table 1: \"1e6\"" + whole));
  CHECK(complaint({"--rows", "3,4", "--width", "2,0"}) ==
        "--width: table 1: \"0\"" + whole + "1 to 2^64 - 1");
  CHECK(complaint({"--rows", "3", "--width", "0"}) == "--width: \"0\"" + whole + "1 to 2^64 - 1");
  CHECK(complaint({"--storage", "sparse,spares"}) ==
        "--storage: table 1: \"spares\", expected dense, sparse, multi_version or "
        "multi_version_sparse");
  CHECK(complaint({"--rows", "3", "--partition", "rnage"}) ==
        "--partition: \"rnage\", expected range, hash or range_hash");
  CHECK(complaint({"--rows", "3", "--update-codec", "float16"}) ==
        "--update-codec: \"float16\", expected none, bfloat16 or int8");
  CHECK(complaint({"--rows", "3", "--type", "int"}) ==
        "--type: \"int\", expected float, double, int32 or int64");
  CHECK(complaint({"--rows", "3", "--type", "float,int16"}) ==
        "--type: table 1: \"int16\", expected float, double, int32 or int64");
  CHECK(complaint({"--rows", "3", "--merge", "sum,mean"}) ==
        "--merge: table 1: \"mean\", expected protocol, sum or average");
  CHECK(complaint({"--rows", "1,2,3", "--type", "float,double"}) ==
        "--type: 2 values for 3 tables, expected 1 or 3");
  CHECK(complaint({"--rows", "1,2,3", "--merge", "sum,sum"}) ==
        "--merge: 2 values for 3 tables, expected 1 or 3");

  CHECK(complaint({"--rows", "7,0"}) == "--rows: table 1: a dense table needs 1 or more");
  CHECK(complaint({"--rows", "0", "--storage", "sparse,dense"}) ==
        "--rows: table 1: a dense table needs 1 or more");
  CHECK_THAT(
      complaint({"--rows", "7", "--protocol", "dyn_sgd", "--storage", "multi_version,sparse"}),
      StartsWith("--storage: table 1: sparse with --protocol dyn_sgd, expected multi_version"));
  CHECK(complaint({"--rows", "7", "--protocol", "dyn_sgd", "--storage", "multi_version,sparse", "--merge",
                   "protocol,average"})
            .empty());

  std::string const needs_sum = "a table of integers needs sum";
  CHECK(complaint({"--rows", "7", "--type", "int32", "--merge", "average"}) == "--merge: " + needs_sum);
  CHECK(complaint({"--rows", "7", "--protocol", "bsp", "--type", "float,int64"}) ==
        "--merge: table 1: " + needs_sum);
  CHECK(complaint({"--rows", "7", "--protocol", "dyn_sgd", "--storage", "multi_version", "--type",
                   "int64"}) == "--merge: " + needs_sum);
  CHECK(complaint({"--rows", "7", "--protocol", "con_sgd", "--type", "int64"}) == "--merge: " + needs_sum);
  CHECK(complaint({"--rows", "7", "--protocol", "con_sgd", "--type", "int64", "--merge", "sum"}).empty());
  CHECK(complaint({"--rows", "7", "--type", "int64"}).empty());
}

TEST_CASE("rubato-server hosts any number of tables, dense and sparse in any order") {
  CHECK(complaint({"--rows", "7", "--storage", "dense,dense,sparse"}).empty());
  CHECK(complaint({"--rows", "1,2,3,4"}).empty());
  CHECK(complaint({"--protocol", "dyn_sgd", "--rows", "7", "--width", "1,2,3", "--storage",
                   "multi_version_sparse"})
            .empty());
  auto const plan = server_tool::blueprint_of(parsed({"--rows", "1,2,3,4,5", "--storage",
                                                      "sparse,dense,sparse,dense,multi_version_sparse"}));
  REQUIRE(plan.tables().size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(plan.table(i).bounded() == (i % 2 == 1));
    CHECK(plan.table(i).rows() == i + 1);
  }
}
