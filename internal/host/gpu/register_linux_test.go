package gpu

import (
	"reflect"
	"testing"
)

func FuzzRegister(f *testing.F) {
	f.Add("# numbers\n0 address=0000:65:00.0 uuid=GPU-1a memory=12\n3 address=0001:65:00.0\n")
	f.Add("0 address=0000:65:00.0 divided=yes mig=1.0,MIG-1a,12,1g.10gb,1764331200000000000 mig=2.1,,0,,-1\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseRegister(text)
		if err != nil {
			return
		}
		again, err := parseRegister(formatRegister(list))
		if err != nil || !reflect.DeepEqual(again, list) {
			t.Errorf("%q is read as %v, written and read as %v (%v)", text, list, again, err)
		}
	})
}
