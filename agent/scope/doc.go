// Package scope gives jobs a place among the control groups of a systemd host.
//
// Other projects should not import this package: it may change at any time.
//
// There the groups are systemd's, and of all that it makes only a part that was
// delegated may be used. It must not be that of the service or of the session which
// starts the jobs: systemd ends what is in there when the service is restarted or
// the user has gone, and with processes in groups below it cannot even start the
// service again (cgroup v2 has no groups with both processes and groups in them). So
// jobs get a transient scope (systemd.scope(5)) of their own, with Delegate=yes.
// Such a scope keeps its groups and their limits through restarts of services,
// through daemon-reload and daemon-reexec.
//
// Root's jobs share the scope Name: Open. Supervisors are started in it, too, so that
// it exists as long as there are jobs, and no longer: systemd removes an empty
// scope. An ordinary user may only move processes within what the user's own manager
// has been given, and so the whole process that starts jobs moves to a scope of its
// own there: Move.
//
// The manager is asked over its own socket, as systemctl does; a message bus is not
// needed. This is for cgroup v2 only: on hosts with v1 controllers systemd leaves
// foreign groups at the top of those alone.
//
// Functions may be called from several goroutines; a Scope is for one at a time.
package scope
