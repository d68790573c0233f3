# Process 1 of a cell. Arguments: the folder of the cell, its host name.
# Standard input is a pipe from the test: when that closes, the cell ends.
set -e
dir=$1 host=$2

mount --make-rprivate /
mount -t proc proc /proc
ip link set lo up
# Grid Engine refuses a host whose name leads to a loopback address.
ip addr add 10.77.7.1/32 dev lo
hostname "$host"
for file in "$dir"/etc/*; do
	# A file that the machine does not have has nothing to be mounted on.
	[ ! -e "/etc/${file##*/}" ] || mount --bind "$file" "/etc/${file##*/}"
done
mount --bind "$dir/root" /var/lib/gridengine
mount --bind "$dir/spool" /var/spool/gridengine
mount --bind "$dir/home" /home
# The keys of daemons with security_mode tls.
[ ! -d /var/lib/ocs ] || mount -t tmpfs -o mode=755 keys /var/lib/ocs
# Last, because the cell's folder may lie below it.
mount --bind "$dir/tmp" /tmp
cd /
echo ready

# wait reaps whatever is orphaned, which sge_execd relies on: to it, a zombie
# named sge_shepherd is a running job.
cat <&3 >/dev/null 3<&- &
exec 3<&- </dev/null >/dev/null 2>&1
wait $!
