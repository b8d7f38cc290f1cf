package uapi

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"datamove.dev/lustre"
)

// TestHSMOfALustre holds the bytes of a Lustre against what was asked and seen there.
func TestHSMOfALustre(t *testing.T) {
	t.Parallel()
	raw := fixture(t, "hsm-user-state-archived")
	want := lustre.HSMState{Archived: lustre.HasCopy | lustre.WholeCopy, ArchiveID: 1}
	if s, err := DecodeHSMState(raw); err != nil || s != want || !bytes.Equal(EncodeHSMState(s), raw) {
		t.Errorf("an archived file: %+v, %v; want %+v, and it written again", s, err, want)
	}
	raw = fixture(t, "hsm-request-archive")
	asked := WholeFiles(lustre.Archive, 1, []lustre.FID{{Seq: 0x200000402, OID: 2}})
	if r, err := DecodeHSMRequest(raw); err != nil || !reflect.DeepEqual(r, asked) || !bytes.Equal(EncodeHSMRequest(asked), raw) {
		t.Errorf("a request: %+v, %v; want %+v, and it written again", r, err, asked)
	}
}

func TestLinksOfALustre(t *testing.T) {
	t.Parallel()
	links, whole, err := DecodeLinks(fixture(t, "trusted.link"))
	want := []Link{{lustre.FID{Seq: 0x200000402, OID: 1}, "v1x"}}
	if err != nil || !whole || !reflect.DeepEqual(links, want) {
		t.Errorf("%+v, whole %v, %v; want %+v", links, whole, err, want)
	}
	two := []Link{{lustre.FID{Seq: 1, OID: 2, Ver: 3}, "a"}, {lustre.FID{Seq: 4}, "another name"}}
	if b, err := EncodeLinks(two); err != nil {
		t.Error(err)
	} else if got, whole, err := DecodeLinks(b); err != nil || !whole || !reflect.DeepEqual(got, two) {
		t.Errorf("%+v, whole %v, %v; want %+v", got, whole, err, two)
	}
	b := fixture(t, "trusted.link")
	b[16] = 1 // leh_overflow_time
	if _, whole, err := DecodeLinks(b); err != nil || whole {
		t.Errorf("links that had no room: whole %v, %v", whole, err)
	}
	for name, alter := range map[string]func(){
		"another magic":                 func() { b[0]++ },
		"more links than there are":     func() { b[4] = 2 },
		"more bytes than there are":     func() { b[8]++ },
		"fewer bytes than a header has": func() { b[8] = 23 },
		"an entry larger than its room": func() { b[25]++ },
		"an entry without its head":     func() { b[25] = 17 },
	} {
		b = fixture(t, "trusted.link")
		alter()
		if links, _, err := DecodeLinks(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v; want %v", name, links, err, ErrMalformed)
		}
	}
}

func TestHSMRoundTrip(t *testing.T) {
	t.Parallel()
	for _, want := range []lustre.HSMState{
		{}, {Archived: lustre.ReleasedState | lustre.Dirty, ArchiveID: 7, Doing: lustre.Restore, Running: true}, {Doing: lustre.Archive},
	} {
		if s, err := DecodeHSMState(EncodeHSMState(want)); err != nil || s != want {
			t.Errorf("state %+v, %v; want %+v", s, err, want)
		}
	}
	for _, want := range []HSMAction{{}, {Running: true, Action: lustre.Restore, Extent: Extent{1, 2}}, {Action: lustre.Remove, Extent: Extent{0, WholeFile}}} {
		if a, err := DecodeHSMAction(EncodeHSMAction(want)); err != nil || a != want {
			t.Errorf("action %+v, %v; want %+v", a, err, want)
		}
	}
	if set, clear, archive, err := DecodeHSMSet(EncodeHSMSet(lustre.NoRelease, lustre.Dirty, 3)); err != nil || set != lustre.NoRelease || clear != lustre.Dirty || archive != 3 {
		t.Errorf("a change of state: %v, %v, %d, %v", set, clear, archive, err)
	}
	r := WholeFiles(lustre.Restore, 0, []lustre.FID{{Seq: 1, OID: 2, Ver: 3}, {Seq: 4}})
	r.Data, r.Flags, r.Items[1].Extent.Off = []byte("for the copytool"), 5, 4096
	if got, err := DecodeHSMRequest(EncodeHSMRequest(r)); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("a request: %+v, %v; want %+v", got, err, r)
	}
	b := EncodeHSMRequest(r)
	b[19] = 0xff // four billion files
	if got, err := DecodeHSMRequest(b); !errors.Is(err, ErrMalformed) {
		t.Errorf("a request for more files than there are: %+v, %v", got, err)
	}
}

