// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What nearly every test includes and what is slow to parse. Tests still include what they use.
#include <Eigen/Core>
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>
