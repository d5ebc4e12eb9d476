# Runs before the coordinator: copies its keys with the file modes that it requires, which mounted Secrets cannot have.
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
# The root folder of the volume is group-writable, so the coordinator uses a subfolder.
mkdir -p "$folder"
# A volume restored elsewhere may be accessible to the group.
chmod -R go-rwx "$folder"
if [ -e "$secrets/coordinator.key" ]; then
    if [ ! -e "$folder/coordinator.key" ]; then
        cp "$secrets/coordinator.key" "$folder/coordinator.key"
    elif [ "$(cat "$secrets/coordinator.key")" != "$(cat "$folder/coordinator.key")" ]; then
        echo "the key in the Secret differs from the one on the volume; agents accept the volume's studies only with the latter" >&2
        exit 2
    fi
fi
