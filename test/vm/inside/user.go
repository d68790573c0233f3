package main

import (
	"errors"
	"fmt"
	"os"
)

// accounts are the owners of jobs in tests; Debian has the other users. A guest without Debian also
// gets the users that tests expect on every machine.
var (
	accounts = []struct {
		name string
		id   int
	}{{"tester", 1000}, {"alice", 2001}, {"bob", 2002}}

	basePasswd = "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/:/bin/sh\n" +
		"nobody:x:65534:65534:nobody:/:/bin/false\n"
	baseGroup = "root:x:0:\ndaemon:x:1:\ntty:x:5:\nnogroup:x:65534:\n"
)

func addUsers() error {
	passwd, group, shell := "", "", "/bin/bash"
	if !exists("/etc/passwd") {
		passwd, group, shell = basePasswd, baseGroup, "/bin/sh"
		if err := writeAll(map[string]string{
			"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
			"/etc/hosts":         "127.0.0.1 localhost " + hostname + "\n",
		}); err != nil {
			return err
		}
	}
	for _, a := range accounts {
		home := "/home/" + a.name
		passwd += fmt.Sprintf("%s:x:%d:%d:%s:%s:%s\n", a.name, a.id, a.id, a.name, home, shell)
		group += fmt.Sprintf("%s:x:%d:\n", a.name, a.id)
		if err := errors.Join(os.MkdirAll(home, 0o755), os.Chown(home, a.id, a.id)); err != nil {
			return fmt.Errorf("cannot make a user: %w", err)
		}
	}
	return errors.Join(appendTo("/etc/passwd", passwd), appendTo("/etc/group", group))
}
