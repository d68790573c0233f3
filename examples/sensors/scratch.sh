#!/bin/sh
# A load sensor: the free space of /tmp. Try it with:
# execd sensor check examples/sensors/scratch.sh
#
# The name must be a complex (qconf -mc), for example
#   scratch_free  scr  MEMORY  <=  YES  NO  0  0
# and then qsub -l scratch_free=10G waits until there is so much.

host=${HOST:-$(hostname)}

# Each line that is read asks for a report; "quit", or the end of the input, ends it.
while read -r request; do
	[ "$request" = quit ] && break

	# Measure first, so that a failure cannot leave half a report behind. A value that
	# cannot be had is left out: no value says more than a wrong one.
	free=$(df -kP /tmp | awk 'END { print $4 }')

	echo begin
	[ -n "$free" ] && echo "$host:scratch_free:${free}K"
	echo end
done
