// Package mail writes the notification mail of jobs (-m of submit(1)), and passes it to the mailer
// of sge_conf(5).
//
// Subjects and texts are the same as in Grid Engine 8.1.9, because users filter their mail by them.
// The texts about error states and reschedulings depend on the kind of master; see AtEnd.
//
// Addresses, job names and reasons come from users. So a daemon that runs as root never runs the
// mailer as root or, unless the configuration names that user, as the owner of the job. It passes
// no address that a mailer could take for an option, a file or a command, and no text with control
// characters. A mailer has a deadline, after which it is killed with its process group, and its
// output is limited.
//
// It stores nothing: mail that is being sent when the agent ends is lost.
//
// Functions, and the methods of Outbox, may be called from several goroutines.
package mail
