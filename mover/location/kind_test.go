package location

import (
	"testing"

	"datamove.dev/test/must"
)

// TestFacts asks each kind of location for what callers want to know of it.
func TestFacts(t *testing.T) {
	type facts struct{ path, store, tier, dataset bool }
	for _, c := range []struct {
		in          string
		want        facts
		root, below string
	}{
		{"/data/x", facts{path: true}, "/", "/data/x"},
		{"/", facts{path: true}, "/", "/"},
		{"a/b/", facts{path: true}, "./", "a/b"},
		{"s3://bucket/a/b", facts{store: true}, "s3://bucket/", "a/b"},
		{"s3://bucket", facts{store: true}, "s3://bucket/", ""},
		{"archive:run1/", facts{tier: true}, "archive:", "run1"},
		{"archive:", facts{tier: true}, "archive:", ""},
		{"dataset:imagenet", facts{dataset: true}, "dataset:imagenet", ""},
	} {
		l := must.Get(Parse(c.in))(t)
		if got := (facts{l.IsPath(), l.InStore(), l.InTier(), l.IsDataset()}); got != c.want || l.Root().String() != c.root || l.Below() != c.below {
			t.Errorf("%s: %+v, root %s, below it %q; want %+v, %s, %q", c.in, got, l.Root(), l.Below(), c.want, c.root, c.below)
		}
		if again := l.WithBelow(l.Below()); again != l {
			t.Errorf("%s with its own part below the root is %+v", c.in, again)
		}
	}
	if l := OfTier("archive", "run1").WithBelow("run2"); l != OfTier("archive", "run2") {
		t.Errorf("archive:run1 with run2 below the root is %+v", l)
	}
	if l := (Location{}); l.IsPath() || l.InStore() || l.InTier() || l.IsDataset() {
		t.Error("the zero location is of a kind")
	}
}

// TestAnotherStore: a store with a scheme of its own takes one row.
func TestAnotherStore(t *testing.T) {
	kinds["gs"] = storeKind("gs")
	t.Cleanup(func() { delete(kinds, "gs") })
	l := must.Get(Parse("gs://bucket/a/b/"))(t)
	if want := (Location{Scheme: "gs", Bucket: "bucket", Prefix: "a/b", TrailingSlash: true}); l != want || l.String() != "gs://bucket/a/b/" {
		t.Errorf("%+v, printed %s", l, l)
	}
	if dir, base, ok := l.Parent(); !l.InStore() || !ok || base != "b" || dir.String() != "gs://bucket/a/" || l.Child("c").String() != "gs://bucket/a/b/c" {
		t.Errorf("in a store: %v; parent %s, %q", l.InStore(), dir, base)
	}
	if s3 := must.Get(Parse("s3://bucket/a"))(t); s3.Root() == l.Root() {
		t.Error("two stores have one root")
	}
}
