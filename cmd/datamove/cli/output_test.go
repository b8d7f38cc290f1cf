package cli

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func TestNamesThatAreNotText(t *testing.T) {
	for _, name := range []string{"plain", "täxt", "a\xffb", "\xfe"} {
		text := must.Get(json.Marshal(ViewName(name)))(t)
		var back NameView
		must.Do(t, json.Unmarshal(text, &back))
		got := back.Name
		if back.Name64 != nil {
			got = string(back.Name64)
		}
		if got != name {
			t.Errorf("%q became %s", name, text)
		}
	}
}

// broken is a stdout behind which the disk is full.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, mover.ErrFull }

//safety:9 a report that could not be written
func TestAFullDiskBehindStdoutIsNoticed(t *testing.T) {
	out := NewLines(broken{})
	out.Printf("%s", strings.Repeat("x", 100<<10))
	out.JSON(1)
	if err := out.Flush(); !errors.Is(err, mover.ErrFull) {
		t.Error(err)
	}
}
