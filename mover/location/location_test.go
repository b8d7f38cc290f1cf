package location

import (
	"errors"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Location
	}{
		{"/data/x", Location{Scheme: POSIX, Path: "/data/x"}},
		{"/data/x/", Location{Scheme: POSIX, Path: "/data/x", TrailingSlash: true}},
		{"/", Location{Scheme: POSIX, Path: "/", TrailingSlash: true}},
		{"link/../y", Location{Scheme: POSIX, Path: "link/../y"}},
		{"a//./b/.", Location{Scheme: POSIX, Path: "a/b", TrailingSlash: true}},
		{".", Location{Scheme: POSIX, Path: "."}},
		{"./", Location{Scheme: POSIX, Path: ".", TrailingSlash: true}},
		{"//..", Location{Scheme: POSIX, Path: "/.."}},
		{"./a:b", Location{Scheme: POSIX, Path: "a:b"}},
		{"./-", Location{Scheme: POSIX, Path: "-"}},
		{"/a:b", Location{Scheme: POSIX, Path: "/a:b"}},
		{"file:///data", Location{Scheme: POSIX, Path: "/data"}},
		{"file:///a%20b%25", Location{Scheme: POSIX, Path: "/a b%"}},
		{"s3://bucket", Location{Scheme: S3, Bucket: "bucket", TrailingSlash: true}},
		{"s3://bucket/", Location{Scheme: S3, Bucket: "bucket", TrailingSlash: true}},
		{"s3://bucket/a/b", Location{Scheme: S3, Bucket: "bucket", Prefix: "a/b"}},
		{"s3://bucket/a/b/", Location{Scheme: S3, Bucket: "bucket", Prefix: "a/b", TrailingSlash: true}},
		{"archive:", Location{Scheme: InTier, Tier: "archive", TrailingSlash: true}},
		{"archive:run1/ckpt", Location{Scheme: InTier, Tier: "archive", Path: "run1/ckpt"}},
		{"archive:/run1/", Location{Scheme: InTier, Tier: "archive", Path: "run1", TrailingSlash: true}},
		{"dataset:imagenet", Location{Scheme: Dataset, Name: "imagenet"}},
	} {
		if got, err := Parse(c.in); err != nil || got != c.want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", c.in, got, err, c.want)
		}
	}
}

func TestBadLocations(t *testing.T) {
	for _, in := range []string{
		"", "-", "a\x00b", "file://host/x", "file:///a%2Fb", "file:///a%", "file:///a%00", "file:x", "s3:bucket", "s3://", "s3://bad bucket/x", "s3://-bad/x", "s3://ab",
		"s3://bucket//x", "s3://bucket/../x", "s3://bucket/a//", "http://x/y", "bad tier:x", "-x:y",
		"archive:../x", "archive:a/../../x", "dataset:", "dataset:a/b", "dataset:a@123", "dataset:a@",
	} {
		if got, err := Parse(in); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("Parse(%q) = %+v, %v; want an error of usage", in, got, err)
		}
	}
}

// TestNoSecretInErrors writes credentials where they do not belong.
func TestNoSecretInErrors(t *testing.T) {
	for _, in := range []string{"s3://key:hidden@host/bucket", "https://user:hidden@host/x"} {
		if _, err := Parse(in); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("Parse(%q): %v", in, err)
		}
	}
}

func TestParentAndChild(t *testing.T) {
	for _, c := range []struct{ in, dir, base string }{
		{"/data/x", "/data/", "x"},
		{"/x/", "/", "x"},
		{"x", "./", "x"},
		{"link/../x", "link/../", "x"},
		{"s3://bucket/a/b", "s3://bucket/a/", "b"},
		{"s3://bucket/a", "s3://bucket/", "a"},
		{"archive:a", "archive:", "a"},
	} {
		l := must.Get(Parse(c.in))(t)
		dir, base, ok := l.Parent()
		if !ok || dir.String() != c.dir || base != c.base {
			t.Errorf("Parent(%s) = %s, %q, %v", c.in, dir, base, ok)
		}
		l.TrailingSlash = false
		if back := dir.Child(base); back != l {
			t.Errorf("Child(%s, %q) = %+v, want %+v", dir, base, back, l)
		}
	}
	for _, root := range []string{"/", ".", "..", "../..", "s3://bucket", "archive:", "dataset:x"} {
		l := must.Get(Parse(root))(t)
		if dir, base, ok := l.Parent(); ok {
			t.Errorf("Parent(%s) = %s, %q", root, dir, base)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"/a", "./a:b", "s3://bucket/x/", "tier:x", "tier:", "dataset:d", "a//b/", "file:///"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := Parse(s)
		if err != nil {
			if !errors.Is(err, mover.ErrUsage) {
				t.Errorf("Parse(%q): %v", s, err)
			}
			return
		}
		back, err := Parse(l.String())
		if err != nil || back != l {
			t.Errorf("Parse(%q) = %+v, printed %q, read back %+v, %v", s, l, l, back, err)
		}
		root, err := Parse(l.Root().String())
		if err != nil || root.Root() != l.Root() || root.Scheme != l.Scheme || l.WithBelow(l.Below()) != l {
			t.Errorf("Parse(%q) = %+v, its root %+v, %v", s, l, root, err)
		}
	})
}
