package terminal

import (
	"fmt"
	"testing"
)

func TestEscapes(t *testing.T) {
	type word struct {
		pass string
		do   action
	}
	for name, c := range map[string]struct {
		char  byte
		typed []string
		want  []word
	}{
		"nothing said":           {'~', []string{"ls\r"}, []word{{"ls\r", goOn}}},
		"detach":                 {'~', []string{"~."}, []word{{"", detach}}},
		"one key at a time":      {'~', []string{"l", "\r", "~", "."}, []word{{"l", goOn}, {"\r", goOn}, {"", goOn}, {"", detach}}},
		"after Ctrl-J":           {'~', []string{"ls\n~."}, []word{{"ls\n", detach}}},
		"not within a line":      {'~', []string{"ls ~.\r"}, []word{{"ls ~.\r", goOn}}},
		"not after itself":       {'~', []string{"~~."}, []word{{"~.", goOn}}},
		"no word":                {'~', []string{"~a~."}, []word{{"~a~.", goOn}}},
		"no word but a new line": {'~', []string{"~\r~."}, []word{{"~\r", detach}}},
		"suspend and go on":      {'~', []string{"~\x1als\r~?x"}, []word{{"", suspend}, {"ls\r", help}, {"x", goOn}}},
		"a word after a word":    {'~', []string{"~?~."}, []word{{"", help}, {"", detach}}},
		"another character":      {0x1d, []string{"~.\r\x1d."}, []word{{"~.\r", detach}}},
		"none":                   {0, []string{"\r~.\r\x00."}, []word{{"\r~.\r\x00.", goOn}}},
	} {
		e := escapes{char: c.char}
		var got []word
		for _, typed := range c.typed {
			for p := []byte(typed); ; {
				pass, do, rest := e.next(p)
				got = append(got, word{string(pass), do})
				if p = rest; do == goOn || len(rest) == 0 {
					break
				}
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %+q, expected %+q", name, fmt.Sprint(got), fmt.Sprint(c.want))
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %+q, expected %+q", name, fmt.Sprint(got), fmt.Sprint(c.want))
				break
			}
		}
	}
}
