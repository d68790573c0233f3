// Package drmaa is execd drmaa-helper, the process behind the DRMAA library (clients/drmaa).
//
// The library is written in C, and uses neither threads of its own nor Go, because programs that
// use it call fork(2). It starts one helper for each session. The helper stores the jobs of the
// session, follows their ends, and translates job templates into qsub command lines.
//
// Descriptor 3 of the helper is a socket. For each call the library sends another socket over it; a
// call is one message to the helper and one back (message). The helper exits when the library
// closes descriptor 3, or when the program has exited.
package drmaa
