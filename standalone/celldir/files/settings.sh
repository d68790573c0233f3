# The environment of this cell, for Bourne shells. Use: . settings.sh
# execd standalone writes this file when it starts.
SGE_ROOT=ROOT@
SGE_CELL=CELL@
SGE_CLUSTER_NAME=HOST@
SGE_ARCH=ARCH@
EXECD_SOCKET=SOCKET@
export SGE_ROOT SGE_CELL SGE_CLUSTER_NAME SGE_ARCH EXECD_SOCKET
unset SGE_QMASTER_PORT SGE_EXECD_PORT
case ":$PATH:" in
*":$SGE_ROOT/bin/$SGE_ARCH:"*) ;;
*) PATH=$SGE_ROOT/bin/$SGE_ARCH${PATH:+:$PATH}; export PATH ;;
esac
