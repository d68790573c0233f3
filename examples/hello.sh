#!/bin/sh
# A plain job. Lines that begin with #$ are options, as qsub reads them; those of
# the command line come after them and win.
#$ -N hello
#$ -l h_rt=0:1:0
#$ -v GREETING=hello

echo "$GREETING ${1:-world}, this is job $JOB_ID ($JOB_NAME) in queue $QUEUE"
echo "my temporary directory is empty and nobody else's:"
ls -la "$TMPDIR"
echo scratch > "$TMPDIR/scratch" # it goes with the job, whatever is in it
