package qconf_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/execd-project/execd/qconf"
)

func TestFoundMap(t *testing.T) {
	const resourceMap = "gpu gpu RSMAP <= YES YES 0 0\n"
	for name, c := range map[string]struct {
		files map[string]string
		found qconf.FoundMap
		want  string // complex_values; empty for an unchanged cluster
	}{
		"added with its complex":        {nil, qconf.FoundMap{Name: "gpu", IDs: []string{"0", "2"}}, "gpu=2(0 2)"},
		"nothing found":                 {nil, qconf.FoundMap{Name: "gpu"}, ""},
		"all are gone":                  {nil, qconf.FoundMap{Name: "gpu", Gone: []string{"0"}}, "gpu=0()"},
		"beside other values":           {map[string]string{"hosts/h": "hostname h\ncomplex_values slots=3\n"}, qconf.FoundMap{Name: "gpu", IDs: []string{"0"}}, "slots=3,gpu=1(0)"},
		"the site's own stays":          {map[string]string{"complexes": resourceMap, "hosts/h": "hostname h\ncomplex_values gpu=2(a b)\n"}, qconf.FoundMap{Name: "gpu", IDs: []string{"0"}}, "gpu=2(a b)"},
		"the site's own without gone":   {map[string]string{"complexes": resourceMap, "hosts/h": "hostname h\ncomplex_values gpu=4(0 0 1 1)\n"}, qconf.FoundMap{Name: "gpu", IDs: []string{"0"}, Gone: []string{"1"}}, "gpu=2(0 0)"},
		"another complex of that name":  {map[string]string{"complexes": "gpu gpu INT <= YES YES 0 0\n"}, qconf.FoundMap{Name: "gpu", IDs: []string{"0"}}, ""},
		"another one of that shortcut":  {map[string]string{"complexes": "graphics gpu RSMAP <= YES YES 0 0\n"}, qconf.FoundMap{Name: "gpu", IDs: []string{"0"}}, ""},
		"another shortcut of that name": {map[string]string{"complexes": "gpu g RSMAP <= YES YES 0 0\n"}, qconf.FoundMap{Name: "gpu", IDs: []string{"0"}}, "gpu=1(0)"},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{}
			for path, text := range c.files {
				files[path] = &fstest.MapFile{Data: []byte(text)}
			}
			base, err := qconf.BuiltinOn("h", 2)
			if err != nil {
				t.Fatal(err)
			}
			cluster, err := qconf.Load(files, base)
			if err != nil {
				t.Fatal(err)
			}
			changed, err := cluster.WithFoundMap("h", c.found)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				if changed != cluster {
					t.Error("the cluster is another one")
				}
				return
			}
			h, err := changed.Host("h")
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := h.Value("complex_values"); got != c.want {
				t.Errorf("the host has %q, want %q", got, c.want)
			}
			if x, ok := changed.Complexes().Find("gpu"); !ok || x.Type != qconf.ComplexRSMap {
				t.Errorf("the complex is %+v", x)
			}
			// What a user changes of the host does not make files of what was found.
			own, err := h.WithoutFoundMap(c.found)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := own.Value("complex_values"); strings.HasSuffix(c.want, "gpu=1(0)") && strings.Contains(got, "gpu") {
				t.Errorf("what was found stays: %q", got)
			}
		})
	}
}
