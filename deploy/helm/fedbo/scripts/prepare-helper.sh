# Runs before the helper: prints its card, and on an empty volume begins it.
umask 077
folder="${DATA:-/data}/helper"
# The volume's own folder belongs to a group that may write, so the helper's is inside.
mkdir -p "$folder"
# A volume that was restored elsewhere may have been opened to the group; fedbo refuses such a folder.
chmod -R go-rwx "$folder"
if [ "${MAINTENANCE:-false}" = true ]; then
    # A folder that cannot be used must not keep the container away by which it is repaired.
    fedbo helper card --data "$folder" || true
    exit 0
fi
exec fedbo helper card --data "$folder"
