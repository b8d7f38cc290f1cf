package task

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"datamove.dev/api"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/task/convert"
	"datamove.dev/mover/units"
)

// FilterFlags are the flags that say which names take part.
type FilterFlags struct {
	rules     []plan.Rule // of --include and --exclude, in the order of the command line
	filesFrom string
	null      bool
}

func (f *FilterFlags) Flags(flags *pflag.FlagSet) {
	flags.Var(&ruleFlag{&f.rules, true}, "include", "let names that match `GLOB` take part; the first of all --include and --exclude that matches decides")
	flags.Var(&ruleFlag{&f.rules, false}, "exclude", "leave names that match `GLOB` alone, on both sides")
	flags.StringVar(&f.filesFrom, "files-from", "", "only the names in `FILE`, one on a line, relative to SRC; - is stdin")
	flags.BoolVar(&f.null, "null", false, "the names of --files-from end in NUL bytes")
}

// ruleFlag is --include or --exclude. Both append to one list, because their order
// has a meaning.
type ruleFlag struct {
	rules   *[]plan.Rule
	include bool
}

func (r *ruleFlag) String() string { return "" }
func (r *ruleFlag) Type() string   { return "glob" }

func (r *ruleFlag) Set(pattern string) error {
	rule := plan.Rule{Include: r.include, Pattern: pattern}
	if _, err := plan.NewFilter([]plan.Rule{rule}, nil); err != nil {
		return err
	}
	*r.rules = append(*r.rules, rule)
	return nil
}

// Filter makes the filter; nil lets everything take part.
func (f *FilterFlags) Filter(stdin io.Reader) (*plan.Filter, error) {
	if f.null && f.filesFrom == "" {
		return nil, mover.Misusef("--null says how --files-from is read, which is not given")
	}
	if f.filesFrom == "" && len(f.rules) == 0 {
		return nil, nil
	}
	names, err := f.names(stdin)
	if err != nil {
		return nil, err
	}
	return plan.NewFilter(f.rules, names)
}

func (f *FilterFlags) names(stdin io.Reader) (*plan.Names, error) {
	if f.filesFrom == "" {
		return nil, nil
	}
	in, err := f.open(stdin)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return f.read(in)
}

// open opens the list of names.
func (f *FilterFlags) open(stdin io.Reader) (io.ReadCloser, error) {
	if f.filesFrom == "-" {
		return io.NopCloser(stdin), nil
	}
	file, err := os.Open(f.filesFrom)
	if err != nil {
		return nil, fmt.Errorf("--files-from: %w", err)
	}
	return file, nil
}

func (f *FilterFlags) read(in io.Reader) (*plan.Names, error) {
	if f.null {
		// ReadNames takes NUL for the end of names when it finds one early.
		in = io.MultiReader(strings.NewReader("\x00"), in)
	}
	names, err := plan.ReadNames(in)
	if err != nil {
		return nil, fmt.Errorf("--files-from %s: %w", f.filesFrom, err)
	}
	return names, nil
}

// list returns rules and names as a service takes them: checked, and in words.
func (f *FilterFlags) list(stdin io.Reader) ([]plan.Rule, []string, error) {
	if f.filesFrom == "" {
		_, err := f.Filter(stdin)
		return f.rules, nil, err
	}
	in, err := f.open(stdin)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, api.MaxMessageBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("--files-from %s: %w", f.filesFrom, err)
	}
	if len(text) > api.MaxMessageBytes {
		return nil, nil, cli.Advise(mover.Misusef("--files-from %s: a list of more than %s; a service takes at most %s in one task", mover.Printable(f.filesFrom), units.Bytes(api.MaxMessageBytes), units.Bytes(convert.MaxSpecBytes)), inSeveral)
	}
	if _, err := f.read(bytes.NewReader(text)); err != nil {
		return nil, nil, err
	}
	end := "\n"
	if f.null || bytes.IndexByte(text, 0) >= 0 {
		end = "\x00"
	}
	names := slices.DeleteFunc(strings.Split(string(text), end), func(name string) bool { return name == "" })
	if len(names) == 0 { // to a service no names are all names
		return nil, nil, mover.Misusef("--files-from %s has no names", f.filesFrom)
	}
	return f.rules, names, nil
}

// inSeveral is what to do about a request that is larger than a service takes.
const inSeveral = "several lists, one after the other, or --service none, to do it in this process"
