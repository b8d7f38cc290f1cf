package uapi

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// A default for new directories, as it was read: one MDT, whichever, with one level that
// chooses in turn.
const lmvDefault = "d00cd30c01000000ffffffff000000000000000000010000000000000000000000000000000000000000000000000000"

func TestStriping(t *testing.T) {
	t.Parallel()
	preset := must.Get(hex.DecodeString(lmvDefault))(t)
	for _, tt := range []struct {
		name  string
		b     []byte
		magic uint32
		want  lustre.Striping
	}{
		{"a directory on two MDTs", fixture(t, "lmv-lmv2"), MagicStripes, lustre.Striping{Count: 2, Hash: lustre.FNV1a64, Shards: []lustre.Shard{
			{FID: fid("0x200000400:0x2:0x0"), MDT: 0}, {FID: fid("0x240000401:0x2:0x0"), MDT: 1}}}},
		{"a directory that something else keeps", append([]byte("\xd0\x0c\xd5\x0c\x20\x00\x00\x00\x05\xda\x00\x00\x01\x00\x00\x00"), strings.Repeat("daos:///", 4)...), MagicStripes,
			lustre.Striping{Foreign: &lustre.Foreign{Type: 0xda05, Flags: 1, Value: []byte(strings.Repeat("daos:///", 4))}}},
		{"a default", preset, MagicDefaultStripes, lustre.Striping{Count: 1, FirstMDT: lustre.AnyTarget, MaxRoundRR: 1}},
	} {
		got, err := DecodeStriping(tt.b)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", tt.name, err, got, tt.want)
		}
		if again, err := EncodeStriping(&got, tt.magic); err != nil || !bytes.Equal(again, tt.b) {
			t.Errorf("%s: written again, %v:\n got %x\nwant %x", tt.name, err, again, tt.b)
		}
		if roomy, err := DecodeStriping(append(append([]byte(nil), tt.b...), make([]byte, 99)...)); err != nil || !reflect.DeepEqual(roomy, tt.want) {
			t.Errorf("%s: in a larger buffer: %+v, %v", tt.name, roomy, err)
		}
	}
}

func TestMalformedStriping(t *testing.T) {
	t.Parallel()
	two := fixture(t, "lmv-lmv2")
	swapped := append([]byte(nil), two...)
	copy(swapped, []byte{0x0c, 0xd2, 0x0c, 0xd0})
	foreign := append([]byte("\xd0\x0c\xd5\x0c\xff\xff\xff\xff"), two[8:]...)
	many := append([]byte(nil), two...)
	le.PutUint32(many[4:], 1<<31-1)
	for name, b := range map[string][]byte{"nothing": nil, "a cut head": two[:47], "a cut shard": two[:95], "another order": swapped, "a count beyond all": many, "a foreign one longer than itself": foreign} {
		if s, err := DecodeStriping(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v; want malformed", name, s, err)
		}
	}
	if _, err := EncodeStriping(&lustre.Striping{Count: 1, MaxInherit: 256}, MagicDefaultStripes); err == nil {
		t.Error("a depth of 256 was written into a byte")
	}
	if n := NeededShards(AskStriping(MagicStripes, 7)); n != 7 {
		t.Errorf("asked with room for 7, read %d", n)
	}
}

func FuzzDecodeStriping(f *testing.F) {
	f.Add(fixture(f, "lmv-lmv2"))
	if b, err := hex.DecodeString(lmvDefault); err == nil {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeStriping(b)
		if err != nil || lustre.ValidPool(s.Pool) != nil {
			return
		}
		again, err := EncodeStriping(&s, le.Uint32(b))
		must.Do(t, err)
		again = append(again, make([]byte, max(0, SizeStriping-len(again)))...) // a buffer has room for a head
		if got, err := DecodeStriping(again); err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("%+v, written and read: %+v, %v", s, got, err)
		}
	})
}
