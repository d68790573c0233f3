// Package mail is the notification mail of jobs (-m of submit(1)): what it says, and
// how it is handed to the mailer of sge_conf(5).
//
// Subjects and texts are those of sge_execd(8) 8.1.9, by which users filter their
// mail. What a job writes in error states and reschedulings depends on who schedules
// it; see AtEnd.
//
// Addresses, job names and reasons come from users. So a daemon of root runs no mailer as
// root or, unless the configuration names that user, as the owner of the job. It gives the
// mailer no address that this could take for an option, a file or a command. No text has control
// characters. A mailer has a deadline, after which it is killed with its process
// group, and what it writes is bounded.
//
// It keeps nothing: mail that is under way when the agent ends is lost.
//
// Functions, and the methods of Outbox, may be called from several goroutines.
package mail
