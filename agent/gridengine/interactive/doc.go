// Package interactive is the job side of an interactive job of Grid Engine with the method builtin
// (sge_conf(5), rsh_daemon): it runs as the job, connects to the client (qrsh or qlogin) at the
// address in QRSH_PORT, and runs the command of QRSH_COMMAND with its standard streams on that
// connection.
//
// Other projects should not import this package: it may change at any time.
//
// It runs with the identity and the limits of the job. The client can only send it bytes for the
// standard input and the size of a window.
package interactive
