package paths

import (
	"slices"
	"testing"
)

func TestPlaces(t *testing.T) {
	for name, c := range map[string]struct {
		root                    bool
		state, runtime, home    string // variables
		passwd                  string // home directory of the passwd entry
		wantState, spool, first string // "" for none
		sockets                 []string
	}{
		"root has the places of the host, whatever its variables say": {
			root: true, state: "/s", runtime: "/r", home: "/h", wantState: "/var/spool/execd", spool: "/var/spool/execd/agent",
			first: "/run/execd/agent.sock", sockets: []string{"/run/execd/agent.sock"},
		},
		"a user has places of the desktop": {
			state: "/s", runtime: "/r", home: "/h", wantState: "/s/execd", spool: "/s/execd/agent",
			first: "/r/execd/agent.sock", sockets: []string{"/r/execd/agent.sock", "/s/execd/agent/agent.sock", "/run/execd/agent.sock"},
		},
		"without them, places below HOME": {
			home: "/h", passwd: "/p", wantState: "/h/.local/state/execd", spool: "/h/.local/state/execd/agent",
			first: "/h/.local/state/execd/agent/agent.sock", sockets: []string{"/h/.local/state/execd/agent/agent.sock", "/run/execd/agent.sock"},
		},
		"what is not absolute does not count": {
			state: "s", runtime: "r", home: "/h", wantState: "/h/.local/state/execd", spool: "/h/.local/state/execd/agent",
			first: "/h/.local/state/execd/agent/agent.sock", sockets: []string{"/h/.local/state/execd/agent/agent.sock", "/run/execd/agent.sock"},
		},
		"without HOME, below the directory of the passwd entry, which an agent does not ask for": {
			home: "h", passwd: "/p", wantState: "/p/.local/state/execd", sockets: []string{"/run/execd/agent.sock"},
		},
		"nowhere at all": {sockets: []string{"/run/execd/agent.sock"}},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range map[string]string{"XDG_STATE_HOME": c.state, "XDG_RUNTIME_DIR": c.runtime, "HOME": c.home} {
				t.Setenv(variable, value)
			}
			if dir, ok := State(c.root, c.passwd); ok != (c.wantState != "") || ok && dir != c.wantState {
				t.Errorf("state: %q, %v, want %q", dir, ok, c.wantState)
			}
			spool, ok := Spool(c.root)
			if ok != (c.spool != "") || ok && spool != c.spool {
				t.Errorf("spool area: %q, %v, want %q", spool, ok, c.spool)
			}
			if first := Socket(c.root, spool); ok && first != c.first {
				t.Errorf("socket: %q, want %q", first, c.first)
			}
			if all := Sockets(c.root); !slices.Equal(all, c.sockets) {
				t.Errorf("sockets: %q, want %q", all, c.sockets)
			}
		})
	}
}

func TestSocketOfTheEnvironment(t *testing.T) {
	t.Setenv(SocketVariable, "/a/b")
	for _, root := range []bool{false, true} {
		if all := Sockets(root); !slices.Equal(all, []string{"/a/b"}) {
			t.Errorf("%v: %q", root, all)
		}
	}
}
