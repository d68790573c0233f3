package loadformula

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var load = map[string]float64{"np_load_avg": 0.5, "mem_used": 1 << 30, "slots": 8, "num_proc": 4, "inf": math.MaxFloat64}

func eval(f Formula) float64 {
	return f.Eval(func(i int) (float64, bool) {
		v, ok := load[f.Attributes()[i]]
		return v, ok
	})
}

// TestParse checks the formulas that qconf -Msconf of 8.1.9 accepts, and how it prints them.
func TestParse(t *testing.T) {
	for text, c := range map[string]struct {
		printed    string
		attributes string
		value      float64
	}{
		"np_load_avg":                      {"np_load_avg", "np_load_avg", 0.5},
		"2":                                {"2", "", 2},
		"-np_load_avg":                     {"-np_load_avg", "np_load_avg", -0.5},
		"+np_load_avg":                     {"+np_load_avg", "np_load_avg", 0.5},
		"np_load_avg*2":                    {"np_load_avg*2", "np_load_avg", 1},
		"2*3":                              {"2*3", "", 6},
		"-2*3":                             {"-2*3", "", -6},
		"np_load_avg - slots":              {"np_load_avg-slots", "np_load_avg slots", -7.5},
		"np_load_avg\t+ 2":                 {"np_load_avg+2", "np_load_avg", 2.5},
		"np_load_avg-num_proc-slots*3+1.5": {"np_load_avg-num_proc-slots*3+1.5", "np_load_avg num_proc slots", -26},
		"$num_proc*2":                      {"$num_proc*2", "num_proc", 8},
		"1.5e3":                            {"1.5e3", "", 1500},
		"0x10":                             {"0x10", "", 16},
		"np_load_avg*1e2":                  {"np_load_avg*1e2", "np_load_avg", 50},
		"np_load_avg*0x10":                 {"np_load_avg*0x10", "np_load_avg", 8},
		"np_load_avg*.5":                   {"np_load_avg*.5", "np_load_avg", 0.25},
		"slots-slots*2-slots":              {"slots-slots*2-slots", "slots", -16},
		"nosuch":                           {"nosuch", "nosuch", Missing},
		"slots*0+nosuch*0":                 {"slots*0+nosuch*0", "slots nosuch", Missing},
		"inf-inf":                          {"inf-inf", "inf", 0},
		"inf*2-inf*2":                      {"inf*2-inf*2", "inf", Missing},
	} {
		f, err := Parse(text)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if f.String() != c.printed || strings.Join(f.Attributes(), " ") != c.attributes {
			t.Errorf("%q is printed %q, attributes %q", text, f, f.Attributes())
		}
		if got := eval(f); got != c.value {
			t.Errorf("%q is %v, want %v", text, got, c.value)
		}
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"none":                 "there is always a formula",
		"NONE":                 "there is always a formula",
		"":                     "it is empty",
		" ":                    "it is empty",
		"2*np_load_avg":        `"np_load_avg" is not a weight, expected one number after "2*"`,
		"np_load_avg*mem_used": `"mem_used" is not a weight`,
		"np_load_avg*2*3":      `"2*3" is not a weight`,
		"np_load_avg/2":        `"np_load_avg/2" is neither an attribute nor a number`,
		"np_load_avg&2":        `"np_load_avg&2" is neither`,
		"np_load_avg^2":        `"np_load_avg^2" is neither`,
		"np_load_avg*1k":       `"1k" is not a weight`,
		"1k":                   `"1k" is neither`,
		"5G":                   `"5G" is neither`,
		"np_load_avg*1e-2":     `"1e" is not a weight`,
		"(np_load_avg)":        "is neither",
		"1:0:0":                "is neither",
		"$":                    `"$" is neither`,
		"$$num_proc":           "is neither",
		"0x":                   "is neither",
		// What the original takes, and hardly as it was meant:
		"-":              "an operand is missing",
		"+":              "an operand is missing",
		"np_load_avg+":   "an operand is missing",
		"np_load_avg++2": "an operand is missing",
		"--2":            "an operand is missing",
		"*2":             "an operand is missing",
		"np_load_avg*":   `"" is not a weight`,
		"np_load_avg*-2": `"" is not a weight`,
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "cannot read the formula ") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if (Formula{}).Eval(nil) != 0 {
		t.Error("the formula NONE has a value")
	}
}

// TestSum checks that the sum is the same in any notation.
func TestSum(t *testing.T) {
	names := []string{"np_load_avg", "slots", "num_proc"}
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		want := 0.0
		for i := range rapid.IntRange(1, 6).Draw(t, "terms") {
			sign := rapid.SampledFrom([]string{"+", "-"}).Draw(t, "sign")
			name := rapid.SampledFrom(names).Draw(t, "name")
			if i > 0 || sign == "-" {
				text.WriteString(sign)
			}
			text.WriteString(name)
			v := load[name]
			if rapid.Bool().Draw(t, "weighted") {
				text.WriteString("*2.5")
				v *= 2.5
			}
			if sign == "-" {
				v = -v
			}
			want += v
		}
		f, err := Parse(text.String())
		if err != nil {
			t.Fatal(err)
		}
		if got := eval(f); got != want {
			t.Fatalf("%s is %v, want %v", f, got, want)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"np_load_avg", "-a*2+$b-1e3", "0x10"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		formula, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(formula.String())
		if err != nil || again.String() != formula.String() || !slices.Equal(again.Attributes(), formula.Attributes()) || eval(again) != eval(formula) {
			t.Fatalf("%q is printed as %q, read as %q: %v", text, formula, again, err)
		}
	})
}

func BenchmarkEval(b *testing.B) {
	f, err := Parse("np_load_avg*2+slots-num_proc")
	if err != nil {
		b.Fatal(err)
	}
	values := []float64{0.5, 8, 4}
	b.ReportAllocs()
	for b.Loop() {
		f.Eval(func(i int) (float64, bool) { return values[i], true })
	}
}
