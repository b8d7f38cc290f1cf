package files

import (
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/engine"
)

func TestMaxDelete(t *testing.T) {
	for text, want := range map[string]engine.MaxDelete{
		"0":    {Set: true},
		"100":  {Set: true, Entries: 100},
		"5%":   {Set: true, Percent: 5},
		"0.5%": {Set: true, Percent: 0.5},
		"0%":   {Set: true},
	} {
		if got, err := parseMaxDelete(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "x", "NaN%", "-1%", "%", "1e3"} {
		if got, err := parseMaxDelete(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestPreserve(t *testing.T) {
	for text, want := range map[string]mover.Facts{
		"layout": mover.AllFacts | mover.FactLayout, "mode,layout": mover.FactMode | mover.FactLayout, "all,layout": mover.AllFacts | mover.FactLayout,
		"privileges": mover.AllFacts | mover.FactPrivileges, "layout,privileges": mover.AllFacts | mover.FactLayout | mover.FactPrivileges,
		"mode":       mover.FactMode,
		"mode,times": mover.FactMode | mover.FactMtime | mover.FactAtime,
		"acls,links": mover.FactXattrs | mover.FactLinks,
		"all":        0,
		"mode,all":   0,
	} {
		if got, err := parsePreserve(text); err != nil || got != want {
			t.Errorf("%s: %b, %v", text, got, err)
		}
	}
}
