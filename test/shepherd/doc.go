// Package shepherd tests the supervisor of a job with the real kernel: the
// executable itself, started as our own daemon starts it and as a real sge_execd
// does, on job directories that the package jobdir has written.
//
// As root the whole package runs in namespaces of its own, with users and groups
// of its own, so that nothing of the machine is touched and nothing is left
// behind. As an ordinary user it tests what a shepherd without privileges can do
// and skips the rest.
package shepherd
