#!/bin/sh
# A lab's experiment: evaluate.sh LAB TEMPERATURE HOURS prints the yield in percent. The yield has a high and a low peak, shifted
# slightly from lab to lab, and a measurement error.
exec awk -v lab="$1" -v t="$2" -v h="$3" 'BEGIN {
    moved = (lab - 4.5) * 0.8
    high = 85 * exp(-((t - 64 - moved) / 14) ^ 2 - ((h - 8) / 2.5) ^ 2)
    low = 55 * exp(-((t - 35 - moved) / 12) ^ 2 - ((h - 3) / 2) ^ 2)
    error = 0.5 * sin(1000 * t + 777 * h + lab)
    printf "%.6g\n", high + low + error
}'
