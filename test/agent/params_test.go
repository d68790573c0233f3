package agent

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAdministratorMail checks that administrators get mail about the reason for a queue's error
// state.
func TestAdministratorMail(t *testing.T) {
	n := newNode(t, "")
	box := filepath.Join(n.open("mail"), "box")
	if err := unix.Mkfifo(box, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(box, 0o666); err != nil {
		t.Fatal(err)
	}
	n.write("mailer", "#!/bin/sh\n{ printf '<%s>' \"$@\"; echo; id -un; cat; } >"+box+"\n")
	n.write("prolog", "#!/bin/sh\nexit 1\n")
	for _, name := range []string{"mailer", "prolog"} {
		if err := os.Chmod(filepath.Join(n.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.write("conf/conf/global", "gid_range "+groupIDs()+"\nadministrator_mail ops@site,root\nmailer "+n.dir+"/mailer\nprolog "+n.dir+"/prolog\n")
	n.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n.mustStart(ctx, n.job(1, "exit 0\n"))
	b, err := os.ReadFile(box)
	if err != nil {
		t.Fatal(err)
	}
	as := "nobody"
	if os.Getuid() != 0 {
		as = n.owner.Username
	}
	for _, want := range []string{
		"<-s><SGE 8.1.9: Job 1 failed><ops@site><root>\n" + as + "\nJob 1 caused action: Queue \"all.q@node1\" set to ERROR\n",
		"failed in prolog: ", "Shepherd trace:\n", "Shepherd error:\n",
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%q is missing in\n%s", want, b)
		}
	}
	n.acknowledge(ctx)
}
