#!/bin/sh
# A load sensor: how many users are logged in to this host, and how many processes
# there are. Try it with: execd sensor check examples/sensors/users.sh
#
# The names must be complexes (qconf -mc), for example
#   users_logged_in  uli  INT  <=  YES  NO  0  0
#   processes        pcs  INT  <=  YES  NO  0  0

# What does not change is asked for once, before the first request.
host=${HOST:-$(hostname)}

# Each line that is read asks for a report; "quit", or the end of the input, ends it.
while read -r request; do
	[ "$request" = quit ] && break

	# Measure first, so that a failure cannot leave half a report behind. A value that
	# cannot be had is left out: no value says more than a wrong one.
	users=$(who 2>/dev/null | cut -d ' ' -f 1 | sort -u | grep -c .)
	processes=$(ls -d /proc/[0-9]* 2>/dev/null | grep -c .)

	echo begin
	[ -n "$users" ] && echo "$host:users_logged_in:$users"
	[ "$processes" -gt 0 ] && echo "$host:processes:$processes"
	echo end
done
