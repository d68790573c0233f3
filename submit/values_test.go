package submit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseArray(t *testing.T) {
	for in, want := range map[string]Array{
		"5": {5, 5, 1}, "1-5": {1, 5, 1}, "1-10:2": {1, 10, 2}, "2-2:5": {2, 2, 5}, "01-05": {1, 5, 1}, "1-2147483647": {1, 2147483647, 1},
	} {
		got, err := ParseArray(in)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
		if again, err := ParseArray(got.String()); err != nil || again != got {
			t.Errorf("%q: printed as %s, read as %+v, %v", in, got, again, err)
		}
	}
	for a, want := range map[Array][]int{
		{2, 10, 2}: {2, 4, 6, 8, 10}, {1, 10, 3}: {1, 4, 7, 10}, {1, 5, 9}: {1}, {7, 7, 1}: {7}, {}: nil, {5, 1, 1}: nil,
	} {
		if got := slices.Collect(a.Tasks()); !slices.Equal(got, want) || a.Len() != len(want) {
			t.Errorf("%v: %d tasks %v, want %v", a, a.Len(), got, want)
		}
	}
	for range (Array{1, 3, 1}).Tasks() {
		break // the iteration must end without a panic
	}
}

func FuzzArray(f *testing.F) {
	for _, s := range []string{"1", "1-5", "1-10:2", "0", "5-1", "1-2147483647:2147483647"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseArray(s)
		if err != nil {
			return
		}
		if again, err := ParseArray(a.String()); err != nil || again != a {
			t.Fatalf("%q: %+v printed as %s, read as %+v, %v", s, a, a, again, err)
		}
		if a.First < 1 || a.Last < a.First || a.Step < 1 || a.Last > maxTask || a.Len() < 1 || a.First+(a.Len()-1)*a.Step > a.Last {
			t.Fatalf("%q: %+v has %d tasks", s, a, a.Len())
		}
	})
}

func TestParseSlots(t *testing.T) {
	for in, want := range map[string][]SlotRange{
		"4": {{4, 4}}, "2-4": {{2, 4}}, "2-": {{2, MaxSlots}}, "-4": {{1, 4}}, "2,4": {{2, 2}, {4, 4}}, "2-4,8-": {{2, 4}, {8, MaxSlots}},
		"1 2": {{1, 1}, {2, 2}}, " 4": {{4, 4}}, "1-9999999": {{1, MaxSlots}}, "4-4": {{4, 4}},
	} {
		got, err := parseSlots(in, false)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	for name, c := range map[string]struct {
		ranges    string
		available int
		want      int
	}{
		"a single number":               {"4", 8, 4},
		"too few":                       {"4", 3, 0},
		"as many as there are":          {"2-", 7, 7},
		"the end of the range":          {"2-4", 7, 4},
		"the larger one of two":         {"2-4,8-", 9, 9},
		"the smaller one of two":        {"8-,2-4", 7, 4},
		"order doesn't matter":          {"6,2", 7, 6},
		"none at all":                   {"1-", 0, 0},
		"from one":                      {"-4", 1, 1},
		"all slots of an open range":    {"1-", MaxSlots, MaxSlots},
		"available within the range":    {"2-4", 3, 3},
		"overlapping ranges are joined": {"2-5,3-7", 6, 6},
	} {
		ranges, err := parseSlots(c.ranges, false)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := ParallelRequest{"p", ranges}.Slots(c.available)
		if got != c.want || ok != (c.want > 0) {
			t.Errorf("%s: %d, %v, want %d", name, got, ok, c.want)
		}
	}
	if got := (ParallelRequest{"mpi*", []SlotRange{{2, 4}, {8, MaxSlots}, {5, 5}}}).String(); got != "mpi* 2-4,8-,5" {
		t.Error(got)
	}
}

func FuzzSlots(f *testing.F) {
	for _, s := range []string{"4", "2-", "-4", "2-4,8-", "1 2", "0", "9999999-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ranges, err := parseSlots(s, false)
		if err != nil {
			return
		}
		printed := strings.TrimPrefix(ParallelRequest{"p", ranges}.String(), "p ")
		again, err := parseSlots(printed, false)
		if err != nil || !slices.Equal(again, ranges) {
			t.Fatalf("%q: %v printed as %q, read as %v, %v", s, ranges, printed, again, err)
		}
		for _, r := range ranges {
			if r.Min < 1 || r.Max < r.Min || r.Max > MaxSlots {
				t.Fatalf("%q: %v", s, ranges)
			}
		}
	})
}

