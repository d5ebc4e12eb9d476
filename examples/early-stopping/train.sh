#!/bin/sh
# The same contract in a shell script: a loss that decays from 1 to a level; the level and the rate depend on the parameters.
#
#   sh train.sh RATE MOMENTUM
#
# A shell cannot check its standard input without blocking, so the script handles a signal instead.
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
[ $stop = no ] || echo "stopped after epoch $((epoch - 1))" >&2   # save the model here
