// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/report/page_parts.hpp"

namespace rubato::bench {

std::string_view page_style() noexcept {
  return R"css(
:root { color-scheme: light dark; --page: #f6f7f8; --card: #fff; --ink: #1d2126; --soft: #59616b; --rule: #dde1e6;
  --c0: #0072b2; --c1: #e08a00; --c2: #c2410c; --c3: #009e73; --c4: #cc79a7; --c5: #56b4e9; --c6: #565656; --c7: #000;
  --compute: #009e73; --send: #56b4e9; --wait: #e69f00; }
@media (prefers-color-scheme: dark) { :root { --page: #15181c; --card: #1e2227; --ink: #e8eaed; --soft: #a4acb6;
  --rule: #363c44; --c0: #3d8fe0; --c1: #f5b83d; --c2: #ff7043; --c3: #1fc49a; --c4: #e58fc0; --c5: #a5dcff;
  --c6: #787878; --c7: #fff; --compute: #17a37f; --send: #6fbff0; --wait: #f0b13c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 84rem; padding: 1rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
h1 { font-size: 1.5rem; margin: 0.5rem 0; }
h2 { font-size: 1.1rem; margin: 0 0 0.4rem; }
.verdict { font-size: 1.1rem; border-left: 4px solid var(--compute); padding: 0.4rem 1rem; background: var(--card); }
.settings { color: var(--soft); white-space: pre-line; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--rule); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.35rem 0.4rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: var(--card); }
thead th { color: var(--soft); font-weight: 600; border-bottom: 1px solid var(--rule); }
tbody tr + tr td { border-top: 1px solid var(--rule); }
tbody tr:first-child { font-weight: 600; }
.plots { display: grid; gap: 1rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 32rem), 1fr)); }
figure { margin: 0; padding: 0.8rem; background: var(--card); border: 1px solid var(--rule); border-radius: 6px;
  min-width: 0; }
figcaption, details { color: var(--soft); font-size: 0.85rem; }
figcaption { margin-top: 0.6rem; }
.axis, .key { color: var(--soft); font-size: 0.8rem; margin: 0 0 0.3rem; }
.axis.below { text-align: center; margin: 0.2rem 0 0; }
svg { display: block; width: 100%; height: 100%; overflow: visible; }
svg path { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; }
svg .line { stroke-linejoin: round; stroke-width: 1.6; }
svg .beyond { stroke-width: 1; opacity: 0.3; }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .target { stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 1 3; stroke-linecap: round; }
.plot { display: flex; height: 25rem; padding: 0.4rem 0 2.6rem 3rem; }
.area { position: relative; flex: 1; min-width: 0; cursor: crosshair; touch-action: pan-y; }
.area span { position: absolute; font-size: 0.75rem; color: var(--soft); white-space: nowrap; }
.area .y { right: calc(100% + 0.4rem); transform: translateY(-50%); }
.area .x { top: calc(100% + 0.2rem); transform: translateX(-50%); }
.area .name { top: calc(100% + 1.3rem); left: 50%; transform: translateX(-50%); }
.area .aim { left: 0.3rem; transform: translateY(-100%); }
.leads { width: 1.2rem; }
.leads path { stroke-width: 1; opacity: 0.5; stroke-dasharray: none; }
.ends { position: relative; width: 10rem; }
.end { position: absolute; left: 0.2rem; transform: translateY(-50%); font-size: 0.75rem; line-height: 1.1;
  white-space: nowrap; cursor: default; }
.swatch { display: inline-block; width: 26px; height: 8px; margin-right: 0.3rem; }
.chosen .line, .chosen .end { opacity: 0.18; }
.chosen .line.is, .chosen .end.is { opacity: 1; }
.chosen .line.is { stroke-width: 3; }
.row { display: grid; grid-template-columns: 9rem 1fr 6.5rem; gap: 0.6rem; align-items: center; font-size: 0.8rem;
  margin: 3px 0; }
.row > span { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.row > span:last-child { font-variant-numeric: tabular-nums; color: var(--soft); }
.row > div { height: 1.25rem; min-width: 0; }
.ticks .marks { position: relative; }
.ticks .x { position: absolute; transform: translateX(-50%); font-size: 0.75rem; color: var(--soft);
  white-space: nowrap; }
.dot { stroke-linecap: round; stroke-width: 9px; stroke: var(--c0); }
.dot.missed { stroke: var(--soft); stroke-width: 5px; }
.spread { stroke: var(--c0); stroke-width: 4px; opacity: 0.45; }
.compute { fill: var(--compute); background: var(--compute); }
.send { fill: var(--send); background: var(--send); }
.wait { fill: var(--wait); background: var(--wait); }
.reads { fill: var(--c0); }
#staleness .row > div { border-bottom: 1px solid var(--rule); }
#staleness .ticks > div { border: 0; }
.box { display: inline-block; width: 0.8rem; height: 0.8rem; margin: 0 0.2rem 0 0.5rem; border-radius: 2px;
  vertical-align: -1px; }
.lanes { display: grid; grid-template-columns: 5.2rem 1fr; gap: 0 0.5rem; font-size: 0.72rem;
  padding-right: 1.5rem; }
.names { display: grid; grid-auto-rows: 1.15rem; line-height: 1.15rem; color: var(--soft); white-space: nowrap; }
.strips { height: calc(var(--lanes) * 1.15rem); min-width: 0; }
.lanes .marks { position: relative; height: 1.2rem; }
.lanes .x { position: absolute; top: 0.2rem; transform: translateX(-50%); white-space: nowrap; color: var(--soft); }
svg .commit { stroke: var(--ink); stroke-width: 1.5px; }
svg .who { stroke: var(--c2); stroke-width: 1.5px; opacity: 0.8; pointer-events: none; }
#tip { position: fixed; z-index: 1; pointer-events: none; display: none; max-width: 20rem; padding: 0.3rem 0.6rem;
  background: var(--ink); color: var(--card); border-radius: 4px; font-size: 0.8rem; white-space: pre-line; }
@media (max-width: 40rem) {
  body { padding: 0.6rem; }
  .plot { height: auto; flex-wrap: wrap; padding: 0.4rem 0 0 2.6rem; }
  .area { flex-basis: 100%; height: 17rem; margin-bottom: 3rem; }
  .leads { display: none; }
  .ends { width: 100%; display: flex; flex-wrap: wrap; gap: 0.3rem 0.9rem; margin-left: -2.2rem; }
  .end { position: static; transform: none; }
  .row { grid-template-columns: 6.6rem 1fr 5.4rem; gap: 0.4rem; font-size: 0.72rem; }
  .marks:has(.x:nth-child(4)) .x:nth-last-child(even) { visibility: hidden; }
  svg .commit, svg .who { stroke-width: 1px; }
}
@media print { .plots { display: block; } figure { break-inside: avoid; margin-bottom: 1rem; } }
)css";
}

