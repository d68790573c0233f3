#!/bin/sh
# A job in a queue with a prolog, an epilog and a starter method: see
# conf/queues/demo.q.
#$ -N staged

echo "job:     my input is $(cat "$TMPDIR/input")"
echo "job:     the starter method has set DATA=$DATA"
exit 3
