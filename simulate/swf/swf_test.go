package swf_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/execd-project/execd/simulate/swf"
	"github.com/execd-project/execd/simulate/swfgen"
)

const sample = `; Version: 2.2
; Computer:  IBM SP2
;
; UnixStartTime: 805449609
; MaxNodes: 100 (thin and wide)
;MaxProcs:   -1
; Note: two lines, of which
;       the second goes on
; Note: and another
; (see above: two lines)

  1 0 117 25200 8 1200.5 -1 8 36000 -1 1 3 1 -1 2 -1 -1 -1
; a remark
	2 60.5	1.5 0 -1 -1 -1 4 600 2048 5 4 1 -1 0 1 1 30` + "\r\n"

var sampleRecords = []swf.Record{
	{
		Number: 1, Wait: 117, Run: 25200, Processors: 8, CPU: 1200.5, Memory: -1, RequestedProcessors: 8, RequestedTime: 36000,
		RequestedMemory: -1, Status: swf.Completed, User: 3, Group: 1, Executable: -1, Queue: 2, Partition: -1, Preceding: -1, ThinkTime: -1,
	},
	{
		Number: 2, Submit: 60, Wait: 2, Processors: -1, CPU: -1, Memory: -1, RequestedProcessors: 4, RequestedTime: 600, RequestedMemory: 2048,
		Status: swf.Cancelled, User: 4, Group: 1, Executable: -1, Partition: 1, Preceding: 1, ThinkTime: 30,
	},
}

func open(t testing.TB, r io.Reader) *swf.Reader {
	t.Helper()
	reader, err := swf.NewReader("trace", r)
	if err != nil {
		t.Fatal(err)
	}
	return reader
}

// collect returns the records, and the errors as lines.
func collect(seq iter.Seq2[swf.Record, error]) (records []swf.Record, problems []string) {
	for r, err := range seq {
		if err != nil {
			problems = append(problems, err.Error())
		} else {
			records = append(records, r)
		}
	}
	return records, problems
}

