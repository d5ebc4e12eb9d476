# Runs the agent. A StatefulSet starts its container again whatever ended it; after these codes that would do harm or nothing, so
# the container stays, says why, and is not ready unless the agent is done.
rm -f "${STATE:-/run/fedbo}/ended"
fedbo agent run "${ETC:-/etc/fedbo}/agent/agent.toml" &
agent=$!
trap 'interrupted=yes ending=yes; kill -TERM "$agent" 2> /dev/null || true' TERM INT
code=0
wait "$agent" || code=$?
# A signal ends `wait` before the agent has ended; the next one says how it did.
while [ -n "${interrupted:-}" ]; do
    interrupted="" code=0
    wait "$agent" || code=$?
done
case "$code" in
    0) reason="its plan is done" ;;
    2) reason="a setting, a file or a command cannot be used" ;;
    3) reason="its own budget is spent" ;;
    5) reason="every trial failed, or too many in a row" ;;
    6) reason="the coordinator refuses, or is not to be trusted" ;;
    *) exit "$code" ;;
esac
[ "$code" = 0 ] || echo "$code" > "${STATE:-/run/fedbo}/ended"
echo "the agent has ended with code $code: $reason; it is not started again. To start it again, delete the pod" >&2
trap 'exit 0' TERM INT
while [ -z "${ending:-}" ]; do
    sleep 5 &
    wait $! || true
done
