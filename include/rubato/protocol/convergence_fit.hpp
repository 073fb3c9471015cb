// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

/// @file
/// Which of two probes made the loss converge faster: the reward of ADSP's online search (003
/// §4.2).
///
/// The loss of a run is taken to follow `l(t) = 1/(alpha t + beta) + c`, where a configuration
/// changes `alpha` and nothing else; so the one with the greater alpha is the better one, wherever
/// on the curve each of them was tried. At a given `c`, each probe's alpha >= 0 and beta are the
/// least-squares fit of a line to 1/(l - c), with weights (l - c)^4.
///
/// What is hard is `c`, the loss that training tends to: two short probes say little of it. Were
/// nothing else known, the standard error of ln(alpha_2/alpha_1) would be 0.15 to 0.3 at 1% noise
/// even where the loss falls by a quarter per probe, too much to find ln 1.3 = 0.26. (That the
/// loss is continuous from one probe to the next does not help, and is not assumed.) But a loss is
/// rarely negative. So `c` is not the one that fits best, but the mean of those that fit, weighted
/// by their residual in loss and by a prior: from the least loss down to 0, and to at most 10 times
/// the range of the losses, which is also how far it goes where losses are negative; the higher
/// the likelier, in proportion. A `c` below that needs samples without noise to be found.
///
/// Both functions are pure: safe from any thread, no exceptions for odd data, and the same bits
/// everywhere with the flags that portable_math.hpp asks for. Samples may come in any order, times
/// may repeat; a sample with a time or loss that is not finite is left out. All results are finite.
/// Neither the origin of time nor the units of time and loss matter, but the zero of the loss does.
namespace rubato {

/// The loss at a moment. Seconds from any origin, one for all samples of a call.
struct loss_sample {
  double seconds;
  double loss;
};

/// The curve `l(t) = 1/(alpha (t - origin) + beta) + c`.
///
/// Where there is nothing to fit (fewer than 3 usable samples, all of one time or one loss, or
/// numbers that leave the range of double), `alpha` and `beta` are 0, `c` is the mean loss and
/// `degenerate` is set.
struct convergence_curve {
  double alpha = 0;        ///< per second and loss; never negative
  double beta = 0;         ///< per loss; at `origin`, and so negative for a curve that begins later
  double c = 0;            ///< loss; below all samples, unless there is nothing to fit
  double origin = 0;       ///< seconds: the earliest sample of all that were given to the call
  double alpha_error = 0;  ///< standard error of `alpha`, taking `c` for exact
  double c_error = 0;      ///< standard deviation of the `c` that fit
  double residual = 0;     ///< root of the mean square of sample - curve, in loss
  std::size_t samples = 0;  ///< how many were used

  /// Its fall is within 3 standard errors of 0, or it has fewer than 4 samples, or they say little
  /// of `c`: `c_error` is more than half of what it is without any. Of a curve that is not
  /// degenerate, `c` makes a good `last_good_c`.
  bool degenerate = true;

  /// The curve's loss; `c` where the curve has none (the sum under the 1 is not positive).
  [[nodiscard]] constexpr double loss_at(double seconds) const noexcept {
    double const u = alpha * (seconds - origin) + beta;
    return u > 0 ? 1 / u + c : c;
  }
};

enum class probe_verdict {
  faster,           ///< the second probe's rate is clearly the greater one: step up
  slower_or_equal,  ///< it is not
  undecided,        ///< the samples do not say; does not step up either
};

/// What `compare_probes` found, and how sure it is.
struct probe_comparison {
  probe_verdict verdict = probe_verdict::undecided;
  convergence_curve first{};  ///< of one origin and one `c` with `second`
  convergence_curve second{};
  /// Each curve's reward, per second: alpha/(1/(l - c) - beta), which is one over the time from
  /// `origin` to the loss l half-way from the least sample to `c`; 0 where that is undefined.
  double first_reward = 0;
  double second_reward = 0;
  double difference = 0;        ///< second.alpha - first.alpha
  double difference_error = 0;  ///< its standard error, taking `c` for exact
  double ratio_error = 0;       ///< how far ln(second.alpha/first.alpha) moves with c by c_error
  bool used_last_good_c = false;
};

/// The curve that fits `samples`. O(n); allocates one array of n.
[[nodiscard]] convergence_curve fit_convergence(std::span<loss_sample const> samples);

/// Is the second probe's rate greater than the first's?
///
/// `faster` when alpha_2 > 1.05 alpha_1 and the difference exceeds twice its standard error at the
/// common `c`. `undecided` when the fall of either probe is within 3 standard errors of 0, or there
/// are fewer than 4 samples in one. `last_good_c`, the `c` of an earlier curve that is not
/// degenerate, helps in two cases, provided that it is below all losses:
/// - samples that say little of `c` (see `convergence_curve::degenerate`) are compared at this one
///   instead of the mean, if it fits them;
/// - where a fall is unclear, robust slopes at this `c` are compared (Theil's incomplete method:
///   the median over pairs half a probe apart). `faster` then asks that the second's fall exceed 5
///   standard errors, since noise exceeds 3 once in some hundred searches.
///
/// Meant for at least 9 samples per probe. Measured at 1% noise, with 9 samples and a fall of 25%
/// or more per probe, or 36 and 12%: finds a rate 30% greater in 93% of cases or more where c is
/// at most 0.2 (9 samples) or 0.4 (36) of the loss at the start, and in 78% near the greatest c
/// that still allows such falls; takes a rate 30% less for greater in less than 1%. The price is
/// that of equal rates: taken for faster in 15 to 20% of cases where c is 0.3 of the loss, but in
/// 60 to 87% where it is 0, since the standard error does not count what is unknown of `c` (see
/// `probe_comparison::ratio_error`). With the true `c` as `last_good_c` it is 1 to 2%.
/// O(n log n) with `last_good_c`, else O(n), some ten microseconds; allocates a few arrays of n.
[[nodiscard]] probe_comparison compare_probes(std::span<loss_sample const> first,
                                              std::span<loss_sample const> second,
                                              std::optional<double> last_good_c = {});

}  // namespace rubato