std::string_view page_script() noexcept {
  return R"js(
(() => {
  const tip = document.getElementById("tip");
  const digits = (x) => (Math.abs(x) >= 1000 ? x.toFixed(0) : Number(x.toPrecision(3)).toString());
  const time = (s) => s < 1e-3 ? digits(s * 1e6) + " us" : s < 1 ? digits(s * 1e3) + " ms" : digits(s) + " s";
  const show = (event, text) => {
    tip.textContent = text;
    tip.style.display = "block";
    const wide = tip.offsetWidth, high = tip.offsetHeight;
    tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - wide - 4)) + "px";
    tip.style.top = (event.clientY + 18 + high > innerHeight ? event.clientY - high - 12 : event.clientY + 18) + "px";
  };
  const hide = () => { tip.style.display = "none"; };

  // The corners of a line of steps, in thousandths.
  const corners = (path) => {
    const found = [];
    let x = 0, y = 0;
    for (const [, letter, value, other] of path.getAttribute("d").matchAll(/([MHV])([-\d.e]+) ?([-\d.e]+)?/g)) {
      if (letter === "M") { x = +value; y = +other; }
      else if (letter === "H") x = +value;
      else y = +value;
      found.push([x, y]);
    }
    return found;
  };
  const choose = (plot, series) => {
    plot.classList.toggle("chosen", series !== null);
    for (const e of plot.querySelectorAll("[data-series]")) e.classList.toggle("is", e.dataset.series === series);
  };

  for (const plot of document.querySelectorAll(".plot")) {
    const area = plot.querySelector(".area"), d = area.dataset;
    const lines = [...area.querySelectorAll(".line")].map((path) => ({ path, points: corners(path) }));
    const log = (from, to, share) => from * Math.pow(to / from, share);
    const over = (event) => {
      const box = area.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * 1000, y = (event.clientY - box.top) / box.height * 1000;
      let best = null;
      for (const { path, points } of lines) {
        if (!points.length || x < points[0][0]) continue;
        let at = points[0];
        for (const p of points) if (p[0] <= x) at = p;
        const away = Math.hypot((at[1] - y) * box.height, Math.max(0, x - points[points.length - 1][0]) * box.width);
        if (!best || away < best.away) best = { away, path, y: at[1] };
      }
      if (!best) { hide(); choose(plot, null); return; }
      const value = log(+d.xFrom, +d.xTo, x / 1000);
      const loss = +d.floor + log(+d.yFrom, +d.yTo, 1 - best.y / 1000);
      choose(plot, best.path.dataset.series);
      show(event, best.path.dataset.name + "\nobjective " + Number(loss.toPrecision(4)) + " after " +
        (d.x === "time" ? time(value) : digits(value) + " updates"));
    };
    area.addEventListener("pointermove", over);
    area.addEventListener("pointerdown", over);
    area.addEventListener("pointerleave", () => { hide(); choose(plot, null); });
    for (const end of plot.querySelectorAll(".end")) {
      end.addEventListener("pointerenter", () => choose(plot, end.dataset.series));
      end.addEventListener("pointerleave", () => choose(plot, null));
    }
  }
  for (const type of ["pointermove", "pointerdown"])
    document.addEventListener(type, (event) => {
      if (event.target.closest(".area")) return;
      const told = event.target.closest("[data-tip]");
      if (told) show(event, told.dataset.tip); else hide();
    });
})();
)js";
}

}  // namespace rubato::bench
