package value

import (
	"math"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/execd-project/execd/scheduler/expression"
)

func mustParse(t testing.TB, typ Type, s string) Value {
	t.Helper()
	v, err := Parse(typ, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestOriginalForms checks how 8.1.9 shows values in complex_values of a host: qstat -F, qhost -F and
// the reasons of -w v.
func TestOriginalForms(t *testing.T) {
	for _, c := range []struct {
		typ                  Type
		text                 string
		qstat, qhost, reason string
	}{
		{String, "rh_3.1", "rh_3.1", "rh_3.1", "rh_3.1"},
		{CString, "Red", "Red", "Red", "Red"},
		{Host, "n1", "n1", "n1", "n1"},
		{Int, "0x10", "16", "16.000000", "16.000000"},
		{Int, "-3", "-3", "-3.000000", "-3.000000"},
		{Int, "5.7", "5", "5.700000", "5.700000"},
		{Int, "00010", "8", "8.000000", "8.000000"},
		{Int, "-0x10", "-16", "-16.000000", "-16.000000"},
		{Int, "-010", "-10", "-10.000000", "-10.000000"},
		{Int, "+5k", "5000", "5000.000000", "5000.000000"},
		{Int, "0.5k", "500", "500.000000", "500.000000"},
		{Int, "1e-400", "0", "0.000000", "0.000000"},
		{Int, "-2147483648", "-2147483648", "-2147483648.000000", "-2147483648.000000"},
		{Int, "2147483647", "2147483647", "2147483647.000000", "2147483647.000000"},
		{Int, "INFINITY", "infinity", "infinity", "infinity"},
		{Double, "1.5", "1.500000", "1.500000", "1.500000"},
		{Double, "-0.00001", "-0.000010", "-0.000010", "-0.000010"},
		{Double, "123456789.123456789", "123456789.123457", "123456789.123457", "123456789.123457"},
		{Double, "1e30", "1000000000000000019884624838656.000000", "1000000000000000019884624838656.000000", "1000000000000000019884624838656.000000"},
		{Double, "5.", "5.000000", "5.000000", "5.000000"},
		{Double, "1e3k", "1000000.000000", "1000000.000000", "1000000.000000"},
		{Double, "0x10", "16.000000", "16.000000", "16.000000"},
		{Time, "1:30:0", "01:30:00", "01:30:00", "01:30:00"},
		{Time, "90061", "25:01:01", "25:01:01", "25:01:01"},
		{Time, "1e7", "2777:46:40", "2777:46:40", "2777:46:40"},
		{Time, "0:90:1", "01:30:01", "01:30:01", "01:30:01"},
		{Time, "1:-30:0", "00:30:00", "00:30:00", "00:30:00"},
		{Time, "-0:5:0", "00:05:00", "00:05:00", "00:05:00"},
		{Time, "1e1:0:0", "10:00:00", "10:00:00", "10:00:00"},
		{Time, "0x1:0:0", "01:00:00", "01:00:00", "01:00:00"},
		{Time, "010", "00:00:08", "00:00:08", "00:00:08"},
		{Time, "-0.5", "00:00:00", "00:00:00", "00:00:00"},
		{Time, "1k", "00:16:40", "00:16:40", "00:16:40"},
		{Time, "infinity", "infinity", "infinity", "infinity"},
		{Memory, "1.5G", "1.500G", "1.500G", "1.500G"},
		{Memory, "-1.5G", "-1.500G", "-1.500G", "-1.500G"},
		{Memory, "1000", "1000.000", "1000.000", "1000.000"},
		{Memory, "1023.9K", "1023.900K", "1023.900K", "1023.900K"},
		{Memory, "1048575.9999", "1024.000K", "1024.000K", "1024.000K"},
		{Memory, "1024T", "1024.000T", "1024.000T", "1024.000T"},
		{Memory, "1e20", "90949470.177T", "90949470.177T", "90949470.177T"},
		{Memory, "0.3", "0.300", "0.300", "0.300"},
		{Memory, "-0.0001", "0.000", "0.000", "0.000"},
		{Memory, "010k", "7.812K", "7.812K", "7.812K"},
		{Memory, ".5k", "500.000", "500.000", "500.000"},
		{Bool, "true", "1.000000", "1.000000", "true"},
		{Bool, "FALSE", "0.000000", "0.000000", "false"},
		{Bool, "2", "2.000000", "2.000000", "true"},
		{Bool, "0.4", "0.400000", "0.400000", "true"},
	} {
		v := mustParse(t, c.typ, c.text)
		for form, want := range map[Form]string{QStat: c.qstat, QHost: c.qhost, Reason: c.reason} {
			if got := v.Format(form); got != want {
				t.Errorf("%s %s in form %d: %s, want %s", c.typ, c.text, form, got, want)
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string]float64{
		"0": 0, "1": 1, "TRUE": 1, "False": 0, "Infinity": Infinity, "-3": -3, "+5": 5, ".5": 0.5, "1.5": 1.5, "1e3": 1e3, "0x0A": 10, "010": 8,
		"1k": 1e3, "1K": 1024, "1m": 1e6, "1M": 1 << 20, "1g": 1e9, "1G": 1 << 30, "1t": 1e12, "1T": 1 << 40, "0.5G": 1 << 29,
		"0:90:0": 5400, "::30": 30, "1.5:0:0": 5400, "-1:0:0": -3600, "::": 0, "::3000000000": 3e9, "1e1": 10, "1E+2": 100, "2e0K": 2048,
	} {
		if got, err := number(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " 1", "1 ", "yes", "t", "1:30", "1:2:3:4", "3000000000:0:0", "0:3000000000:0", "1GB", "1P", "1h", "1x", "08", "0x", "0xg", "0x1p3", "0b1",
		".", "-", "+", "1:0:0k", "TRUEx", "1_000", "0x1_0", "--1", "1-", "1e", "1ek", "k", "K1",
		// The original reads these as numbers:
		"nan", "inf", "-inf", "-infinity", "1e400", "1e308T", "0x1.8", "-0x1.8", "1/2", "1,2", "0x7fffffffffffffffffff", "inf:0:0",
	} {
		if got, err := number(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		typ        Type
		text, want string
	}{
		{Memory, "1GB", `cannot read the MEMORY value "1GB": it ends in "GB", expected a number with an optional letter of k K m M g G t T, or INFINITY`},
		{Time, "1:30", `cannot read the TIME value "1:30": it has 2 parts, expected hours:minutes:seconds, expected seconds, hours:minutes:seconds or INFINITY`},
		{Bool, "yes", `cannot read the BOOL value "yes": it does not begin with a number, expected TRUE or FALSE`},
		{Int, "", `cannot read the INT value "": it is empty, expected a number like 4, 0x10 or 2k, or INFINITY`},
		{Double, "1e999", `cannot read the DOUBLE value "1e999": it is too large, expected a number like 0.5 or 1e3, or INFINITY`},
	} {
		if _, err := Parse(c.typ, c.text); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if _, err := Parse(0, "1"); err == nil {
		t.Error("a value without a type: no error")
	}
}

func TestKeywords(t *testing.T) {
	for typ := Int; typ < types; typ++ {
		if got, err := ParseType(strings.ToLower(typ.String())); err != nil || got != typ {
			t.Errorf("%s is read as %s, %v", typ, got, err)
		}
		if typ.IsText() == typ.IsNumeric() {
			t.Errorf("%s is both text and a number, or neither", typ)
		}
	}
	for r := Equal; r < relops; r++ {
		if got, err := ParseRelop(strings.ToLower(r.String())); err != nil || got != r {
			t.Errorf("%s is read as %s, %v", r, got, err)
		}
	}
	for _, s := range []string{"", "=", "FLOAT", "=>"} {
		_, err1 := ParseType(s)
		_, err2 := ParseRelop(s)
		if err1 == nil || err2 == nil {
			t.Errorf("%q: %v, %v, want errors", s, err1, err2)
		}
	}
	if Type(0).String()+Relop(0).String()+Type(99).String()+Relop(99).String() != "" {
		t.Error("an invalid type or operator has a name")
	}
}

// TestMatch checks that the request is the left operand of a relation.
func TestMatch(t *testing.T) {
	for what, c := range map[string]struct {
		typ            Type
		relop          Relop
		request, offer string
		want           bool
	}{
		"as much as is offered":            {Memory, LessEqual, "4G", "4G", true},
		"more than is offered":             {Memory, LessEqual, "4.1G", "4G", false},
		"at least what is offered":         {Int, GreaterEqual, "35", "30", true},
		"less than what is offered":        {Int, GreaterEqual, "8", "10", false},
		"strictly less":                    {Int, Less, "4", "4", false},
		"strictly more":                    {Int, Greater, "5", "4", true},
		"notations do not matter":          {Time, Equal, "1:30:0", "0x1518", true},
		"times are whole seconds":          {Time, Equal, "1.7", "2", true},
		"another number":                   {Int, NotEqual, "1", "2", true},
		"nothing is more than infinity":    {Time, LessEqual, "INFINITY", "INFINITY", true},
		"infinity is more than anything":   {Time, LessEqual, "INFINITY", "1e300", false},
		"a number as BOOL":                 {Bool, Equal, "2", "true", false},
		"exclusive wants the resource":     {Bool, Exclusive, "true", "true", true},
		"exclusive, not offered":           {Bool, Exclusive, "true", "false", false},
		"exclusive, not wanted":            {Bool, Exclusive, "false", "false", true},
		"a pattern":                        {String, Equal, "lx*", "lx-amd64", true},
		"case matters":                     {String, Equal, "LX*", "lx-amd64", false},
		"case does not matter":             {CString, Equal, "LX*", "lx-amd64", true},
		"RESTRING is like STRING":          {REString, Equal, "Ab?", "abd", false},
		"an offer is no pattern":           {String, Equal, "lx-amd64", "lx*", false},
		"a name that is not wanted":        {String, NotEqual, "lx*", "sol", true},
		"a name that is wanted":            {String, NotEqual, "lx*", "lx", false},
		"hosts":                            {Host, Equal, "N1.example.com", "n1", true},
		"an order of names is not known":   {String, LessEqual, "a", "a", false},
		"a request without a value":        {String, Equal, "TRUE", "rh_3.1", false},
		"a BOOL request without a value":   {Bool, Equal, "TRUE", "1", true},
		"a number as a request for a word": {String, Equal, "5", "5", true},
	} {
		r, err := ParseRequest(c.typ, expression.HostNames{IgnoreFQDN: true}, c.request)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if got := r.Match(c.relop, mustParse(t, c.typ, c.offer)); got != c.want {
			t.Errorf("%s: %s %s %s is %v", what, c.request, c.relop, c.offer, got)
		}
	}
	var none Request
	one, err := ParseRequest(Int, expression.HostNames{}, "1")
	if err != nil {
		t.Fatal(err)
	}
	for r := Equal; r < relops; r++ {
		if none.Match(r, OfNumber(Int, 0)) || one.Match(r, Value{}) || one.Match(r, OfNumber(Double, 1)) || one.Match(r, OfText(String, "1")) {
			t.Errorf("%s matches a missing value, or one of another type", r)
		}
	}
	if _, err := ParseRequest(String, expression.HostNames{}, "(lx*"); err == nil {
		t.Error("an expression with an error: no error")
	}
}

func TestRequestText(t *testing.T) {
	for text, want := range map[string]string{"1:30:0": "5400", "0x10": "16", "1.5": "2", "2.5": "2", "Infinity": "Infinity", "5e9": "5000000000"} {
		if r, err := ParseRequest(Time, expression.HostNames{}, text); err != nil || r.String() != want {
			t.Errorf("TIME %s is shown as %s, %v, want %s", text, r.String(), err, want)
		}
	}
	for _, text := range []string{"1k", "0x0A", "TRUE"} {
		if r, err := ParseRequest(Int, expression.HostNames{}, text); err != nil || r.String() != text {
			t.Errorf("INT %s is shown as %s, %v", text, r.String(), err)
		}
	}
}

func TestCheckConsumable(t *testing.T) {
	for what, ok := range map[Value]bool{
		OfNumber(Int, 0): true, OfNumber(Bool, 1): true, OfNumber(Memory, 1<<40): true,
		OfNumber(Memory, -1): false, OfNumber(Int, Infinity): false, OfText(String, "a"): false, {}: false,
	} {
		if err := what.CheckConsumable(); (err == nil) != ok {
			t.Errorf("%s %s: %v", what.Type(), what, err)
		}
	}
}

func TestExtremes(t *testing.T) {
	if !Exclusive.Holds(0, -1) || Exclusive.Holds(1, -1) {
		t.Error("EXCL has to hold for each offer if the request is 0, and only then")
	}
	if OfNumber(Int, math.Inf(1)).Number() != Infinity || OfNumber(Int, math.Inf(-1)).Number() != -Infinity || OfNumber(Int, math.NaN()).IsValid() {
		t.Error("infinity has another number, or NaN is a valid value")
	}
	if OfNumber(String, 1).IsValid() || OfText(Int, "1").IsValid() || OfNumber(0, 1).IsValid() {
		t.Error("a value of the wrong type")
	}
}

func TestSame(t *testing.T) {
	all := []Value{{}, OfNumber(Int, 0), OfNumber(Int, 1), OfNumber(Bool, 1), OfText(String, ""), OfText(String, "a"), OfText(CString, "a"), OfText(String, "A")}
	for i, a := range all {
		for j, b := range all {
			if b.Type().IsText() {
				b = OfText(b.Type(), strings.Clone(b.Text()))
			}
			if a.Same(b) != (i == j) {
				t.Errorf("%s %q and %s %q are the same: %v", a.Type(), a, b.Type(), b, a.Same(b))
			}
		}
	}
}

func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.Map(rapid.IntRange(-3, 3), func(i int) float64 { return float64(i) / 2 })
		a, b := small.Draw(t, "a"), small.Draw(t, "b")
		for relop, opposite := range map[Relop]Relop{Equal: NotEqual, Less: GreaterEqual, Greater: LessEqual} {
			if relop.Holds(a, b) == opposite.Holds(a, b) {
				t.Fatalf("%v %s %v and its opposite", a, relop, b)
			}
		}
		if Less.Holds(a, b) != Greater.Holds(b, a) || LessEqual.Holds(a, b) != (Less.Holds(a, b) || Equal.Holds(a, b)) {
			t.Fatalf("%v and %v", a, b)
		}
	})
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom([]Type{Int, Double, Time, Memory, Bool}).Draw(t, "type")
		number := rapid.OneOf(rapid.Float64(), rapid.Map(rapid.Int64(), func(i int64) float64 { return float64(i) }),
			rapid.SampledFrom([]float64{0, 1, 1024, 1536, 3 << 40, Infinity, -Infinity + 1e300, 1 << 53})).Draw(t, "number")
		if typ == Time {
			number = math.RoundToEven(number)
		}
		v := OfNumber(typ, number)
		if number == -Infinity {
			t.Skip("has no notation")
		}
		again, err := Parse(typ, v.String())
		if err != nil || again != v {
			t.Fatalf("%s %v is printed as %s, read as %v: %v", typ, number, v, again.Number(), err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"1.5G", "1:30:0", "0x10", "INFINITY", "-3e-2k", "::"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for typ := Int; typ <= Bool; typ++ {
			v, err := Parse(typ, s)
			if err != nil {
				continue
			}
			if again, err := Parse(typ, v.String()); err != nil || again != v {
				t.Fatalf("%s %q is printed as %q: %v", typ, s, v, err)
			}
			for f := range QStat + 1 {
				v.Format(f)
			}
		}
	})
}

func TestSize(t *testing.T) {
	if size := unsafe.Sizeof(Value{}); size != 16 {
		t.Errorf("a value takes %d bytes", size)
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, c := range []struct {
		typ            Type
		relop          Relop
		request, offer string
	}{{Memory, LessEqual, "2G", "4G"}, {String, Equal, "lx-amd64", "lx-amd64"}, {CString, Equal, "LX*|sol*", "lx-amd64"}, {Host, Equal, "n100", "n101"}} {
		r, err := ParseRequest(c.typ, expression.HostNames{IgnoreFQDN: true}, c.request)
		if err != nil {
			b.Fatal(err)
		}
		offer := mustParse(b, c.typ, c.offer)
		b.Run(c.typ.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Match(c.relop, offer)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(Memory, "1.5G"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	v := mustParse(b, Memory, "1.5G")
	buf := make([]byte, 0, 32)
	b.ReportAllocs()
	for b.Loop() {
		buf = v.Append(buf[:0], QStat)
	}
}
