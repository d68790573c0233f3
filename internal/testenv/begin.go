package testenv

import (
	"bufio"
	"os/exec"
	"sync"
	"testing"
)

// Begin starts a program that writes a line when it is ready, and runs until its input ends. Begin
// waits for that line. end closes the input and waits for the end of the program; the test calls it
// at its end if it has not been called before. Do not set the standard input and output of cmd. The
// context of cmd, such as t.Context(), also ends a program that does not read its input.
func Begin(t testing.TB, cmd *exec.Cmd) (ready string, end func() error) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceValue(func() error {
		_ = in.Close()
		return cmd.Wait()
	})
	t.Cleanup(func() { _ = end() })
	ready, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s is not ready: %q, %v", cmd.Path, ready, err)
	}
	return ready, end
}
