package lustre

import "testing"

func TestCapabilitiesOf(t *testing.T) {
	for version, want := range map[string]Capabilities{
		"2.9":           {},
		"2.10.8":        {Progressive: true},
		"2.12.9_ddn39":  {Progressive: true, OnMDT: true},
		"2.13":          {true, true, true},
		"2.17.57_dirty": {true, true, true},
		"2.15-rc1":      {true, true, true},
		"3.0":           {true, true, true},
		"1.8.9":         {},
	} {
		if got, err := CapabilitiesOf(version); err != nil || got != want {
			t.Errorf("%s: %+v, %v", version, got, err)
		}
	}
	for _, bad := range []string{"", "2", "2.", "two.ten", "-2.10", "2.x", ".15", "2.-1"} {
		if got, err := CapabilitiesOf(bad); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}
