// Package messages tells users and sites what happens to jobs: it reads the files in which they list
// receivers, selects the receivers of a message, and starts the processes that deliver it.
//
// A message goes to a program, to a webhook, or to the desktop of its user. The receivers of users are
// the business of these users alone: the daemon reads their file with their rights, and a process with
// their rights (package messages/deliver) runs their programs and talks to their webhooks. The daemon
// itself never connects to an address that a user has chosen. A process that hangs delays neither the
// daemon nor the messages of other users.
//
// A message is stored nowhere: messages that are being delivered when the daemon ends are lost.
//
// The methods of Outbox may be called from several goroutines; the functions are pure.
//
// Other projects should not import this package: it may change at any time.
package messages
