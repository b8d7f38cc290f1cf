package cephfs

import (
	"math"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"datamove.dev/lustre"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const usual = "stripe_unit=4194304 stripe_count=1 object_size=4194304 pool=cephfs_data"

func TestParseStriping(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name, text, namespace string
		want                  striping // zero: an error
	}{
		{"as a new file system has it", usual, "", striping{4 * mib, 1, 4 * mib, "cephfs_data", ""}},
		{"with a namespace", usual + " pool_namespace=a b/:c", "a b/:c", striping{4 * mib, 1, 4 * mib, "cephfs_data", "a b/:c"}},
		{"a pool with blanks", "stripe_unit=65536 stripe_count=100000 object_size=4294901760 pool=my pool", "",
			striping{64 << 10, 100_000, 4<<30 - 64<<10, "my pool", ""}},
		{"a pool that looks like a namespace", usual + " pool_namespace=x", "", striping{4 * mib, 1, 4 * mib, "cephfs_data pool_namespace=x", ""}},
		{"the namespace changed in between", usual + " pool_namespace=x", "y", striping{}},
		{"no pool", "stripe_unit=4194304 stripe_count=1 object_size=4194304 pool=", "", striping{}},
		{"another order", "stripe_count=1 stripe_unit=4194304 object_size=4194304 pool=a", "", striping{}},
		{"negative", "stripe_unit=-1 stripe_count=1 object_size=4194304 pool=a", "", striping{}},
		{"more than 32 bits", "stripe_unit=4194304 stripe_count=4294967296 object_size=4194304 pool=a", "", striping{}},
		{"more than 64 bits", "stripe_unit=99999999999999999999 stripe_count=1 object_size=4194304 pool=a", "", striping{}},
		{"no number", "stripe_unit= stripe_count=1 object_size=4194304 pool=a", "", striping{}},
		{"nothing", "", "", striping{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseStriping(c.text, c.namespace)
			if got != c.want || (err == nil) != (c.want != striping{}) {
				t.Fatalf("%+v, %v; want %+v", got, err, c.want)
			}
			if err == nil && got.String() != c.text {
				t.Errorf("is written as %q, and was %q", got, c.text)
			}
		})
	}
}

func TestParseInherited(t *testing.T) {
	got, err := parseInherited(`{"stripe_unit": 65536, "stripe_count": 2, "object_size": 131072, "pool_name": "fast", "pool_id": 3, "pool_namespace": "ns", "inheritance": "@inherited"}`)
	if want := (striping{64 << 10, 2, 128 << 10, "fast", "ns"}); got != want || err != nil {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, text := range []string{"", "{}", "null", "[]", `{"stripe_unit": -1, "pool_name": "a"}`, `{"stripe_unit": 1e30, "pool_name": "a"}`, `{"stripe_unit": "1", "pool_name": "a"}`,
		`{"stripe_count": 4294967296, "pool_name": "a"}`, strings.Repeat("[", 4000)} {
		if got, err := parseInherited(text); err == nil {
			t.Errorf("%.20q is %+v", text, got)
		}
	}
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]time.Time{
		"1795370237.780753885":   time.Unix(1795370237, 780753885),
		"1795370237.000000005":   time.Unix(1795370237, 5),
		"1795370237.09780753885": time.Unix(1795370237, 780753885), // an old client
		"1795370237.095":         time.Unix(1795370237, 5),         // an old client
		"0.000000000":            time.Unix(0, 0),
	} {
		if got, err := parseTime(text); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".", "5", "-1.000000000", "1.0000000001", "x.000000000", "1.00000000x", "99999999999999999999.000000000"} {
		if got, err := parseTime(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestParseLimits(t *testing.T) {
	got, err := parseLimits("max_bytes=9223372036854775807 max_files=5")
	if want := (lustre.Limits{HardBytes: math.MaxInt64, HardFiles: 5}); got != want || err != nil {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, text := range []string{"", "max_bytes=1", "max_files=1 max_bytes=1", "max_bytes=-1 max_files=0", "max_bytes= max_files=", "max_bytes=1 max_files=1 x=1",
		"max_bytes=9223372036854775808 max_files=0"} {
		if got, err := parseLimits(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// What was understood is written so that it is understood again, whoever said it.
func FuzzStriping(f *testing.F) {
	f.Add(usual, "")
	f.Add(usual+" pool_namespace=a b", "a b")
	f.Add("stripe_unit=0 stripe_count=4294967295 object_size=007 pool= pool_namespace=", " pool_namespace=")
	f.Fuzz(func(t *testing.T, text, namespace string) {
		s, err := parseStriping(text, namespace)
		if err != nil {
			return
		}
		if again, err := parseStriping(s.String(), s.namespace); err != nil || again != s {
			t.Fatalf("%q is %+v, and that %+v, %v", text, s, again, err)
		}
		l := s.layout()
		if w, err := wanted(l); err == nil && w != s {
			t.Fatalf("%+v is asked for as %+v", s, w)
		}
	})
}

func FuzzInherited(f *testing.F) {
	f.Add(`{"stripe_unit": 4194304, "stripe_count": 1, "object_size": 4194304, "pool_name": "cephfs_data", "pool_id": 2, "pool_namespace": "", "inheritance": "@default"}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseInherited(text)
		if err == nil && (s.unit < 0 || s.count < 0 || s.count > maxCount || s.object < 0 || s.pool == "") {
			t.Fatalf("%q is %+v", text, s)
		}
	})
}

func FuzzTime(f *testing.F) {
	f.Add("1795370237.780753885")
	f.Add("1795370237.09780753885")
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := parseTime(text); err == nil && got.Unix() < 0 {
			t.Fatalf("%q is %v", text, got)
		}
	})
}

func FuzzLimits(f *testing.F) {
	f.Add("max_bytes=10485760 max_files=0")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parseLimits(text)
		if err == nil && l.Validate() != nil {
			t.Fatalf("%q is %+v", text, l)
		}
	})
}
