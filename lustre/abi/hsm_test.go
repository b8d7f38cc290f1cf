package abi

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
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

// TestNumbers holds the numbers of these requests against those that were compiled from
// the headers of three versions.
func TestNumbers(t *testing.T) {
	t.Parallel()
	ioctls := map[string]uint64{
		"LL_IOC_PATH2FID": IocPathToFID, "OBD_IOC_FID2PATH": IocFIDToPath, "LL_IOC_GETPARENT": IocGetParent, "LL_IOC_GET_MDTIDX": IocMDTIndex,
		"LL_IOC_DATA_VERSION": IocDataVersion, "LL_IOC_GROUP_LOCK": IocGroupLock, "LL_IOC_GROUP_UNLOCK": IocGroupUnlock,
		"LL_IOC_SET_LEASE_OLD": IocSetLease, "LL_IOC_GET_LEASE": IocGetLease, "LL_IOC_LOV_SWAP_LAYOUTS": IocSwapLayouts, "LL_IOC_LADVISE": IocLadvise,
		"LL_IOC_HSM_STATE_GET": IocHSMState, "LL_IOC_HSM_STATE_SET": IocHSMSetState, "LL_IOC_HSM_REQUEST": IocHSMRequest, "LL_IOC_HSM_ACTION": IocHSMAction,
		"OBD_IOC_CHLG_SET_FLAGS": IocChangeFlags,
	}
	sizes := map[string]uint64{
		"lu_fid": FIDSize, "getinfo_fid2path": fidToPathSize, "getparent": getParentSize, "ioc_data_version": dataVersionSize,
		"lustre_swap_layouts": swapSize, "llapi_ladvise_hdr": ladviseHeader, "llapi_lu_ladvise": ladviseSize, "lustre_som_attrs": lazySizeSize,
		"hsm_user_state": hsmStateSize, "hsm_state_set": hsmSetSize, "hsm_user_request": hsmRequestSize, "hsm_user_item": hsmItemSize, "hsm_current_action": hsmActionSize,
		"changelog_rec": changeSize, "changelog_ext_rename": renameSize, "changelog_ext_jobid": jobSize, "changelog_ext_extra_flags": extraSize,
		"changelog_ext_uidgid": ownerSize, "changelog_ext_nid": nidSize, "changelog_ext_openmode": openModeSize, "changelog_ext_xattr": xattrNameSize,
	}
	for _, version := range []string{"abi-2.15.8.txt", "abi-2.17.0.txt", "abi-master-2.17.57.txt"} {
		compiled := numbers(t, version)
		for name, want := range ioctls {
			if got := compiled["ioctl "+name]; got != want {
				t.Errorf("%s: %s is %#x; here %#x", version, name, got, want)
			}
		}
		for name, want := range sizes {
			if got := compiled["sizeof struct "+name]; got != want {
				t.Errorf("%s: %s has %d bytes; here %d", version, name, got, want)
			}
		}
	}
}

// numbers reads what a compiler said of the headers of one version: sizes and numbers of
// requests by name.
func numbers(t *testing.T, version string) map[string]uint64 {
	values := make(map[string]uint64)
	text, err := os.ReadFile(filepath.Join("testdata", version))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 3 {
			continue
		}
		if n, err := strconv.ParseUint(words[len(words)-1], 0, 64); err == nil {
			values[strings.Join(words[:len(words)-1], " ")] = n
		}
	}
	return values
}
