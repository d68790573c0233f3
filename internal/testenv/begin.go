package testenv

import (
	"bufio"
	"os/exec"
	"sync"
	"testing"
)

// Begin starts a program that writes a line when it is ready, and goes on until its input
// ends. It waits for that line; end ends the input and waits for the program, once: at the
// end of the test, if nobody does before. Its standard input and output must not be set.
// What the context of cmd ends, such as t.Context(), ends also if it does not read.
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
