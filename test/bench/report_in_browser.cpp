// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The report as a browser draws it, where there is one.
#include "bench/report/page.hpp"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "test/bench/page_checks.hpp"
#include "test/bench/picture.hpp"

using namespace rubato::bench;

namespace {

std::string output_of(std::string const& command) {
  std::FILE* const pipe = ::popen((command + " 2>/dev/null").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  std::array<char, 4096> buffer{};
  while (std::size_t const n = std::fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), n);
  (void)::pclose(pipe);
  return text;
}

/// Adds the answers of a page to its text: what sticks out of the window, and which names lie on each other.
constexpr char const* questions = R"js(<script>
  const rects = (plot) => [...plot.querySelectorAll(".end")].map((e) => e.getBoundingClientRect());
  const overprinted = [...document.querySelectorAll(".plot")].flatMap((plot) => {
    const all = rects(plot);
    return all.flatMap((a, i) => all.slice(i + 1).filter((b) =>
      a.left < b.right && b.left < a.right && a.top + 1 < b.bottom && b.top + 1 < a.bottom));
  });
  for (const ticks of document.querySelectorAll(".marks, .area")) {
    const seen = [...ticks.querySelectorAll(".x")].filter((e) => getComputedStyle(e).visibility !== "hidden")
      .map((e) => e.getBoundingClientRect());
    overprinted.push(...seen.filter((a, i) => seen.slice(i + 1).some((b) => a.left < b.right && b.left < a.right)));
  }
  const outside = [...document.querySelectorAll(".end, .x, .y, .row > span, figcaption")].filter((e) => {
    const box = e.getBoundingClientRect();
    return box.left < -1 || box.right > innerWidth + 1;
  });
  const end = document.querySelector("#loss-over-time .area").getBoundingClientRect();
  document.querySelector("#loss-over-time .area").dispatchEvent(new PointerEvent("pointermove",
    { clientX: end.left + end.width / 2, clientY: end.top + end.height / 2, bubbles: true }));
  document.body.append(`width=${innerWidth} wider=${document.documentElement.scrollWidth - innerWidth} ` +
    `overprinted=${overprinted.length} outside=${outside.length} hover=${document.getElementById("tip").textContent};`);
  document.getElementById("tip").style.display = "none";
</script></body>)js";

class browser {
 public:
  browser() : folder_(std::filesystem::temp_directory_path() / ("rubato-report-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
    for (char const* name : {"chromium", "chromium-browser", "google-chrome"})
      if (program_.empty() && !output_of("command -v " + std::string(name)).empty()) program_ = name;
  }
  browser(browser const&) = delete;
  browser& operator=(browser const&) = delete;
  ~browser() { std::filesystem::remove_all(folder_); }

  /// What there is to say where no browser draws.
  [[nodiscard]] std::string missing() {
    if (program_.empty()) return "there is no chromium, chromium-browser or google-chrome";
    return dom("<p>here</p>", 600, false).find("here") == std::string::npos ? program_ + " does not run here" : "";
  }
  [[nodiscard]] std::string dom(std::string const& page, int width, bool dark) {
    return output_of(command(page, width, dark) + " --dump-dom file://" + page_file());
  }
  [[nodiscard]] picture draw(std::string const& page, int width, bool dark) {
    std::string const file = (folder_ / "page.png").string();
    (void)output_of(command(page, width, dark) + " --screenshot=" + file + " file://" + page_file());
    return picture(file);
  }

 private:
  [[nodiscard]] std::string page_file() const { return (folder_ / "page.html").string(); }
  [[nodiscard]] std::string command(std::string const& page, int width, bool dark) const {
    std::ofstream(page_file(), std::ios::binary) << page;
    return "HOME=" + folder_.string() + " timeout 60 " + program_ +
           " --headless=new --no-sandbox --disable-gpu --hide-scrollbars --force-device-scale-factor=1 "
           "--window-size=" + std::to_string(width) + ",5000" +
           (dark ? " --blink-settings=preferredColorScheme=0" : "");
  }

  std::filesystem::path folder_;
  std::string program_;
};

constexpr std::uint32_t light_page = 0xf6f7f8, dark_page = 0x15181c;
constexpr std::array<std::uint32_t, 3> light_lines = {0x0072b2, 0xe08a00, 0x009e73};
constexpr std::array<std::uint32_t, 3> dark_lines = {0x3d8fe0, 0xf5b83d, 0x1fc49a};

}  // namespace

TEST_CASE("a browser draws the report in light and dark, wide and narrow, and no name lies on another") {
  browser chromium;
  if (auto const why = chromium.missing(); !why.empty()) {
    WARN("skipped: " << why);
    return;
  }
  std::string page = report_page({"settings", "verdict", sixteen_protocols()});
  std::string const plain = page;
  page.replace(page.rfind("</body>"), 7, questions);
  for (int const width : {400, 1200}) {
    INFO(width);
    std::string const seen = chromium.dom(page, width, false);
    CHECK_THAT(seen, Catch::Contains(" overprinted=0 outside=0 hover="));
    CHECK_THAT(seen, Catch::Contains(" wider=0 "));
    std::string const hover = seen.substr(std::min(seen.rfind("hover="), seen.size()), 80);
    CHECK_THAT(hover, Catch::Contains("\nobjective 0.") && Catch::Contains(" after ") && Catch::Contains("s;"));
  }
  for (bool const dark : {false, true}) {
    INFO((dark ? "dark" : "light"));
    picture const drawn = chromium.draw(plain, 1200, dark);
    CHECK(drawn.width() == 1200);
    CHECK(drawn.at(0, 0) == (dark ? dark_page : light_page));
    for (std::uint32_t const line : dark ? dark_lines : light_lines) CHECK(drawn.count(line) > 50);
    CHECK(drawn.count(dark ? light_page : dark_page) == 0);
  }
}
