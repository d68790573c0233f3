#!/bin/sh
# A job that asks for two seconds and does not end in time. What it has started
# in the background ends with it.
#$ -N endless
#$ -l h_rt=0:0:2

echo "this takes a while"
sleep 1000 &
while :; do sleep 1; done
