// Package shepherd tests the supervisor of a job with the real kernel. It runs the executable
// itself, started both like this project's daemon and like sge_execd, on job directories that
// package jobdir has written.
//
// As root the whole package runs in its own namespaces, with its own users and groups, so that it
// neither changes the machine nor leaves anything behind. As an ordinary user it tests the
// abilities of a shepherd without privileges and skips the other tests.
package shepherd
