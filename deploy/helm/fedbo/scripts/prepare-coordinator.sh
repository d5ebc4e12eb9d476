# Runs before the coordinator: places its keys with the rights that it demands, which mounted Secrets cannot have.
umask 077
secrets="${RUN:-/run/fedbo}/secrets"
given="${ETC:-/etc/fedbo}"
folder="${DATA:-/data}/coordinator"
mkdir -p "$secrets"
for file in key/coordinator.key dashboard/dashboard-token; do
    if [ -e "$given/$file" ]; then
        cat "$given/$file" > "$secrets/${file##*/}"
    fi
done
if [ "$SHARED" = yes ]; then
    exit 0
fi
# The volume's own folder belongs to a group that may write, so the coordinator's is inside.
mkdir -p "$folder"
# A volume that was restored elsewhere may have been opened to the group.
chmod -R go-rwx "$folder"
if [ -e "$secrets/coordinator.key" ]; then
    if [ ! -e "$folder/coordinator.key" ]; then
        cp "$secrets/coordinator.key" "$folder/coordinator.key"
    elif [ "$(cat "$secrets/coordinator.key")" != "$(cat "$folder/coordinator.key")" ]; then
        echo "the key in the Secret is not that of the volume: agents know the studies of the volume by its own key" >&2
        exit 2
    fi
fi