func pack(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTraceIsRead(t *testing.T) {
	packed := pack(t, []byte(sample))
	for what, r := range map[string]io.Reader{
		"plain":                  strings.NewReader(sample),
		"packed":                 bytes.NewReader(packed),
		"plain, byte by byte":    iotest.OneByteReader(strings.NewReader(sample)),
		"packed, byte by byte":   iotest.OneByteReader(bytes.NewReader(packed)),
		"without the last break": strings.NewReader(strings.TrimSpace(sample)),
	} {
		reader := open(t, r)
		records, problems := collect(reader.Records())
		if diff := cmp.Diff(sampleRecords, records); diff != "" || problems != nil {
			t.Errorf("%s: %q (-want +got)\n%s", what, problems, diff)
		}
		if reader.Line() != 14 {
			t.Errorf("%s: the last line is %d", what, reader.Line())
		}
	}
}

func TestHeader(t *testing.T) {
	h := open(t, strings.NewReader(sample)).Header()
	want := swf.Header{
		{"Version", "2.2"},
		{"Computer", "IBM SP2"},
		{"UnixStartTime", "805449609"},
		{"MaxNodes", "100 (thin and wide)"},
		{"MaxProcs", "-1"},
		{"Note", "two lines, of which\nthe second goes on"},
		{"Note", "and another\n(see above: two lines)"},
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if again := open(t, bytes.NewReader(h.Append(nil))).Header(); !cmp.Equal(h, again) {
		t.Errorf("written and read: %q", again)
	}
	if v := h.Values("note"); len(v) != 2 {
		t.Errorf("notes: %q", v)
	}
	h = append(h, swf.Field{Name: swf.MaxJobs, Value: "1,024"}, swf.Field{Name: "Words", Value: "no number"}, swf.Field{Name: "Dot", Value: "12."})
	for name, want := range map[string]int64{
		swf.UnixStartTime: 805449609, swf.MaxNodes: 100, "maxnodes": 100, swf.MaxProcs: -1, swf.MaxJobs: -1, "Words": -1, "Nowhere": -1, "Dot": 12,
	} {
		if n, ok := h.Number(name); ok != (want >= 0) || ok && n != want {
			t.Errorf("%s: %d, %v", name, n, ok)
		}
	}
}

func TestTraceWithoutRecords(t *testing.T) {
	for _, text := range []string{"", "\n\n", "; Version: 2", " ; a sentence: no name\n"} {
		if records, problems := collect(open(t, strings.NewReader(text)).Records()); records != nil || problems != nil {
			t.Errorf("%q: %v, %q", text, records, problems)
		}
	}
}

func TestWhatIsWrong(t *testing.T) {
	const good = "1 2 3 4 5 6 7 8 9 10 1 12 13 14 15 16 17 18"
	with := func(field int, value string) string {
		words := strings.Fields(good)
		words[field-1] = value
		return strings.Join(words, " ")
	}
	for what, c := range map[string]struct{ line, want string }{
		"too few fields":        {"1 2 3", "trace:2: the line has 3 fields, expected 18"},
		"too many fields":       {good + " 19 20", "trace:2: the line has 20 fields, expected 18"},
		"a word":                {with(4, "long"), `trace:2: field 4 (run time): "long": is not a number`},
		"a word for an integer": {with(8, "4x"), `trace:2: field 8 (requested number of processors): "4x": is not a whole number`},
		"a fraction of a user":  {with(12, "1.5"), `trace:2: field 12 (user ID): "1.5": is not a whole number`},
		"a large number":        {with(1, "9223372036854775808"), `trace:2: field 1 (job number): "9223372036854775808": is too large, expected a number below 2^63`},
		"a large time":          {with(2, "1e16"), `trace:2: field 2 (submit time): "1e16": is too large, expected a number below 2^53`},
		"too large a time":      {with(6, "1e400"), `trace:2: field 6 (average CPU time): "1e400": is too large`},
		"infinity":              {with(9, "inf"), `trace:2: field 9 (requested time): "inf": is not a number`},
		"not a number":          {with(6, "NaN"), `trace:2: field 6 (average CPU time): "NaN": is not a number`},
		"hexadecimal":           {with(9, "0x10"), `trace:2: field 9 (requested time): "0x10": is not a number`},
		"a lone sign":           {with(18, "-"), `trace:2: field 18 (think time): "-": is not a number`},
		"two, the first counts": {strings.Replace(with(5, "?"), " 6 ", " ? ", 1) + " 19", `trace:2: field 5 (number of allocated processors): "?": is not a whole number`},
	} {
		records, problems := collect(open(t, strings.NewReader("; Version: 2.2\n"+c.line+"\n"+good+"\n")).Records())
		if len(problems) != 1 || problems[0] != c.want || len(records) != 1 || records[0].String() != good {
			t.Errorf("%s: %q and %v, want %q and a good one", what, problems, records, c.want)
		}
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	packed := pack(t, []byte(strings.Repeat(sampleRecords[0].String()+"\n", 1000)))
	long := "; x\n" + strings.Repeat("7", 2<<20)
	var broken *swf.Error
	for what, r := range map[string]io.Reader{
		"packed and cut short":   bytes.NewReader(packed[:len(packed)-6]),
		"a disk with a bad spot": io.MultiReader(strings.NewReader(sample), iotest.ErrReader(errors.New("bad spot"))),
		"a line too long":        strings.NewReader(sample + long),
	} {
		reader := open(t, r)
		var last error
		n := 0
		for _, err := range reader.Records() {
			n++
			last = err
		}
		if !errors.As(last, &broken) || n < 3 || broken.Line != reader.Line()+1 || broken.Err == nil {
			t.Errorf("%s: %v behind %d records and %d lines", what, last, n, reader.Line())
		}
		for _, err := range reader.Records() {
			if !errors.As(err, &broken) {
				t.Errorf("%s: goes on with %v", what, err)
			}
		}
	}
	for what, r := range map[string]io.Reader{
		"packed, and not":       bytes.NewReader([]byte{0x1f, 0x8b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
		"a header without end":  strings.NewReader(long),
		"nothing but an error":  iotest.ErrReader(errors.New("bad spot")),
		"packed, and no header": bytes.NewReader(packed[:12]),
	} {
		if _, err := swf.NewReader("trace", r); err == nil || !strings.Contains(err.Error(), "trace") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestReadingIsResumed checks that a caller may stop reading, and continue later.
func TestReadingIsResumed(t *testing.T) {
	h, all := swfgen.Generate(swfgen.Options{Jobs: 10})
	reader := open(t, bytes.NewReader(swfgen.Text(h, all)))
	var got []swf.Record
	for range all {
		for r, err := range reader.Records() {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, r); len(got)%3 == 0 {
				break
			}
		}
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("(-written +read)\n%s", diff)
	}
}

func TestRecordIsWrittenAndRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(what string) int64 {
			return rapid.OneOf(rapid.Int64(), rapid.Int64Range(-1, 1000)).Draw(t, what)
		}
		want := swf.Record{
			Number: n("number"), Submit: n("submit"), Wait: n("wait"), Run: n("run"), Processors: n("processors"),
			CPU:    rapid.Float64().Draw(t, "cpu"),
			Memory: n("memory"), RequestedProcessors: n("processors"), RequestedTime: n("time"), RequestedMemory: n("memory"),
			Status: swf.Status(n("status")), User: n("user"), Group: n("group"), Executable: n("executable"),
			Queue: n("queue"), Partition: n("partition"), Preceding: n("preceding"), ThinkTime: n("think time"),
		}
		r, err := swf.NewReader("trace", strings.NewReader(want.String()))
		if err != nil {
			t.Fatal(err)
		}
		got, problems := collect(r.Records())
		if len(got) != 1 || got[0] != want || problems != nil {
			t.Fatalf("%+v is read as %+v, %q", want, got, problems)
		}
	})
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(sample))
	f.Add(pack(f, []byte(sample)))
	f.Add([]byte("; a\n1 2 3 4 5 6e1 7.5 +8 9 10 1 12 13 14 15 16 17\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := swf.NewReader("trace", bytes.NewReader(text))
		if err != nil {
			return
		}
		var all []swf.Record
		for rec, err := range r.Records() {
			var e *swf.Error
			switch {
			case err == nil:
				all = append(all, rec)
			case !errors.As(err, &e) || e.Line < 1 || e.Problem == "" || e.Field < 0 || e.Field > 18:
				t.Fatalf("%#v", err)
			}
		}
		again := open(t, bytes.NewReader(swfgen.Text(nil, all)))
		got, problems := collect(again.Records())
		if !cmp.Equal(all, got) || problems != nil {
			t.Fatalf("written and read: %v, %q", got, problems)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	const jobs = 100_000
	text := swfgen.Text(swfgen.Generate(swfgen.Options{Jobs: jobs}))
	for name, data := range map[string][]byte{"plain": text, "gzip": pack(b, text)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				n := 0
				for _, err := range open(b, bytes.NewReader(data)).Records() {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != jobs {
					b.Fatal(n)
				}
			}
		})
	}
}
