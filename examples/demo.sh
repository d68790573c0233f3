#!/bin/sh
# Starts a batch system of its own (execd standalone), submits the sample jobs of this
# directory and says what is to be seen. Ends with 1 if something else happens. Leaves
# nothing behind.
set -u

examples=$(cd "$(dirname "$0")" && pwd) || exit 1
bin=${EXECD_BIN:-$examples/../bin}
if ! [ -x "$bin/execd" ] || ! [ -x "$bin/sge_shepherd-go" ]; then
	echo "demo: execd has not been built yet: run make build" >&2
	exit 1
fi

# Everything happens in a directory that the user of the jobs may enter, which the
# one that this script lies in need not be.
parent=${TMPDIR:-/tmp}
[ "$(id -u)" != 0 ] || parent=/tmp
dir=$(mktemp -d "$parent/execd-demo.XXXXXX") || exit 1
daemon=
cleanup() {
	if [ -n "$daemon" ]; then
		execd qdel -u '*' >/dev/null 2>&1
		n=0
		while [ -n "$(execd qstat -u '*' 2>/dev/null)" ] && [ $n -lt 100 ]; do
			sleep 0.1
			n=$((n + 1))
		done
		kill "$daemon" 2>/dev/null
		wait "$daemon" 2>/dev/null
	fi
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$dir"
mkdir "$dir/bin" "$dir/work"
cp "$bin/execd" "$bin/sge_shepherd-go" "$dir/bin"
cp -R "$examples" "$dir/work/examples"
chmod -R go+rX "$dir"
PATH=$dir/bin:$PATH
cd "$dir/work" || exit 1
sed "s,/opt/demo,$PWD/examples,; s,^hostlist .*,hostlist @allhosts,; /^#/d" examples/conf/queues/demo.q >own
mkdir results

# Root runs jobs for others only: for who called sudo, or some unprivileged user.
user=$(id -un)
if [ "$(id -u)" = 0 ]; then
	for user in "${SUDO_USER:-nobody}" nobody $(awk -F: '$3 >= 1000 && $4 >= 1000 { print $1 }' /etc/passwd); do
		uid=$(id -u "$user" 2>/dev/null) && gid=$(id -g "$user") && [ "$uid" -ge 1000 ] && [ "$gid" -ge 1000 ] && break
		user=
	done
	if [ -z "$user" ]; then
		echo "demo: no user has a user ID and a group ID of at least 1000, and users with lower IDs cannot own jobs" >&2
		exit 1
	fi
	chown -R "$user" "$dir/work"
fi
# typed COMMAND...: as that user.
typed() {
	if [ "$(id -u)" != 0 ]; then
		"$@"
	elif command -v setpriv >/dev/null; then
		HOME=$dir/work setpriv --reuid="$uid" --regid="$gid" --clear-groups "$@"
	else
		# shellcheck disable=SC2016 # the other shell is to expand it
		su -s /bin/sh -c 'PATH=$0/bin:$PATH HOME=$0/work; shift 0; exec "$@"' -- "$user" "$dir" "$@"
	fi
}

failed=0
# show STATUS COMMAND...: types it, shows what it prints, and checks its status.
show() {
	want=$1
	shift
	case $1 in
	sh) echo "   \$ $3" ;;
	*) echo "   \$ $*" ;;
	esac
	typed "$@" >"$dir/output" 2>&1
	got=$?
	sed 's/^/   | /' "$dir/output"
	if [ "$got" != "$want" ]; then
		echo "   FAILED: exit status $got, expected $want"
		failed=1
	elif [ "$want" != 0 ]; then
		echo "   exit status $got"
	fi
}
# seen PATTERN...: checks that lines of the last output match.
seen() {
	for pattern; do
		if ! grep -qe "$pattern" "$dir/output"; then
			echo "   FAILED: expected to see: $pattern"
			failed=1
		fi
	done
}
# until_seen PATTERN COMMAND...: types it again and again until there is something to see,
# and then shows it.
until_seen() {
	pattern=$1
	shift
	n=0
	until typed "$@" 2>&1 | grep -qe "$pattern" || [ $n -ge 300 ]; do
		sleep 0.1
		n=$((n + 1))
	done
	show 0 "$@"
	seen "$pattern"
}

echo
echo "1. A batch system begins: a scheduler, a queue and an agent in one process."
echo
export EXECD_SOCKET="$dir/run/agent.sock"
echo "   \$ execd standalone &"
# One process: the user, who is a manager, adds a queue with a prolog.
execd standalone --one-process --spool "$dir/spool" --socket "$EXECD_SOCKET" --manager "$user" >"$dir/log" 2>&1 &
daemon=$!
until_seen " lx-" execd qhost
if [ "$failed" != 0 ]; then
	cat "$dir/log" >&2
	exit 1
fi
# The same on every machine: two jobs at a time, and a queue with a prolog.
show 0 execd qconf -mattr queue slots 2 all.q
# A queue that is added needs all attributes: what it has of its own, and the rest of all.q.
execd qconf -sq all.q | awk 'FILENAME == "own" { own[$1] = $0; next } $1 in own { print own[$1]; next } { print }' own - >demo.q
show 0 execd qconf -Aq demo.q

echo
echo "2. A plain job. Its options stand in #\$ lines of the script. -sync y waits for its end."
echo
show 0 execd qsub -sync y -cwd -j y -o hello.out examples/hello.sh Ada
seen "exited with exit code 0"
show 0 head -n 2 hello.out
seen "hello Ada, this is job 1 (hello) in queue all.q"

echo
echo "3. More jobs than there are slots: some run, the others wait, and know what for."
echo
show 0 execd qsub -cwd -N busy -q all.q -t 1-6 -b y -o /dev/null -j y sleep 1.5
show 0 execd qsub -cwd -q all.q examples/array.sh
until_seen " busy .* r " execd qstat
seen " squares .* qw "
show 0 sh -c "execd qstat -j squares | tail -n 4"
seen "^waiting for:  *room in all.q"

echo
echo "4. A job in a queue with prolog, epilog and starter method. The exit status is that of"
echo "   the job."
echo
show 3 execd qsub -sync y -cwd -q demo.q -j y -o staged.out examples/staged.sh
show 0 cat staged.out
seen "job:     my input is the data that the prolog has fetched" \
	"job:     the starter method has set DATA=/data" "epilog:  job"

echo
echo "5. A job that asks for two seconds (h_rt) and does not end: it is ended, with all that"
echo "   it has started, and it is said for which limit."
echo
show 1 execd qsub -sync y -cwd -q demo.q -j y -o endless.out examples/endless.sh
seen "exceeded limit h_rt of 2 s"

echo
echo "6. The array job has run meanwhile, each task with a file for its output."
echo
until_seen "task 3 of 1-3: 9" sh -c 'tail -n +1 results/*'

echo
echo "7. The accounting: what became of a job, of all jobs of a user, and of one that was ended."
echo
show 0 execd qacct -j endless
seen "^jobname  *endless" "^exit_status  *137" "h_rt"
show 0 execd qacct -o "$user"
seen "^$user "

echo
echo "8. Without a batch system: execd run is for one job, here and now."
echo
cd "$dir/work" || exit 1
export XDG_STATE_HOME="$dir/work/state"
if [ "$(id -u)" = 0 ]; then
	echo "   (as $user)"
fi
show 0 execd run -cwd examples/hello.sh Ada
seen "hello Ada, this is job" "(hello) ended with exit status 0"

echo
if [ "$failed" != 0 ]; then
	echo "Not everything was as expected: see FAILED above."
	exit 1
fi
echo "All of it was as expected. Next: the four steps of README.md, typed by yourself."
