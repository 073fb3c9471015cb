// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/data/impl/bag_of_words.ipp"
#include "rubato/data/impl/columns.ipp"
#include "rubato/data/impl/compact.ipp"
#include "rubato/data/impl/dataset.ipp"
#include "rubato/data/impl/file_assigner.ipp"
#include "rubato/data/impl/file_block.ipp"
#include "rubato/data/impl/idx.ipp"
#include "rubato/data/impl/libsvm.ipp"
#include "rubato/data/impl/movielens.ipp"
#include "rubato/data/impl/ratings.ipp"
#include "rubato/data/impl/synthetic.ipp"
#include "rubato/data/impl/synthetic_chiller.ipp"
#include "rubato/data/impl/synthetic_digits.ipp"
#include "rubato/data/impl/view.ipp"
