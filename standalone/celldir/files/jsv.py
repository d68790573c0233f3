#!/usr/bin/env python3
# A JSV that accepts every job, to begin with. Copy it, change jsv_on_verify, and name the copy:
# qsub -jsv FILE for one job, jsv_url of qconf -mconf for all.
import os
import sys

sys.path.append(os.environ["SGE_ROOT"] + "/util/resources/jsv")
from JSV import *


def jsv_on_start():
    # jsv_send_env()  # the functions for variables of the job need it
    pass


def jsv_on_verify():
    # if jsv_get_param("b") == "y":
    #     jsv_reject("Submit a script: programs are not accepted.")
    #     return
    jsv_accept("accepted")


jsv_main()
