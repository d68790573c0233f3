// Package guest starts a throw-away virtual machine, runs programs in it, and tells
// what they print and how they end.
//
// A guest is a QEMU process with Debian's kernel for cloud machines and a root file
// system in memory. By default that holds busybox and the programs; with systemd it
// holds a minimal Debian whose process 1 is its systemd. Nothing of the host is
// used but files that are copied, and nothing of it is changed: what has to be
// fetched goes to the folder execd-vm of the user's cache. Without hardware
// virtualisation QEMU emulates, and programs are five to fifteen times slower.
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
