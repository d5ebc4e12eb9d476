# Runs the agent. A StatefulSet always restarts its container. After the exit codes below, a restart would be harmful or useless,
# so the container stays, prints the reason, and is not ready unless the agent has completed its plan.
rm -f "${STATE:-/run/fedbo}/ended"
fedbo agent run "${ETC:-/etc/fedbo}/agent/agent.toml" &
agent=$!
trap 'interrupted=yes ending=yes; kill -TERM "$agent" 2> /dev/null || true' TERM INT
code=0
wait "$agent" || code=$?
# A signal ends `wait` before the agent exits. The next `wait` returns its exit code.
while [ -n "${interrupted:-}" ]; do
    interrupted="" code=0
    wait "$agent" || code=$?
done
case "$code" in
    0) reason="its plan is complete" ;;
    2) reason="a setting, a file or a command is unusable" ;;
    3) reason="its own budget is exhausted" ;;
    5) reason="every trial failed, or too many in a row" ;;
    6) reason="the coordinator refuses the agent or cannot be trusted" ;;
    *) exit "$code" ;;
esac
[ "$code" = 0 ] || echo "$code" > "${STATE:-/run/fedbo}/ended"
echo "the agent exited with code $code: $reason; it is not restarted. To restart it, delete the pod" >&2
trap 'exit 0' TERM INT
while [ -z "${ending:-}" ]; do
    sleep 5 &
    wait $! || true
done
