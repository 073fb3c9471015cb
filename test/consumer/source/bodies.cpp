// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The one file of a program that has Rubato's bodies in it.
#include <rubato/src.hpp>
