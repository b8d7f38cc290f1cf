package lustre

import (
	"strings"
	"testing"
)

// TestParseWanted: the words of policies for layouts, and what is none.
func TestParseWanted(t *testing.T) {
	if _, advised, err := ParseWanted("advised"); !advised || err != nil {
		t.Errorf("advised: %v, %v", advised, err)
	}
	l, advised, err := ParseWanted("count=8 size=4MiB pool=flash")
	if c := l.Components; err != nil || advised || len(c) != 1 || c[0].StripeCount != 8 || c[0].StripeBytes != 4<<20 || c[0].Pool != "flash" || c[0].End != EOF {
		t.Errorf("%+v, %v", l, err)
	}
	if l, _, err := ParseWanted("count=all"); err != nil || l.Components[0].StripeCount != AllTargets {
		t.Errorf("%+v, %v", l, err)
	}
	for text, why := range map[string]string{"": "want \"advised\"", "wide": "no KEY=VALUE", "count=0": "no number", "count=x": "no number", "size=4": "no size", "size=-4MiB": "no size", "size=3KiB": "", "ost=3": "none of count"} {
		if _, _, err := ParseWanted(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