func TestParseBinding(t *testing.T) {
	start := &Core{0, 1}
	for in, want := range map[string]Binding{
		"linear":                 {Instance: BindSet, Strategy: Linear},
		"linear:":                {Instance: BindSet, Strategy: Linear},
		"linear:slots":           {Instance: BindSet, Strategy: Linear},
		"linear:3":               {Instance: BindSet, Strategy: Linear, Amount: 3},
		"linear:1:0,1":           {Instance: BindSet, Strategy: Linear, Amount: 1, Start: start},
		"linear:slots:0,1":       {Instance: BindSet, Strategy: Linear, Start: start},
		"set linear:1":           {Instance: BindSet, Strategy: Linear, Amount: 1},
		"env striding:2:4":       {Instance: BindEnv, Strategy: Striding, Amount: 2, Step: 4},
		"pe  striding:2:1:0,1":   {Instance: BindPE, Strategy: Striding, Amount: 2, Step: 1, Start: start},
		"explicit:0,1":           {Instance: BindSet, Strategy: Explicit, Cores: []Core{{0, 1}}},
		"pe explicit:0,1:1,0":    {Instance: BindPE, Strategy: Explicit, Cores: []Core{{0, 1}, {1, 0}}},
		"explicit:0,1:0,0:10,12": {Instance: BindSet, Strategy: Explicit, Cores: []Core{{0, 1}, {0, 0}, {10, 12}}},
	} {
		got, err := ParseBinding(in)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", in, err, diff)
		}
	}
	for _, in := range []string{
		"", "set", "pe env linear:1", "bogus linear:1", "automatic", "balance", "linear_automatic", "Linear:1",
		"linear:0", "linear:-1", "linear:x", "linear:1x", "linear:1:", "linear:1:0", "linear:1:0,1:2", "linear::0,1", "linear:1:0,1x", "linear:99999999",
		"striding", "striding:1", "striding:slots:2", "striding:0:1", "striding:1:0", "striding::1", "striding:2:1:0", "striding:2:1:0,1:0,2",
		"explicit", "explicit:", "explicit:0", "explicit:0,1:0,1", "explicit:0,1:1", "explicit:0,x", "explicit:a,b", "explicit:0,1:", "explicit:0,1,2", "explicit:0,00:0,0",
	} {
		if got, err := ParseBinding(in); err == nil || !cmp.Equal(got, Binding{}) {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
}

func TestBindingStringAndParseAreInverse(t *testing.T) {
	core := rapid.Custom(func(t *rapid.T) Core {
		return Core{rapid.IntRange(0, 99).Draw(t, "socket"), rapid.IntRange(0, 99).Draw(t, "core")}
	})
	binding := rapid.Custom(func(t *rapid.T) Binding {
		b := Binding{
			Instance: rapid.SampledFrom([]BindingInstance{BindSet, BindEnv, BindPE}).Draw(t, "instance"),
			Strategy: rapid.SampledFrom([]BindingStrategy{Linear, Striding, Explicit}).Draw(t, "strategy"),
		}
		if b.Strategy == Explicit {
			b.Cores = rapid.SliceOfNDistinct(core, 1, 8, rapid.ID[Core]).Draw(t, "cores")
			return b
		}
		b.Amount = rapid.IntRange(0, 99).Draw(t, "amount")
		if b.Strategy == Striding {
			b.Amount++
			b.Step = rapid.IntRange(1, 99).Draw(t, "step")
		}
		if rapid.Bool().Draw(t, "start") {
			c := core.Draw(t, "first")
			b.Start = &c
		}
		return b
	})
	rapid.Check(t, func(t *rapid.T) {
		b := binding.Draw(t, "binding")
		got, err := ParseBinding(b.String())
		if diff := cmp.Diff(b, got); diff != "" || err != nil {
			t.Fatalf("%s: %v\n%s", b, err, diff)
		}
	})
}

func FuzzBinding(f *testing.F) {
	for _, s := range []string{"linear", "env linear:slots:0,1", "striding:2:4:0,0", "pe explicit:0,0:1,1", "set x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := ParseBinding(s)
		if err != nil {
			return
		}
		again, err := ParseBinding(b.String())
		if diff := cmp.Diff(b, again); diff != "" || err != nil {
			t.Fatalf("%q printed as %q: %v\n%s", s, b, err, diff)
		}
	})
}

