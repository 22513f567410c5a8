// SPDX-License-Identifier: Apache-2.0
#include "support/run_ranks.h"
