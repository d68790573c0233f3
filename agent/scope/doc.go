// Package scope gives jobs a place among the control groups of a systemd host.
//
// Other projects should not import this package: it may change at any time.
//
// On such hosts the groups belong to systemd, and other programs may only use delegated parts of
// the hierarchy. Jobs must not be in the group of the service or session that starts them: systemd
// ends all processes there when the service is restarted or the user logs out, and it cannot even
// restart the service while there are processes in groups below it (in cgroup v2, a group cannot
// contain both processes and groups). So jobs get a transient scope (systemd.scope(5)) of their
// own, with Delegate=yes. Such a scope keeps its groups and their limits during restarts of
// services, daemon-reload and daemon-reexec.
//
// Root's jobs share the scope Name: Open. Supervisors are started in it, too, so that it exists
// exactly as long as there are jobs: systemd removes an empty scope. An ordinary user may only move
// processes within the part of the user's own manager. So the whole process that starts jobs moves
// to its own scope there: Move.
//
// The manager is asked over its own socket, as systemctl does; a message bus is not needed. This
// package is for cgroup v2 only: on hosts with v1 controllers systemd does not touch foreign groups
// at the top of their hierarchies.
//
// Functions may be called from several goroutines; a Scope is for one at a time.
package scope
