#!/bin/sh
# Writes the head of each ledger as a metric for node_exporter's textfile collector. Run it hourly by cron as the coordinator's
# user.
#
#   FEDBO_COORDINATOR=/var/lib/fedbo-coordinator ledger-heads.sh /var/lib/node_exporter/textfile
#
# Prometheus stores the heads outside the machine, and the alert FedboLedgerChanged compares them. The service has no such metric.
set -eu
file="${1:?usage: ledger-heads.sh FOLDER}/fedbo_ledgers.prom"
new="$file.$$"
# In separate steps, so that a failed command ends the script and the old file is kept.
set -f
IFS='
'
listed=$(fedbo coordinator study ls --json)
studies=$(printf '%s\n' "$listed" | sed -n 's/^ *"study": "\(.*\)",\{0,1\}$/\1/p')
heads=$(
    for study in $studies; do
        shown=$(fedbo coordinator study show "$study" --json) || exit
        printf '%s\n' "$shown" |
            sed -n "s/^ *\"ledger_head\": \"\([0-9]*\):\([0-9a-f]*\)\",\{0,1\}\$/ledger_head{study=\"$study\",hash=\"\2\"} \1/p"
    done
)
printf '%s\n' "# HELP ledger_head Number of the last release in a study's ledger, with its hash." "# TYPE ledger_head gauge" "$heads" > "$new"
chmod 644 "$new"
mv "$new" "$file"
