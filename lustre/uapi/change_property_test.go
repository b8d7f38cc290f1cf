package uapi

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"datamove.dev/lustre"
	_ "datamove.dev/test/seed/property" // of rapid
)

// TestAnyChange: a record with any of the extensions, alone and together, is read as it was
// written, and of any beginning of it nothing is made up.
func TestAnyChange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		big := rapid.Bool().Draw(t, "big NIDs")
		want := drawChange(t, big)
		b := AppendChange(nil, want, big)
		got, size, err := DecodeChange(append(b, "the next record"...))
		if err != nil || got != want || size != len(b) {
			t.Fatalf("%d of %d bytes, %v\n got %+v\nwant %+v", size, len(b), err, got, want)
		}
		if _, _, err := DecodeChange(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")]); !errors.Is(err, ErrMalformed) {
			t.Fatalf("cut: %v", err)
		}
	})
}

func drawChange(t *rapid.T, big bool) lustre.Change {
	number := func(what string) uint32 { return rapid.Uint32().Draw(t, what) }
	text := func(what, chars string) string { return rapid.StringMatching(`[`+chars+`]{0,31}`).Draw(t, what) }
	const name = "a-z0-9 .\n\u00e9-"
	c := lustre.Change{
		Index: rapid.Uint64().Draw(t, "index"), Type: lustre.ChangeType(rapid.Byte().Draw(t, "type")), Flags: rapid.Uint16Range(0, changeOwnBits).Draw(t, "flags"),
		Time:   time.Unix(rapid.Int64Range(0, 1<<34-1).Draw(t, "seconds"), rapid.Int64Range(0, 1e9-1).Draw(t, "nanoseconds")).UTC(),
		Parent: drawFID(t), Name: "n" + text("name", name), Known: lustre.ChangeFacts(rapid.IntRange(0, 31).Draw(t, "known")),
	}
	if c.Type == lustre.ChangeMark {
		c.Marker = number("marker")
	} else {
		c.File = drawFID(t)
	}
	if rapid.Bool().Draw(t, "rename") {
		c.OldFile, c.OldParent = drawFID(t), drawFID(t)
		if rapid.Bool().Draw(t, "with the old name") {
			c.OldName = "o" + text("old name", name)
		}
	}
	if c.Known&lustre.KnowsOwner != 0 {
		c.UID, c.GID = number("uid"), number("gid")
	}
	if c.Known&lustre.KnowsJob != 0 {
		c.Job = text("job", "a-z.0-9")
	}
	if c.Known&lustre.KnowsOpenMode != 0 {
		c.OpenMode = number("mode")
	}
	if c.Known&lustre.KnowsXattr != 0 {
		c.Xattr = text("attribute", "a-z.")
	}
	if c.Known&lustre.KnowsClient != 0 {
		clients := []string{"", "10.0.0.7@tcp", "192.168.7.9@o2ib12", "7@kfi3", "0@lo", "7@<77:1>"}
		if big {
			clients = append(clients, "fd00::7@tcp1")
		}
		c.Client = rapid.SampledFrom(clients).Draw(t, "client")
	}
	return c
}
