package lustre

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// TestSetstripe writes layouts as lfs wants them.
func TestSetstripe(t *testing.T) {
	const first = -7 // the first OST, where no word is about any of them
	whole := func(c Component) Component {
		if c.End == 0 {
			c.End = EOF
		}
		switch c.FirstTarget {
		case 0:
			c.FirstTarget = AnyTarget
		case first:
			c.FirstTarget = 0
		}
		return c
	}
	for _, c := range []struct {
		want string
		l    []Component
	}{
		{"lfs setstripe -c 4 -S 4M", []Component{{StripeCount: 4, StripeBytes: 4 * mib}}},
		{"lfs setstripe -c -1 -S 1M -p flash -i 3", []Component{{StripeCount: AllTargets, StripeBytes: mib, Pool: "flash", FirstTarget: 3}}},
		{"lfs setstripe -c 1 -i 0", []Component{{StripeCount: 1, FirstTarget: first}}},
		{"lfs setstripe -C 16 -S 1M", []Component{{Pattern: Overstriped, StripeCount: 16, StripeBytes: mib}}},
		{"lfs setstripe -c 2 -o 3,1", []Component{{StripeCount: 2, Objects: []Object{{Target: 3}, {Target: 1}}}}},
		{"lfs setstripe -E 256K -L mdt -E -1 -c 1 -S 4M", []Component{{End: 256 << 10, Pattern: OnMDT, StripeBytes: 256 << 10}, {Start: 256 << 10, StripeCount: 1, StripeBytes: 4 * mib}}},
		{"lfs setstripe -E 1G -c 1", []Component{{End: gib, StripeCount: 1}}},
		{"lfs setstripe -E 1G -c 1 -z 64M -E -1 -c 8", []Component{{StripeCount: 1, End: 64 * mib},
			{Start: 64 * mib, End: gib, StripeCount: 1, StripeBytes: 64 * mib, Flags: Extension}, {Start: gib, StripeCount: 8}}},
		{"lfs mirror create -N -c 1 -p flash -N -c 2", []Component{{StripeCount: 1, Pool: "flash"}, {StripeCount: 2}}},
		{"", nil},
	} {
		var l Layout
		for _, one := range c.l {
			l.Components = append(l.Components, whole(one))
		}
		args, ok := l.Setstripe()
		if got := strings.Join(args, " "); got != c.want || ok != (c.want != "") {
			t.Errorf("%q\nwant %q", got, c.want)
		}
	}
}

// TestLayoutJSON: what is written in words is read back the same.
func TestLayoutJSON(t *testing.T) {
	l := Layout{Mirrored: ReadOnly, Mirrors: 2, Generation: 7, Components: []Component{
		{ID: 0x10001, End: gib, Pattern: RAID0, Flags: Initialised | PreferRead | 1<<20, StripeBytes: mib, StripeCount: 2, FirstTarget: 0, Pool: "flash",
			Objects: []Object{{Target: 3, FID: FID{0x200000402, 2, 0}, Generation: 1}, {Target: 1}}},
		{ID: 0x10002, Start: gib, End: EOF, Pattern: 0x777, StripeCount: AllTargets, FirstTarget: AnyTarget, ObjectBytes: 4 * mib, PoolNamespace: "a"},
		{ID: 0x20003, End: EOF, Pattern: IsForeign, FirstTarget: AnyTarget, Foreign: &Foreign{Type: 1, Value: []byte("x")}},
	}}
	for _, l := range []Layout{l, {}, {Opaque: []byte{1, 2}}, {Foreign: &Foreign{Type: 4, Flags: 1, Value: []byte("s3://b/k")}}} {
		text := must.Get(json.Marshal(l))(t)
		var back Layout
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(l, back) {
			t.Errorf("%v\n%s\n%+v\n%+v", err, text, l, back)
		}
	}
	for _, bad := range []string{`{"components":[{"pattern":"raid7"}]}`, `{"components":[{"pattern":"raid0","flags":["odd"]}]}`,
		`{"components":[{"pattern":"raid0","objects":[{"fid":"no"}]}]}`, `{"mirrored":"all"}`, `[]`} {
		if err := json.Unmarshal([]byte(bad), new(Layout)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

// TestStripingJSON: a hash of a Lustre to come keeps its number.
func TestStripingJSON(t *testing.T) {
	for _, s := range []Striping{
		{Count: 2, Hash: CRUSH, HashFlags: 0x02000000, MaxInherit: 3, Shards: []Shard{{FID: FID{1, 2, 0}, MDT: 1}}},
		{Count: AllTargets, FirstMDT: AnyTarget, Hash: 7}, {Foreign: &Foreign{Type: 0xda05, Value: []byte("daos://pool")}},
	} {
		text := must.Get(json.Marshal(s))(t)
		var back Striping
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(s, back) {
			t.Errorf("%v\n%s\n%+v\n%+v", err, text, back, s)
		}
	}
	if err := json.Unmarshal([]byte(`{"count":1,"first_mdt":0,"hash":"md5"}`), new(Striping)); err == nil {
		t.Error("a hash that is none was taken")
	}
}

// TestMkdir writes directories as lfs wants them: from the first MDT on is not from any.
func TestMkdir(t *testing.T) {
	for _, c := range []struct {
		s    Striping
		want string
	}{
		{Striping{Count: 4, FirstMDT: AnyTarget}, "lfs mkdir -c 4"}, {Striping{Count: 2, FirstMDT: 0, Hash: CRUSH}, "lfs mkdir -c 2 -i 0 -H crush"},
		{Striping{Count: AllTargets, FirstMDT: 3}, "lfs mkdir -c -1 -i 3"}, {Striping{}, ""},
	} {
		args, ok := c.s.Mkdir()
		if got := strings.Join(args, " "); got != c.want || ok != (c.want != "") {
			t.Errorf("%+v: %q, want %q", c.s, got, c.want)
		}
	}
}
