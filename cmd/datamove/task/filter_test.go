package task

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// TestFilterKeepsTheOrder shows that the order across both flags is that of the
// command line.
func TestFilterKeepsTheOrder(t *testing.T) {
	var f FilterFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Flags(flags)
	must.Do(t, flags.Parse([]string{"--exclude", "tmp/", "--include=*.go", "--exclude", "*"}))
	var got []string
	for _, r := range f.rules {
		got = append(got, r.String())
	}
	if strings.Join(got, "; ") != "exclude tmp/; include *.go; exclude *" {
		t.Error(got)
	}
	filter, err := f.Filter(nil)
	if err != nil || !filter.Skip("a/tmp", mover.Dir) || filter.Skip("a/x.go", mover.File) || !filter.Skip("x.c", mover.File) {
		t.Errorf("%v", err)
	}
}

func TestFilesFromStdin(t *testing.T) {
	for _, row := range []struct {
		null bool
		text string
		name string
	}{
		{false, "a/b\nc\n", "a/b"},
		{true, "a\nb\x00c\x00", "a\nb"},
		{true, "a\nb", "a\nb"},
	} {
		f := FilterFlags{filesFrom: "-", null: row.null}
		filter, err := f.Filter(strings.NewReader(row.text))
		if err != nil || filter.Skip(row.name, mover.File) || !filter.Skip("other", mover.File) {
			t.Errorf("%q: %v", row.text, err)
		}
	}
	f := FilterFlags{filesFrom: "-"}
	if _, err := f.Filter(strings.NewReader("../x\n")); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("a name that leads out: %v", err)
	}
}
