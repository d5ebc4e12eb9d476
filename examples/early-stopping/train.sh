#!/bin/sh
# The same contract in a shell: a loss that falls from 1 towards a level, at a speed, both of which depend on the parameters.
#
#   sh train.sh RATE MOMENTUM
#
# A shell cannot look at its standard input without waiting for it; so it asks to be stopped by a signal.
rate=$1 momentum=$2 stop=no
trap 'stop=yes' USR1
echo '{"stop_by": "SIGUSR1"}'
epoch=1
while [ $epoch -le 30 ] && [ $stop = no ]; do
    awk -v e=$epoch -v r="$rate" -v m="$momentum" 'BEGIN {
        d = log(r) / log(10) + 1.5; level = 0.1 + 0.2 * d * d + (m - 0.8)^2
        printf "{\"epoch\": %d, \"value\": %.6f}\n", e, level + (1 - level) * exp(-e * r * 20)
    }'
    epoch=$((epoch + 1))
done
[ $stop = no ] || echo "stopped after epoch $((epoch - 1))" >&2   # here one would save what was learned
