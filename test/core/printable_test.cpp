// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/printable.hpp>

#include <catch2/catch.hpp>

#include <string>

using rubato::printable;

TEST_CASE("printable: text stays as it is, in any script") {
  std::string const text = "server 1 (/tmp/\xc3\xbc\xc3\x9f/\xe6\xb5\xb7): \"lost\" \\ \xf0\x9f\x8e\xb5";
  CHECK(printable(text) == text);
  CHECK(printable(printable("\x1b[31m")) == printable("\x1b[31m"));
}

TEST_CASE("printable: what moves a cursor, begins a line or turns one around is escaped") {
  CHECK(printable("\x1b[2Ja\nb\tc\r\x7f") == "\\x1b[2Ja\\nb\\tc\\x0d\\x7f");
  CHECK(printable(std::string("\0", 1)) == "\\x00");
  CHECK(printable("\xc2\x9b" "2J") == "\\xc2\\x9b2J");                    // a control sequence in one character
  CHECK(printable("\xe2\x80\xae" "abc") == "\\xe2\\x80\\xaeabc");       // from right to left
  CHECK(printable("\xe2\x81\xa6\xe2\x80\xa8") == "\\xe2\\x81\\xa6\\xe2\\x80\\xa8");
}

TEST_CASE("printable: bytes that are no UTF-8 are escaped one by one") {
  CHECK(printable("\xff\xc3") == "\\xff\\xc3");
  CHECK(printable("\xc3(") == "\\xc3(");
  CHECK(printable("\xc0\x8a") == "\\xc0\\x8a");                      // a newline, longer than need be
  CHECK(printable("\xe0\x80\x8a") == "\\xe0\\x80\\x8a");
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // half of a pair
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
}

TEST_CASE("printable: what is long is cut, between characters") {
  CHECK(printable("abcdef", 6) == "abcdef");
  CHECK(printable("abcdefg", 6) == "abc...");
  CHECK(printable("ab\xc3\xbc" "defg", 6) == "ab...");
  CHECK(printable("ab\ndefg", 6) == "ab...");
  CHECK(printable("abcdefg", 3) == "...");
  CHECK(printable(std::string(100'000, '\x01')).size() <= 1000);
}

TEST_CASE("printable: what is printable stays as it is, cut or not") {
  for (std::string const& said : {std::string(997, 'a') + "\n\n", std::string(5000, '\xff'), std::string("a\0b", 3),
                                  std::string(2000, 'a'), std::string("n\xea\xea\xea\xea\0\0", 7)}) {
    std::string const once = printable(said);
    CHECK(printable(once) == once);
  }
}
