package uapi

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// fixture is one of the files in testdata, without ".bin".
func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("testdata", name+".bin")))(t)
	return b
}

// layouts are the names of all fixtures that are layouts.
func layouts(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"lov-*.bin", "lfs-xattr-*.bin"} {
		found, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %d files", pattern, err, len(found))
		}
		for _, path := range found {
			names = append(names, strings.TrimSuffix(filepath.Base(path), ".bin"))
		}
	}
	return names
}

// decoders read what files of these names have, and write it again.
var decoders = map[string]func(b []byte) ([]byte, error){
	"lov-*": again(DecodeLayout, EncodeLayout), "lfs-xattr-*": again(DecodeLayout, EncodeLayout),
	"lmv-*":        again(DecodeStriping, func(s *lustre.Striping) ([]byte, error) { return EncodeStriping(s, MagicStripes) }),
	"obd_statfs-*": again(DecodeStatfs, (*Statfs).Encode),
	"if_quotactl-*": func(b []byte) ([]byte, error) { // which is read without the name of a pool
		q, err := DecodeQuotactl(b)
		if err != nil {
			return nil, err
		}
		whole, err := q.Encode()
		return whole[:sizeQuotactl], err
	},
	"hsm-user-state-*": again(DecodeHSMState, func(s *lustre.HSMState) ([]byte, error) { return EncodeHSMState(*s), nil }),
	"hsm-request-*":    again(DecodeHSMRequest, func(r *HSMRequest) ([]byte, error) { return EncodeHSMRequest(*r), nil }),
	"hsm-action-list":  again(decodeMessage, (*message).encode),
	"changelog-raw-*":  changesAgain,
	"trusted.link": again(func(b []byte) ([]Link, error) { links, _, err := DecodeLinks(b); return links, err },
		func(links *[]Link) ([]byte, error) { return EncodeLinks(*links) }),
}

func again[T any](decode func([]byte) (T, error), encode func(*T) ([]byte, error)) func([]byte) ([]byte, error) {
	return func(b []byte) ([]byte, error) {
		v, err := decode(b)
		if err != nil {
			return nil, err
		}
		return encode(&v)
	}
}

// message is what a copytool reads.
type message struct {
	head MessageHeader
	list ActionList
}

func decodeMessage(b []byte) (m message, err error) {
	if m.head, err = DecodeMessageHeader(b); err == nil {
		m.list, err = DecodeActionList(b[MessageHeaderSize:])
	}
	return m, err
}

func (m *message) encode() ([]byte, error) { return append(m.head.Encode(), m.list.Encode()...), nil }

// changesAgain writes the records that are whole: a log was read in pieces of one size.
func changesAgain(b []byte) (text []byte, err error) {
	for {
		c, size, err := DecodeChange(b)
		if err != nil {
			if len(text) == 0 || len(b) > 256 {
				return nil, err
			}
			return append(text, b...), nil
		}
		text, b = AppendChange(text, c, false), b[size:]
	}
}

// TestEveryFixture: each file that was taken from a Lustre has a decoder, and is written
// again as it was. What it says, other tests know.
func TestEveryFixture(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.bin")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	used := map[string]bool{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".bin")
		raw, decoded := fixture(t, name), 0
		for pattern, decode := range decoders {
			if is, _ := filepath.Match(pattern, name); !is {
				continue
			}
			decoded, used[pattern] = decoded+1, true
			if got, err := decode(raw); err != nil || !bytes.Equal(got, raw) {
				t.Errorf("%s: written again, %v:\n got %x\nwant %x", name, err, got, raw)
			}
		}
		if decoded != 1 {
			t.Errorf("%s: %d decoders", name, decoded)
		}
	}
	for pattern := range decoders {
		if !used[pattern] {
			t.Errorf("%s: there is no such fixture", pattern)
		}
	}
}
