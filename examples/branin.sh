#!/bin/sh
# A slightly shifted Branin function: branin.sh X1 X2 SHIFT
# The parameters are also in the environment: FEDBO_PARAMS is {"x1": .., "x2": ..}.
exec awk -v x1="$1" -v x2="$2" -v shift="$3" 'BEGIN {
    pi = atan2(0, -1); x1 -= shift; x2 -= shift
    a = x2 - 5.1 / (4 * pi * pi) * x1 * x1 + 5 / pi * x1 - 6
    printf "%.12g\n", a * a + 10 * (1 - 1 / (8 * pi)) * cos(x1) + 10
}'
