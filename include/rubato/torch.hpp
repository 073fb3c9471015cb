// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

/// Modules of LibTorch (1.13 or newer) as workers need them. Not part of rubato.hpp; link `rubato::torch`.
///
///     at::set_num_threads(1);
///     auto const net = rubato::make_module<network>(seed);
///     rubato::flat_parameters flat{*net};
///     …
///     worker.pull(flat.values());
///     flat.zero_gradients();
///     loss(net->forward(x), y).backward();
///     worker.push(flat.descent(rate));
///     worker.step();
///
/// **Threads.** Each of torch's operations runs on as many threads as the machine has cores, and each thread that
/// calls one has a pool of its own: four workers on four cores would be sixteen threads that get into each other's
/// way. Where workers share a machine, begin the body with `at::set_num_threads(1)`; in main() alone it is not enough,
/// as OpenMP keeps the number by thread.
///
/// **Buffers**, such as the running mean and variance of batch normalization, are no sums of updates and stay with
/// each worker's module: workers normalize by their own batches while they train. A module that evaluates the
/// parameters of a run has those of the batches that it has seen itself: let it see some, in training mode and without
/// gradients.
///
/// **Simulated workers** are fibers of one thread, and guards of torch (NoGradGuard) hold for a thread: hold none while
/// a worker pulls or steps.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>  // before others of torch's: to clang 14 they are ill-formed in C++20 without it

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/module.h>
#include <rubato/core/error.hpp>

namespace rubato {

/// The parameters of a module in one piece of memory, and their gradients in another: what a worker pulls into and
/// pushes from, without copies in between.
///
/// The module's parameters and their `.grad()` become views of the two pieces, in the order of
/// `module.named_parameters()`, which is the same in all processes that make the same module. It goes on to work as
/// before, and does so when this object is gone. Parameters that require no gradient, and buffers, are left where they
/// are: every worker has its own, and they must be the same by other means. One that is registered twice is there once.
///
/// What tells torch to replace tensors ends this: `module.to(…)`, `torch::load`, a parameter that is added, frozen or
/// unfrozen. Do that first; `check` notices, and `values` does as far as its cost allows. To replace gradients does no
/// harm (`zero_grad` makes them undefined in newer versions of torch): `gradients` collects them, by a copy.
///
/// Thread safety: that of the module, which must live as long.
class flat_parameters {
 public:
  /// Moves the module's parameters. O(size). @throws option_error that names the parameter which is not of contiguous
  /// 32-bit floats on the CPU, or shares memory with another; or when there is none. The module is then as it was.
  explicit flat_parameters(torch::nn::Module& module);
  /// The one that is moved from is not to be used again.
  flat_parameters(flat_parameters&&) noexcept = default;
  flat_parameters& operator=(flat_parameters&&) noexcept = default;

  /// Elements of all parameters: the rows of their table.
  [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(values_.numel()); }

  /// The parameters, to be written and read. Counts as writing to torch: it refuses to go backward through what it
  /// computed before. O(parameters), not elements. @throws usage_error as `check`, but sees no added parameter
  [[nodiscard]] std::span<float> values();
  /// The parameters as they are. @throws as above
  [[nodiscard]] std::span<float const> values() const;

  /// What `backward` has summed up since `zero_gradients`; 0 for a parameter that it has not reached. No copies but of
  /// gradients that torch has replaced. O(parameters). @throws usage_error for a sparse gradient, naming the parameter
  [[nodiscard]] std::span<float> gradients();
  /// Sets all gradients to 0; they stay views. O(size).
  void zero_gradients();

  /// A step of gradient descent, to be pushed: the gradients times −rate, in their place. O(size).
  /// @throws as `gradients`
  [[nodiscard]] std::span<float const> descent(float rate);

  /// Notes the parameters, for `change`. O(size).
  void mark();
  /// What has been added to the parameters since `mark`, to be pushed: for torch's optimizers, whose state (velocity,
  /// moments) stays with the worker. Valid until the next `mark`, which it needs first. O(size).
  /// @throws usage_error where nothing is noted; as `values`
  [[nodiscard]] std::span<float const> change();

  /// Is this still the module's parameters, all and no others? O(parameters). @throws usage_error naming the one that
  /// is not, and what to do
  void check() const;

