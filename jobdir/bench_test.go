package jobdir

import "testing"

func BenchmarkParseConfig(b *testing.B) {
	data := samples(b)["script"]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseConfig("config", data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFormatUsage(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		FormatUsage(&Usage{ExitStatus: 3})
	}
}
