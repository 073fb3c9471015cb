// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>
#include <string_view>

namespace rubato::bench {

/// Text as a page has it, also between double quotes.
[[nodiscard]] std::string escaped(std::string_view text);

/// A place in a picture, of which 1 is the whole: in thousandths, as the pictures count.
[[nodiscard]] std::string place(double share);

/// The same for style sheets: "12.3%".
[[nodiscard]] std::string percent(double share);

/// A figure of the page. @param body is HTML, and so is `caption`
[[nodiscard]] std::string figure(std::string_view id, std::string_view title, std::string_view body,
                                 std::string_view caption);

/// A picture that stretches to where it is put, while its lines keep their width and there is no text in it:
/// 1000 wide and 1000 high. @param content of SVG
[[nodiscard]] std::string stretched(std::string_view content);

}  // namespace rubato::bench