 private:
  struct part {
    std::string name;
    torch::Tensor tensor;  // the module's
    std::int64_t offset;
  };

  static std::vector<part> trained(torch::nn::Module const& module);
  static void require_suitable(part const& p);
  static void require_apart(std::vector<part> const& parts);
  [[noreturn]] static void fail_changed(std::string const& name, char const* what);

  /// The part's place in one of the two pieces, in its own shape.
  static torch::Tensor place(torch::Tensor const& whole, part const& p) {
    return whole.narrow(0, p.offset, p.tensor.numel()).view(p.tensor.sizes());
  }
  static std::span<float> span_of(torch::Tensor const& t) {
    return {t.data_ptr<float>(), static_cast<std::size_t>(t.numel())};
  }
  [[nodiscard]] bool in_place(torch::Tensor const& t, torch::Tensor const& whole, part const& p) const {
    return t.scalar_type() == torch::kFloat32 && t.is_contiguous() &&
           (t.numel() == 0 || t.data_ptr() == whole.data_ptr<float>() + p.offset);
  }
  void require_in_place() const;
  torch::nn::Module const* module_;
  std::vector<part> parts_;
  torch::Tensor values_, gradients_;
  torch::Tensor noted_;  // of `mark`; undefined before the first
  bool marked_ = false;
};

namespace detail {
/// Torch's generator begins anew with a seed, for one thread at a time, and is put back in the end.
class seeded_torch {
 public:
  explicit seeded_torch(std::uint64_t seed)
      : alone_(one_at_a_time()), generator_(at::detail::getDefaultCPUGenerator()) {
    std::lock_guard const lock(generator_.mutex());
    before_ = generator_.get_state();
    generator_.set_current_seed(seed);
  }
  ~seeded_torch() {
    std::lock_guard const lock(generator_.mutex());
    generator_.set_state(before_);
  }
  seeded_torch(seeded_torch const&) = delete;
  seeded_torch& operator=(seeded_torch const&) = delete;

 private:
  static std::mutex& one_at_a_time() {
    static std::mutex mutex;
    return mutex;
  }

  std::lock_guard<std::mutex> alone_;
  at::Generator generator_;
  torch::Tensor before_;
};
}  // namespace detail

/// Makes a module, `std::make_shared<Module>(arguments…)`, whose initial values depend on the seed only: the same in
/// every worker and process with the same build of torch. Torch has one generator for all threads; it is seeded for
/// this and put back afterwards, and modules are made one at a time. Only who draws from it otherwise meanwhile, as
/// dropout does, gets in between. Thread safety: any thread. `Module`'s constructor must not call it.
template <class Module, class... Arguments>
[[nodiscard]] std::shared_ptr<Module> make_module(std::uint64_t seed, Arguments&&... arguments) {
  detail::seeded_torch const drawing(seed);
  return std::make_shared<Module>(std::forward<Arguments>(arguments)...);
}

// In the header, unlike others' bodies: the library is built without torch.

inline flat_parameters::flat_parameters(torch::nn::Module& module) : module_(&module), parts_(trained(module)) {
  std::int64_t total = 0;
  for (part& p : parts_) {
    require_suitable(p);
    p.offset = total;
    total += p.tensor.numel();
  }
  if (total == 0) throw option_error("the module '" + module.name() + "' has nothing to train, expected parameters");
  require_apart(parts_);
  torch::NoGradGuard const plain;
  values_ = torch::empty({total}, torch::kFloat32);
  gradients_ = torch::zeros({total}, torch::kFloat32);
  for (part& p : parts_) {
    torch::Tensor const here = place(values_, p);
    here.copy_(p.tensor);
    p.tensor.set_data(here);
  }
  static_cast<void>(gradients());  // those that are there already
}

/// The module's parameters that require a gradient, each tensor once; offsets are not set.
inline std::vector<flat_parameters::part> flat_parameters::trained(torch::nn::Module const& module) {
  std::vector<part> parts;
  std::set<at::TensorImpl const*> seen;
  for (auto const& p : module.named_parameters())
    if (p.value().requires_grad() && seen.insert(p.value().unsafeGetTensorImpl()).second)
      parts.push_back({p.key(), p.value(), 0});
  return parts;
}

inline void flat_parameters::require_suitable(part const& p) {
  auto const fail = [&](std::string const& what) {
    throw option_error("parameter '" + p.name + "' is " + what + ", expected contiguous 32-bit floats on the CPU");
  };
  if (!p.tensor.device().is_cpu()) fail("on " + p.tensor.device().str());
  if (p.tensor.layout() != torch::kStrided) fail("not dense");
  if (p.tensor.scalar_type() != torch::kFloat32) fail("of " + std::string(c10::toString(p.tensor.scalar_type())));
  if (!p.tensor.is_contiguous()) fail("not contiguous");
}

/// Parameters that are views of each other would come apart when they are moved.
inline void flat_parameters::require_apart(std::vector<part> const& parts) {
  std::vector<std::pair<std::span<float>, part const*>> all;
  for (part const& p : parts)
    if (p.tensor.numel() != 0) all.emplace_back(span_of(p.tensor), &p);
  std::ranges::sort(all, {}, [](auto const& a) { return reinterpret_cast<std::uintptr_t>(a.first.data()); });
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i - 1].first.data() + all[i - 1].first.size() > all[i].first.data())
      throw option_error("parameters '" + all[i - 1].second->name + "' and '" + all[i].second->name +
                         "' share memory, expected each to have its own (or one tensor, registered twice)");
}

