# The environment of this cell, for csh. Use: source settings.csh
# execd standalone writes this file when it starts.
setenv SGE_ROOT ROOT@
setenv SGE_CELL CELL@
setenv SGE_CLUSTER_NAME HOST@
setenv SGE_ARCH ARCH@
setenv EXECD_SOCKET SOCKET@
unsetenv SGE_QMASTER_PORT
unsetenv SGE_EXECD_PORT
if ( "$path" !~ *"$SGE_ROOT/bin/$SGE_ARCH"* ) set path = ( "$SGE_ROOT/bin/$SGE_ARCH" $path:q )
