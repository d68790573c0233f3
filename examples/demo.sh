#!/bin/sh
# Runs the sample jobs of this directory and says what is to be seen. Ends with
# 1 if something else happens. Leaves nothing behind.
set -u

examples=$(cd "$(dirname "$0")" && pwd) || exit 1
bin=${EXECD_BIN:-$examples/../bin}
if ! [ -x "$bin/execd" ] || ! [ -x "$bin/sge_shepherd-go" ]; then
	echo "demo: execd has not been built yet: run make build" >&2
	exit 1
fi
PATH=$(cd "$bin" && pwd):$PATH

# Everything happens in a directory that the user of the jobs may enter, which the
# one that this script lies in need not be.
parent=${TMPDIR:-/tmp}
[ "$(id -u)" != 0 ] || parent=/tmp
dir=$(mktemp -d "$parent/execd-demo.XXXXXX") || exit 1
spool=/var/spool/execd
[ -e "$spool" ] && spool=
cleanup() {
	rm -rf "$dir"
	if [ "$(id -u)" = 0 ] && [ -n "$spool" ]; then
		# It was not there before. Nothing but empty directories goes.
		rm -f "$spool/jobseqnum"
		rmdir "$spool/active_jobs" "$spool/job_scripts" "$spool" 2>/dev/null
	fi
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$dir"
cp -R "$examples/." "$dir/examples"
chmod -R go+rX "$dir/examples"
sed -i.template "s,/opt/demo,$dir/examples,g" "$dir/examples/conf/queues/demo.q"
rm "$dir/examples/conf/queues/demo.q.template"
mkdir "$dir/results"
cd "$dir" || exit 1

# Root runs jobs for others only: for who called sudo, or some unprivileged user.
run="execd run -cwd"
if [ "$(id -u)" = 0 ]; then
	for user in "${SUDO_USER:-nobody}" nobody $(awk -F: '$3 >= 1000 && $4 >= 1000 { print $1 }' /etc/passwd); do
		uid=$(id -u "$user" 2>/dev/null) && gid=$(id -g "$user") && [ "$uid" -ge 1000 ] && [ "$gid" -ge 1000 ] && break
		user=
	done
	if [ -z "$user" ]; then
		echo "demo: there is no user with user and group id of at least 1000, and jobs of others are not run" >&2
		exit 1
	fi
	chown "$user" results
	run="execd run --as $user -cwd"
else
	export XDG_STATE_HOME="$dir/state"
fi

failed=0
# show STATUS COMMAND...: runs it, shows what it prints, and checks its status.
show() {
	want=$1
	shift
	echo "   \$ $*"
	"$@" > "$dir/output" 2>&1
	got=$?
	sed 's/^/   | /' "$dir/output"
	if [ "$got" != "$want" ]; then
		echo "   FAILED: exit status $got, expected $want"
		failed=1
	else
		echo "   exit status $got"
	fi
}
# seen TEXT: checks that the last output has it.
seen() {
	grep -qF -e "$1" "$dir/output" && return
	echo "   FAILED: expected to see: $1"
	failed=1
}

echo
echo "1. A plain job. Its options stand in #\$ lines of the script."
echo
# shellcheck disable=SC2086 # it is words
show 0 $run examples/hello.sh Ada
seen "hello Ada, this is job"
seen "(hello) ended with exit status 0"

echo
echo "2. A job in a queue with prolog, epilog and starter method. The queue comes from a"
echo "   directory of files as qconf prints them. The exit status is that of the job."
echo
# shellcheck disable=SC2086
show 3 $run --conf examples/conf examples/staged.sh
seen "job:     my input is the data that the prolog has fetched"
seen "job:     the starter method has set DATA=/data"
seen "epilog:  job"
seen "ended with exit status 3"

echo
echo "3. A job that asks for two seconds (h_rt) and does not end: it is ended, with all that"
echo "   it has started. The last line says for which limit. 137 is 128 + 9, for SIGKILL."
echo
# shellcheck disable=SC2086
show 137 $run --json outcome.json examples/endless.sh
seen "exceeded limit h_rt of 2 s"
echo "   \$ grep -A 4 limit outcome.json"
grep -A 4 '"limit"' outcome.json > output
sed 's/^/   | /' output
seen '"name": "h_rt"'

echo
echo "4. An array job: its tasks run one after another, each with a file for its output."
echo "   The exit status is the first one that is not 0."
echo
# shellcheck disable=SC2086
show 5 $run examples/array.sh
seen "2 of 3 tasks ended with exit status 0"
show 0 tail -n +1 results/*
seen "task 3 of 1-3: 9"

echo
left=$(find "$dir/state/execd" "${spool:-/nonexistent}" -mindepth 2 2>/dev/null)
if [ -n "$left" ]; then
	echo "FAILED: this is left of the jobs: $left"
	failed=1
fi
if [ "$failed" != 0 ]; then
	echo "Not everything was as expected: see FAILED above."
	exit 1
fi
echo "All of it was as expected. Next: execd run --help, and run a job script of your own."
