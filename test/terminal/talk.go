package terminal

import (
	"strconv"
	"strings"
	"testing"
)

// Script is a program for sh(1) that prints its terminal input; Talk uses it. A signal may
// interrupt read(1), which looks like the end of the input.
const Script = `
trap 'sig=1; echo size $(stty size)' WINCH
trap 'sig=1; echo interrupted' INT
trap 'sig=1; echo suspended' TSTP
stty -echo
echo begins with $(stty size)
while :; do
	sig=
	if read word; then
		case $word in
		much) seq 1 200000; echo all of it;;
		end) exit 7;;
		*) echo "got <$word>";;
		esac
	elif [ -z "$sig" ]; then
		echo end of file
		exit 8
	fi
done
`

// Talk checks whether a session that runs Script on a remote terminal behaves as on a local one:
// window size, keys, large output. The session must have started with 33 rows and 101 columns, and
// continues afterwards.
func Talk(t *testing.T, s *Session) {
	t.Helper()
	s.See("begins with 33 101")
	if s.Cooked() {
		t.Error("the terminal here does something about keys by itself")
	}
	// Some shells run the handler of a signal when read has returned.
	s.Resize(44, 122)
	s.Type("a\r")
	s.See("size 44 122")
	s.Type("b\r")
	s.See("got <b>")
	for key, want := range map[string]string{Interrupt: "interrupted", Suspend: "suspended"} {
		s.Type(key)
		s.Type("\r")
		s.See(want)
	}
	s.Type("\rmuch\r")
	s.See("\n1\r\n")
	// The first line has been seen.
	const last = 200_000
	want := 2
	for line := range strings.Lines(s.See("all of it")) {
		if line != strconv.Itoa(want)+"\r\n" {
			t.Errorf("after line %d of %d, %q comes", want-1, last, line)
			break
		}
		want++
	}
	if want != last+1 && !t.Failed() {
		t.Errorf("after line %d of %d, nothing comes", want-1, last)
	}
}