func TestFilesRoundTrip(t *testing.T) {
	t.Parallel()
	fid := lustre.FID{Seq: 0x200000402, OID: 2, Ver: 1}
	if got, err := DecodeFID(AppendFID(nil, fid)); err != nil || got != fid {
		t.Errorf("a FID: %v, %v", got, err)
	}
	b := EncodeFIDToPath(fid, 3)
	if got, err := DecodeFID(b); err != nil || got != fid || len(b) != fidToPathSize+MaxPath {
		t.Errorf("the path of %v is asked for in %d bytes, %v", got, len(b), err)
	}
	copy(b[fidToPathSize:], "a/b")
	if path, next, err := DecodeFIDToPath(b); err != nil || path != "a/b" || next != 3 {
		t.Errorf("a path: %q, %d, %v", path, next, err)
	}
	b = EncodeGetParent(2)
	copy(b, AppendFID(nil, fid))
	copy(b[getParentSize:], "b")
	if link, err := DecodeGetParent(b); err != nil || link != (Link{fid, "b"}) {
		t.Errorf("a parent: %+v, %v", link, err)
	}
	for i := range b[getParentSize:] {
		b[getParentSize+i] = 'x'
	}
	if link, err := DecodeGetParent(b); !errors.Is(err, ErrMalformed) {
		t.Errorf("a name without an end: %+v, %v", link, err)
	}
	s := Swap{Flags: SwapClose, Other: 7, Group: 0xfffffff1, First: 1, Second: 2}
	if got, err := DecodeSwap(EncodeSwap(s)); err != nil || got != s {
		t.Errorf("a swap: %+v, %v", got, err)
	}
	size := LazySize{Valid: SizeLazy, Bytes: 2, Blocks: 8}
	if got, err := DecodeLazySize(EncodeLazySize(size)); err != nil || got != size {
		t.Errorf("a lazy size: %+v, %v", got, err)
	}
	if async, got, err := DecodeAdvice(EncodeAdvice(true, Advice{WillRead, 1, 2}, Advice{DontNeed, 3, 4})); err != nil || !async || len(got) != 2 || got[1] != (Advice{DontNeed, 3, 4}) {
		t.Errorf("advices: %v, %+v, %v", async, got, err)
	}
	if content, layout, err := DecodeDataVersion(append(EncodeDataVersion(FlushWrites), 1)); err != nil || content != 0 || layout != 0 {
		t.Errorf("a version: %d, %d, %v", content, layout, err)
	}
}

// Every decoder is given what is too short, and anything.
func FuzzSmall(f *testing.F) {
	f.Add(EncodeHSMState(lustre.HSMState{Doing: lustre.Archive}))
	f.Add(EncodeHSMRequest(WholeFiles(lustre.Archive, 1, []lustre.FID{{Seq: 1}})))
	f.Add(EncodeAdvice(true, Advice{WillRead, 1, 2}))
	f.Add(EncodeSwap(Swap{Flags: SwapClose}))
	for _, name := range []string{"trusted.link.bin", "hsm-request-archive.bin"} {
		if raw, err := os.ReadFile(filepath.Join("testdata", name)); err == nil {
			f.Add(raw)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, err := range small(b) {
			if err != nil && !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if r, err := DecodeHSMRequest(b); err == nil {
			if again, err := DecodeHSMRequest(EncodeHSMRequest(r)); err != nil || !reflect.DeepEqual(again, r) {
				t.Errorf("a request %+v became %+v, %v", r, again, err)
			}
		}
	})
}

// small decodes b as everything that is small.
func small(b []byte) map[string]error {
	errs := make(map[string]error)
	_, errs["FID"] = DecodeFID(b)
	_, _, errs["path"] = DecodeFIDToPath(b)
	_, errs["parent"] = DecodeGetParent(b)
	_, _, errs["links"] = DecodeLinks(b)
	_, errs["size"] = DecodeLazySize(b)
	_, _, errs["version"] = DecodeDataVersion(b)
	_, errs["swap"] = DecodeSwap(b)
	_, _, errs["advice"] = DecodeAdvice(b)
	_, errs["state"] = DecodeHSMState(b)
	_, _, _, errs["set"] = DecodeHSMSet(b)
	_, errs["request"] = DecodeHSMRequest(b)
	_, errs["action"] = DecodeHSMAction(b)
	return errs
}

func TestNothingIsTooShort(t *testing.T) {
	t.Parallel()
	for name, err := range small(nil) {
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("no bytes are a %s: %v", name, err)
		}
	}
}
