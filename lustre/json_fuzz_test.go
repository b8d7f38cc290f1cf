package lustre

import (
	"encoding/json"
	"reflect"
	"testing"

	"datamove.dev/test/must"
)

// FuzzLayoutJSON: whatever is taken is written again as the same.
func FuzzLayoutJSON(f *testing.F) {
	for _, seed := range []string{
		`{"components":[{"start":0,"end":65536,"pattern":"mdt","stripe_bytes":65536,"stripe_count":0},{"start":65536,"pattern":"raid0","stripe_count":-1,"pool":"flash"}]}`,
		`{"components":[{"pattern":"0x4","flags":["stale","0x8000000000"],"first_target":0,"objects":[{"target":3,"fid":"[0x1:0x2:0x0]"}]}],"mirrored":"wp","mirrors":2}`,
		`{"foreign":{"type":4,"value":"AAE="}}`, `{"opaque":"AAE="}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var l, again Layout
		if json.Unmarshal(text, &l) != nil {
			return
		}
		_ = l.Validate()
		_, _ = l.Setstripe()
		_ = l.Wanted()
		_ = l.Width(0)
		once, err := json.Marshal(l)
		must.Do(t, err)
		if err := json.Unmarshal(once, &again); err != nil {
			t.Fatalf("%v: %s", err, once)
		}
		twice, err := json.Marshal(again)
		if err != nil || !reflect.DeepEqual(once, twice) {
			t.Fatalf("%v\n%s\n%s", err, once, twice)
		}
	})
}
