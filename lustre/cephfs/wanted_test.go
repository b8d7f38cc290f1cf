package cephfs

import (
	"errors"
	"strings"
	"testing"

	"datamove.dev/lustre"
)

func TestWanted(t *testing.T) {
	const mib = 1 << 20
	whole := func(c lustre.Component) lustre.Layout {
		c.End = lustre.EOF
		return lustre.Layout{Components: []lustre.Component{c}}
	}
	for _, c := range []struct {
		name string
		l    lustre.Layout
		want striping
		says string // of an error
	}{
		{"nothing", lustre.Layout{}, striping{}, ""},
		{"only a count", whole(lustre.Component{StripeCount: 4}), striping{count: 4}, ""},
		{"a pool", whole(lustre.Component{Pool: "fast", PoolNamespace: "a b"}), striping{pool: "fast", namespace: "a b"}, ""},
		{"stripes fit into objects", whole(lustre.Component{Pattern: lustre.RAID0, StripeBytes: mib, StripeCount: 8}), striping{unit: mib, count: 8, object: 4 * mib}, ""},
		{"objects are of whole stripes", whole(lustre.Component{StripeBytes: 3 * mib}), striping{unit: 3 * mib, object: 6 * mib}, ""},
		{"stripes larger than objects", whole(lustre.Component{StripeBytes: 16 * mib}), striping{unit: 16 * mib, object: 16 * mib}, ""},
		{"only objects", whole(lustre.Component{ObjectBytes: 32 * mib}), striping{unit: 4 * mib, object: 32 * mib}, ""},
		{"only odd objects", whole(lustre.Component{ObjectBytes: 5 * mib}), striping{unit: 5 * mib, object: 5 * mib}, ""},
		{"the largest objects", whole(lustre.Component{StripeBytes: mib, ObjectBytes: 128 * mib}), striping{unit: mib, object: 128 * mib}, ""},
		{"objects that OSDs do not take", whole(lustre.Component{StripeBytes: mib, ObjectBytes: 129 * mib}), striping{}, "osd_max_object_size"},
		{"stripes that OSDs do not take", whole(lustre.Component{StripeBytes: 1 << 30}), striping{}, "osd_max_object_size"},
		{"unaligned", whole(lustre.Component{StripeBytes: 100_000}), striping{}, "64 KiB"},
		{"objects of broken stripes", whole(lustre.Component{StripeBytes: 3 * mib, ObjectBytes: 4 * mib}), striping{}, "no multiple"},
		{"all targets", whole(lustre.Component{StripeCount: lustre.AllTargets}), striping{}, "how many OSDs"},
		{"too many", whole(lustre.Component{StripeCount: 2001}), striping{}, "2001 stripes"},
		{"a pool with a blank", whole(lustre.Component{Pool: "my pool"}), striping{}, "my pool"},
		{"a pool with a number for a name", whole(lustre.Component{Pool: "3"}), striping{}, "number"},
		{"a namespace of no pool", whole(lustre.Component{PoolNamespace: "a"}), striping{}, "namespace"},
		{"on the MDT", whole(lustre.Component{Pattern: lustre.OnMDT}), striping{}, "mdt"},
		{"a first target", whole(lustre.Component{FirstTarget: 3}), striping{}, "places"},
		{"progressive", lustre.Layout{Components: []lustre.Component{{End: mib}, {Start: mib, End: lustre.EOF}}}, striping{}, "one layout"},
		{"with an end", lustre.Layout{Components: []lustre.Component{{End: mib}}}, striping{}, "end of the file"},
		{"foreign", lustre.Layout{Foreign: &lustre.Foreign{}}, striping{}, "one layout"},
		{"opaque", lustre.Layout{Opaque: []byte("x")}, striping{}, "one layout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := wanted(c.l)
			if got != c.want || (err == nil) != (c.says == "") {
				t.Fatalf("%+v, %v; want %+v", got, err, c.want)
			}
			if err != nil && (!errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v: want an errors.ErrUnsupported that says %q", err, c.says)
			}
		})
	}
}

func TestRequest(t *testing.T) {
	for want, s := range map[string]striping{
		"":               {},
		"stripe_count=4": {count: 4},
		"stripe_unit=65536 stripe_count=2 object_size=131072 pool=fast": {64 << 10, 2, 128 << 10, "fast", "ns"},
	} {
		if got := s.request(); got != want {
			t.Errorf("%+v is asked for as %q, want %q", s, got, want)
		}
	}
}