inline void flat_parameters::fail_changed(std::string const& name, char const* what) {
  throw usage_error(errc::stale_handle, "parameter '" + name + "' " + what +
                                            " since flat_parameters was made: make it again after such changes");
}

inline void flat_parameters::require_in_place() const {
  for (part const& p : parts_)
    if (!in_place(p.tensor, values_, p)) fail_changed(p.name, "has been given other memory");
}

inline void flat_parameters::check() const {
  require_in_place();
  std::vector<part> const now = trained(*module_);
  auto const same = [](part const& a, part const& b) { return a.tensor.is_same(b.tensor); };
  auto const [mine, theirs] = std::ranges::mismatch(parts_, now, same);
  if (theirs != now.end()) fail_changed(theirs->name, "has been added, replaced or unfrozen");
  if (mine != parts_.end()) fail_changed(mine->name, "has been removed or frozen");
}

inline std::span<float> flat_parameters::values() {
  require_in_place();
  for (part const& p : parts_) p.tensor.unsafeGetTensorImpl()->bump_version();
  return span_of(values_);
}

inline std::span<float const> flat_parameters::values() const {
  require_in_place();
  return span_of(values_);
}

inline std::span<float> flat_parameters::gradients() {
  torch::NoGradGuard const plain;
  for (part& p : parts_) {
    torch::Tensor& grad = p.tensor.mutable_grad();
    if (grad.defined() && grad.layout() != torch::kStrided)
      throw usage_error(errc::bad_option, "the gradient of parameter '" + p.name + "' is sparse, expected a dense one");
    if (grad.defined() && in_place(grad, gradients_, p)) continue;
    torch::Tensor const here = place(gradients_, p);
    if (grad.defined()) here.copy_(grad);
    else here.zero_();
    grad = here;
  }
  return span_of(gradients_);
}

inline void flat_parameters::zero_gradients() {
  for (part& p : parts_) {
    torch::Tensor& grad = p.tensor.mutable_grad();
    if (!grad.defined() || grad.layout() != torch::kStrided || !in_place(grad, gradients_, p))
      grad = place(gradients_, p);
  }
  std::ranges::fill(span_of(gradients_), 0.0F);
}

inline std::span<float const> flat_parameters::descent(float rate) {
  auto const step = gradients();
  for (float& g : step) g *= -rate;
  return step;
}

inline void flat_parameters::mark() {
  require_in_place();
  if (!noted_.defined()) noted_ = torch::empty_like(values_);
  std::ranges::copy(span_of(values_), span_of(noted_).begin());
  marked_ = true;
}

inline std::span<float const> flat_parameters::change() {
  require_in_place();
  if (!marked_) throw usage_error(errc::bad_option, "change() was called without a mark() before it, expected one");
  marked_ = false;
  std::ranges::transform(span_of(values_), span_of(noted_), span_of(noted_).begin(), std::minus<>());
  return span_of(noted_);
}

}  // namespace rubato
