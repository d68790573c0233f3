#!/bin/sh
# An array job: three tasks, each with its number. Their output goes into files
# of the directory results, named NAME.oJOB.TASK.
#$ -N squares
#$ -t 1-3
#$ -o results -j y

echo "task $SGE_TASK_ID of $SGE_TASK_FIRST-$SGE_TASK_LAST: $((SGE_TASK_ID * SGE_TASK_ID))"
[ "$SGE_TASK_ID" != 2 ] || exit 5 # one of them goes wrong
