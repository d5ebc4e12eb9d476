# Runs before the helper: prints its card, and creates the helper on an empty volume.
umask 077
folder="${DATA:-/data}/helper"
# The root folder of the volume is group-writable, so the helper uses a subfolder.
mkdir -p "$folder"
# A volume restored elsewhere may be accessible to the group; fedbo refuses such a folder.
chmod -R go-rwx "$folder"
if [ "${MAINTENANCE:-false}" = true ]; then
    # An unusable folder must not prevent the start of the container that is used to repair it.
    fedbo helper card --data "$folder" || true
    exit 0
fi
exec fedbo helper card --data "$folder"