func TestParseVariables(t *testing.T) {
	env := []string{"HOME=/h", "E=", "junk", "HOME=/later"}
	for in, want := range map[string]string{
		"A":                      "[A=]",
		"HOME":                   "[HOME=/h]",
		"HOME=":                  "[HOME=]",
		"E,A=1":                  "[E= A=1]",
		"A=b=c,D=":               "[A=b=c D=]",
		"A=1,B=2,A=3":            "[A=3 B=2]",
		"A,,B=2,":                "[A= B=2]",
		`A="x,y",B=2`:            `[A="x,y" B=2]`,
		"A=it's,B=2":             "[A=it's B=2]",
		`A=a\,B=b`:               `[A=a\ B=b]`,
		" A=1":                   "[ A=1]",
		"A=x\ny":                 "[A=x\ny]",
		"junk":                   "[junk=]",
		"A=" + `'k=v,l=w'` + ",": "[A='k=v,l=w']",
	} {
		got, err := ParseVariables(in, env)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
}

func FuzzVariables(f *testing.F) {
	for _, s := range []string{"A", "A=1,B", `A="x,y",B`, "A==,=", ",,", "A=it's"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		vars, err := ParseVariables(s, []string{"A=x"})
		if (err == nil) != (len(vars) > 0) {
			t.Fatalf("%q: %v, %v", s, vars, err)
		}
		seen := map[string]bool{}
		for _, v := range vars {
			if v.Name == "" || strings.Contains(v.Name, "=") || hasControl(v.Name) || seen[v.Name] {
				t.Fatalf("%q: %q", s, vars)
			}
			seen[v.Name] = true
		}
	})
}

func TestSubmitEnvironment(t *testing.T) {
	env := []string{"HOME=/h", "PATH=/bin", "TZ=", "TERM=vt100", "SGE_O_HOME=forged"}
	if got, want := fmt.Sprint(SubmitEnvironment(env, "node", "/w")), "[SGE_O_HOME=/h SGE_O_PATH=/bin SGE_O_TZ= SGE_O_HOST=node SGE_O_WORKDIR=/w]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	env = []string{"HOST=other", "LOGNAME=u", "SHELL=/bin/sh", "MAIL=/m"}
	if got, want := fmt.Sprint(SubmitEnvironment(env, "node", "")), "[SGE_O_LOGNAME=u SGE_O_SHELL=/bin/sh SGE_O_MAIL=/m SGE_O_HOST=other]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWholeEnvironment(t *testing.T) {
	env := []string{"A=1", "=x", "junk", "TERM=vt100", "A=2", "B\n=3", "BASH_FUNC_f%%=() {\n}", "C="}
	r, err := Parse(Input{Args: []string{"-V", "-b", "y", "x"}, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%q", r.Env), `["TERM=vt100" "A=1" "BASH_FUNC_f%%=() {\n}" "C="]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzResources(f *testing.F) {
	for _, s := range []string{"h_rt=1:0:0,h_vmem=2G", "a", "a=x y,b=2", "=,", "h_rt", `a="x,y"`, "s_cpu=INFINITY"} {
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, s string, soft bool) {
		list, err := parseResources(s, soft, false)
		if (err == nil) != (len(list) > 0) {
			t.Fatalf("%q: %v, %v", s, list, err)
		}
		r := Request{Resources: list}
		if soft && len(r.LimitRequests()) > 0 {
			t.Fatalf("%q: a soft request limits: %v", s, r.LimitRequests())
		}
		var printed []string
		for _, q := range list {
			if q.Name == "" || q.Value == "" || q.Soft != soft {
				t.Fatalf("%q: %+v", s, list)
			}
			printed = append(printed, q.String())
		}
		if again, err := parseResources(strings.Join(printed, ","), soft, false); err == nil && !slices.Equal(again, list) && !strings.ContainsAny(s, `'"`) {
			t.Fatalf("%q: %v printed and read: %v", s, list, again)
		}
	})
}
