package standalone

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/standalone/api"
)

// TestNames lists the names of jobs and users that begin with a prefix.
func TestNames(t *testing.T) {
	m, _ := testMaster(t)
	for i, words := range [][]string{
		{"-h", "-N", "asleep", "-b", "y", "true"}, {"-N", "<b>" + strings.Repeat("x", 90), "-b", "y", "true"}, {"-h", "-t", "1-3", "-b", "y", "true"},
	} {
		if m.typed("1 a"+strconv.Itoa(i), "qsub", words...); m.commit() != nil {
			t.Fatal("no commit")
		}
	}
	m.typed("1 b", "qconf", "-auser")
	text := func(list []api.Name) string {
		var all []string
		for _, n := range list {
			all = append(all, fmt.Sprintf("%s|%s", n.Name, n.Text))
		}
		return strings.Join(all, "\n")
	}
	clipped := "<b>" + strings.Repeat("x", maxJobName-3)
	all := "1|asleep of alice, hqw\n2|" + clipped + " of alice, qw\n3|true of alice, hqw"
	for _, c := range []struct{ owner, prefix, want string }{
		{"", "", all}, {"alice", "", all}, {"bob", "", ""}, {"alice", "1", "1|asleep of alice, hqw"}, {"alice", "01", ""}, {"alice", "x", ""},
	} {
		if got := text(m.jobNames(c.owner, c.prefix)); got != c.want {
			t.Errorf("jobs of %q with %q:\n%s\nexpected\n%s", c.owner, c.prefix, got, c.want)
		}
	}
	for prefix, want := range map[string]string{"": "alice|", "al": "alice|", "b": ""} {
		if got := text(m.userNames(prefix)); got != want {
			t.Errorf("users with %q: %q, expected %q", prefix, got, want)
		}
	}
}

// TestBoundedNames checks that the beginning that all names have in common is that of the names in an answer.
func TestBoundedNames(t *testing.T) {
	common := func(list []int) string {
		head := strconv.Itoa(list[0])
		for _, n := range list {
			for !strings.HasPrefix(strconv.Itoa(n), head) {
				head = head[:len(head)-1]
			}
		}
		return head
	}
	for _, r := range []struct{ first, last int }{{1, 10}, {1, maxNames}, {1, maxNames + 1}, {1, 10000}, {9000, 10000}, {9900, 10900}, {100000, 110000}, {100000, 199999}, {1, 1000000}} {
		var list []int
		for n := r.first; n <= r.last; n++ {
			list = append(list, n)
		}
		some := bounded(list, strconv.Itoa)
		if len(some) > maxNames || len(some) != min(len(list), maxNames) {
			t.Errorf("%v: %d names", r, len(some))
		}
		if got, want := common(some), common(list); got != want {
			t.Errorf("%v: the names begin with %q, all with %q", r, got, want)
		}
	}
}
