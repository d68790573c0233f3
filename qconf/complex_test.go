package qconf

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestComplexesThatQconfPrintedArePrintedAgain checks the files below testdata/complexes, which qconf
// of Grid Engine 8.1.9 printed.
func TestComplexesThatQconfPrintedArePrintedAgain(t *testing.T) {
	for _, name := range []string{"template", "consumable"} {
		data, err := os.ReadFile("testdata/complexes/" + name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := ParseComplexes(name, data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(data), c.Format()); diff != "" {
			t.Errorf("%s (-qconf +printed)\n%s", name, diff)
		}
		want := Complex{"h_vmem", "h_vmem", ComplexMemory, "<=", RequestableYes, ConsumableNo, "0", 0}
		if name == "consumable" {
			want.Shortcut, want.Consumable, want.Default = "hv", ConsumableJob, "512M"
			got, ok := c.Find("hv")
			if !ok {
				t.Error("no hv")
			}
			same(t, "by its shortcut", want, got)
			if x, _ := c.Find("h_cpu"); x.Urgency != 0.5 || x.Consumable != ConsumableYes {
				t.Errorf("h_cpu is %+v", x)
			}
		}
		got, ok := c.Find("h_vmem")
		if !ok {
			t.Error("no h_vmem")
		}
		same(t, "by its name", want, got)
		if _, ok := c.Find("nosuch"); ok {
			t.Error("there is nosuch")
		}
	}
	if _, ok := (*Complexes)(nil).Find("h_vmem"); ok {
		t.Error("there is something in nothing")
	}
}

func TestComplexesWithAlternativeSpellings(t *testing.T) {
	c, err := ParseComplexes("c", []byte("# a comment\nx x memory <= y j 1.5G -2\n\ny yy BOOL excl f \\\n y FALSE 1e3\n"))
	if err != nil {
		t.Fatal(err)
	}
	x, _ := c.Find("x")
	same(t, "x", Complex{"x", "x", ComplexMemory, "<=", RequestableYes, ConsumableJob, "1.5G", -2}, x)
	y, _ := c.Find("yy")
	same(t, "y", Complex{"y", "yy", ComplexBool, "EXCL", RequestableForced, ConsumableYes, "FALSE", 1000}, y)
}

func TestComplexesThatAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		"a a INT <= YES NO 0":                "a: has 7 columns, expected 8: name, shortcut, type, relop, requestable, consumable, default, urgency",
		"a a INT <= YES NO 0 0 0":            "a: has 9 columns, expected 8: name, shortcut, type, relop, requestable, consumable, default, urgency",
		"a a NUMBER <= YES NO 0 0":           `a: type: "NUMBER" is unknown, expected one of INT, DOUBLE, TIME, MEMORY, BOOL, STRING, CSTRING, RESTRING, HOST, RSMAP`,
		"a a INT =< YES NO 0 0":              `a: relop: "=<" is unknown, expected one of ==, !=, >=, >, <=, <, EXCL`,
		"a a INT <= maybe NO 0 0":            `a: requestable: "maybe" is unknown, expected one of YES, NO, FORCED`,
		"a a INT <= YES SLOT 0 0":            `a: consumable: "SLOT" is unknown, expected one of YES, NO, JOB, HOST`,
		"a a STRING == YES JOB NONE 0":       "a: consumable: JOB is not possible for the type STRING",
		"a a INT EXCL YES YES 0 0":           "a: relop: EXCL is for the type BOOL, not for INT",
		"a a HOST <= YES NO NONE 0":          "a: relop: <= is not possible for the type HOST, expected == or !=",
		"a a BOOL != YES NO 0 0":             "a: relop: != is not possible for the type BOOL, expected == or EXCL",
		"a a BOOL EXCL YES NO 0 0":           "a: consumable: NO is not possible with the relop EXCL, expected YES",
		"a a INT == YES YES 0 0":             "a: relop: == is not possible for a consumable, expected <=",
		"a a RSMAP <= YES NO 0 0":            "a: consumable: NO is not possible for the type RSMAP, expected YES or JOB",
		"a a RSMAP <= YES YES 1(0) 0":        `a: default: "1(0)" is not a number, expected one from 0 to 65536`,
		"a a TIME <= NO YES 0:0:0 0":         `a: default: "0:0:0" is not possible for a consumable that cannot be requested: no job would use it`,
		"a a INT <= FORCED YES 1 0":          `a: default: "1" is not possible for a consumable that must be requested, expected 0`,
		"a a INT <= YES YES -1 0":            `a: default: "-1" is not possible for a consumable, expected a finite value that is not negative`,
		"a a INT <= YES YES INFINITY 0":      `a: default: "INFINITY" is not possible for a consumable, expected a finite value that is not negative`,
		"a a INT == YES NO 3 0":              `a: default: "3" is for consumables only, expected 0`,
		"a a STRING == YES NO 0 0":           `a: default: "0" is for consumables only, expected NONE`,
		"tmpdir tmp STRING == YES NO NONE 0": "tmpdir: requestable: tmpdir cannot be requested, expected NO",
		"h_rt h_rt MEMORY <= YES NO 0 0":     "h_rt: type: the built-in complex h_rt has the type TIME",
		"arch a INT <= YES NO 0 0":           "arch: type: the built-in complex arch has the type STRING",
		"mine arch INT <= YES NO 0 0":        `mine: "arch" means the built-in complex arch, expected another name`,
		"mine a INT <= YES NO 0 0":           `mine: "a" means the built-in complex arch, expected another name`,
		"a a BOOL == YES YES 0 0":            "a: consumable: YES is possible for the type BOOL only with the relop EXCL",
		"a a MEMORY <= YES YES lots 0":       `a: default: "lots" is not a value of the type MEMORY, expected a number of bytes with an optional letter of k K m M g G t T`,
		"a a TIME <= YES YES 1:2 0":          `a: default: "1:2" is not a value of the type TIME, expected seconds or hours:minutes:seconds`,
		"a a INT <= YES YES one 0":           `a: default: "one" is not a value of the type INT, expected an integer`,
		"a a INT <= YES YES 0 urgent":        `a: urgency: "urgent" is not a number, expected one like 10 or 0.5`,
		"a a INT <= YES YES 0 Inf":           `a: urgency: "Inf" is not a number, expected one like 10 or 0.5`,
		"b z INT <= YES YES 0 0":             `b: "z" means z already`,
		"z b INT <= YES YES 0 0":             `z: "z" means z already`,
		"h_vmem h_vmem MEMORY <= YES JOB":    "h_vmem: has 6 columns, expected 8: name, shortcut, type, relop, requestable, consumable, default, urgency",
	} {
		t.Run(line, func(t *testing.T) {
			before := ""
			at := "c:1: "
			if strings.Contains(want, "already") {
				before, at = "z z INT <= YES NO 0 0\n", "c:2: "
			}
			_, err := ParseComplexes("c", []byte(before+line+"\n"))
			refused(t, err, at+want)
		})
	}
}

func TestComplexesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		blank := func() string { return anyBlank.Draw(t, "blank") }
		for i := range rapid.IntRange(0, 20).Draw(t, "elements") {
			n := "X" + string(rune('a'+i)) + rapid.StringMatching(`[a-z0-9_]{0,30}`).Draw(t, "name")
			kind := rapid.SampledFrom([]string{"INT", "int", "DOUBLE", "TIME", "MEMORY"}).Draw(t, "type")
			b.WriteString(n + blank() + n + "." + blank() + kind + blank() + "<=" + blank() +
				rapid.SampledFrom([]string{
					"YES y 0", "y j 77", "no yes 1k", "N JOB 1:0:0", "F NO 0", "forced job 0x0", "YES n FALSE",
				}).Draw(t, "requestable, consumable, default") + blank() +
				rapid.StringMatching(`-?[1-9][0-9]{0,8}(\.[0-9]{1,9})?`).Draw(t, "urgency") + "\n")
		}
		checkComplexes(t, b.String())
	})
}

func checkComplexes(t interface{ Errorf(string, ...any) }, text string) {
	c, err := ParseComplexes("c", []byte(text))
	if err != nil {
		t.Errorf("%q: %v", text, err)
		return
	}
	again, err := ParseComplexes("c", []byte(c.Format()))
	if err != nil {
		t.Errorf("%q is printed as %q, which is not read: %v", text, c.Format(), err)
		return
	}
	if diff := cmp.Diff(c.All(), again.All()); diff != "" || c.Format() != again.Format() {
		t.Errorf("%q is not the same\n%s", text, diff)
	}
}

func FuzzComplexes(f *testing.F) {
	data, err := os.ReadFile("testdata/complexes/consumable")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(data))
	f.Add("a b INT <= y j 0 0 \\\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := ParseComplexes("c", []byte(text)); err == nil {
			checkComplexes(t, text)
		}
	})
}
