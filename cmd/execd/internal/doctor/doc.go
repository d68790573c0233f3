// Package doctor says what this host can enforce of what Grid Engine promises, by
// which means, and what it would take to do better.
//
// Probe looks, Examine judges, and a Report prints itself as a table or as JSON.
// What Probe tries leaves nothing behind: groups that it makes are removed, a scope
// of systemd ends with it. Only Probe knows the kernel; the others are pure.
package doctor
