package lustre

import "testing"

// What Lustre 2.17 wrote while a file was archived, released, restored, its copy removed,
// and while files lost a name.
func TestChangeFlags(t *testing.T) {
	t.Parallel()
	for flags, want := range map[uint16]struct {
		event HSMEvent
		dirty bool
	}{
		0x000: {HSMArchived, false}, 0x080: {HSMRestored, false}, 0x180: {HSMReleased, false}, 0x280: {HSMStateChanged, false},
		0x600: {HSMRemoved, true}, 0x680: {HSMStateChanged, true},
	} {
		c := Change{Type: ChangeHSM, Flags: flags}
		if event, errno, dirty := c.HSM(); event != want.event || errno != 0 || dirty != want.dirty {
			t.Errorf("%#x: event %d, errno %d, dirty %v; want %+v", flags, event, errno, dirty, want)
		}
	}
	failed := Change{Type: ChangeHSM, Flags: 0x080 | 5}
	if event, errno, _ := failed.HSM(); event != HSMRestored || errno != 5 {
		t.Errorf("a restore that failed: event %d, errno %d", event, errno)
	}
	for _, c := range []struct {
		change        Change
		last, archive bool
		off           bool
	}{
		{Change{Type: ChangeUnlink}, false, false, false}, // it has another name
		{Change{Type: ChangeUnlink, Flags: 1}, true, false, false},
		{Change{Type: ChangeUnlink, Flags: 3}, true, true, false},
		{Change{Type: ChangeRename, Flags: 3}, true, true, false},
		{Change{Type: ChangeClose, Flags: 3}, false, false, false}, // flags of an open
		{Change{Type: ChangeMark, Marker: 0x10001}, false, false, false},
		{Change{Type: ChangeMark, Marker: 0x20001}, false, false, true},
		{Change{Type: ChangeCreate, Marker: 0x20001}, false, false, false},
	} {
		if c.change.LastName() != c.last || c.change.LeftInArchive() != c.archive || c.change.LogTurnedOff() != c.off {
			t.Errorf("%+v: last name %v, left in archive %v, log off %v", c.change, c.change.LastName(), c.change.LeftInArchive(), c.change.LogTurnedOff())
		}
	}
}
