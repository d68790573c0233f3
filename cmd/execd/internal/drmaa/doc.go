// Package drmaa is execd drmaa-helper, the process behind the DRMAA library (clients/drmaa).
//
// The library is C, without threads of its own and without Go, because programs that use it fork.
// It starts one helper for each session. The helper knows the jobs of the session, follows how they
// end, and translates job templates into command lines of qsub.
//
// The helper has a socket as descriptor 3. The library sends a socket over it for each call; a call
// is one message to the helper and one back (message). The helper exits when the library closes
// descriptor 3, or when the program has exited.
package drmaa
