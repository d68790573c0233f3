// Package guest starts a temporary virtual machine, runs programs in it, and returns their output
// and exit statuses.
//
// A guest is a QEMU process with Debian's kernel for cloud machines and a root file system in
// memory. By default that contains busybox and the programs; with systemd it contains a minimal
// Debian whose process 1 is its systemd. The host is not changed, and only copies of its files are
// used: downloads go to the directory execd-vm of the user's cache. Without hardware virtualisation
// QEMU emulates, and programs are five to fifteen times slower.
//
// How it works:
//
//	host                                guest
//	Machine.Run: plan, executables  ->  /vm/plan.json, /vm/inside and files
//	QEMU                                inside: process 1, or a service of systemd
//	frames of the serial line       <-  what the steps print and how they end
//	the end of QEMU                 <-  reboot
//
// The package is for tools and tests. Several machines may run at once, from
// several goroutines or processes.
package guest
