package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/units"
)

// parsed is a flag with a text that a function reads.
type parsed[T any] struct {
	dst   *T
	parse func(string) (T, error)
	text  string
	kind  string
}

func (p *parsed[T]) String() string { return p.text }
func (p *parsed[T]) Type() string   { return p.kind }

func (p *parsed[T]) Set(s string) error {
	v, err := p.parse(s)
	if err != nil {
		return err
	}
	*p.dst, p.text = v, s
	return nil
}

// parsedVar adds a flag that parse reads. The word in backquotes in help names its value.
func parsedVar[T any](flags *pflag.FlagSet, dst *T, name string, parse func(string) (T, error), help string) {
	flags.Var(&parsed[T]{dst: dst, parse: parse, kind: "value"}, name, help)
}

// choice is one word of a flag, and what it means.
type choice[T any] struct {
	word  string
	value T
}

// chosen is a flag that takes one of a few words.
type chosen[T any] struct {
	dst     *T
	choices []choice[T]
	text    string
}

func (c *chosen[T]) String() string { return c.text }
func (c *chosen[T]) Type() string   { return "word" }

func (c *chosen[T]) Set(s string) error {
	for _, one := range c.choices {
		if one.word == s {
			*c.dst, c.text = one.value, s
			return nil
		}
	}
	return fmt.Errorf("must be one of %s", strings.Join(c.words(), ", "))
}

func (c *chosen[T]) words() []string {
	words := make([]string, len(c.choices))
	for i, one := range c.choices {
		words[i] = one.word
	}
	return words
}

var (
	reflinkChoices = []choice[engine.Reflink]{{"auto", engine.ReflinkAuto}, {"never", engine.ReflinkNever}}
	releaseChoices = []choice[engine.Released]{{"restore", engine.ReleasedRestore}, {"skip", engine.ReleasedSkip}, {"fail", engine.ReleasedFail}}
	onFullChoices  = []choice[engine.OnNoSpace]{{"wait", engine.NoSpaceWait}, {"fail", engine.NoSpaceFail}}
	levelChoices   = []choice[mover.Level]{{"written", mover.Written}, {"server", mover.Server}, {"read", mover.Read}}
)

// parseMaxDelete reads N or N%.
func parseMaxDelete(s string) (engine.MaxDelete, error) {
	if number, ok := strings.CutSuffix(s, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return engine.MaxDelete{}, fmt.Errorf("want a percentage from 0%% to 100%%")
		}
		return engine.MaxDelete{Set: true, Percent: percent}, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return engine.MaxDelete{}, fmt.Errorf("want a number of entries, or a percentage like 5%%")
	}
	return engine.MaxDelete{Set: true, Entries: n}, nil
}

// facts are the words of --preserve.
var facts = map[string]mover.Facts{
	"all":    0,
	"none":   mover.FactCRC, // what the content alone has
	"mode":   mover.FactMode,
	"owner":  mover.FactOwner,
	"group":  mover.FactGroup,
	"mtime":  mover.FactMtime,
	"atime":  mover.FactAtime,
	"times":  mover.FactMtime | mover.FactAtime,
	"xattrs": mover.FactXattrs,
	"acls":   mover.FactXattrs, // POSIX ACLs are extended attributes
	"links":  mover.FactLinks,
	"holes":  mover.FactHoles,

	"headers":  mover.FactHeaders, // of objects, as what follows
	"metadata": mover.FactMetadata,
	"tags":     mover.FactTags,
	"class":    mover.FactClass,

	"layout": mover.FactLayout, // these two with all others, unless some of them are named

	"privileges": mover.FactPrivileges,
}

// parsePreserve reads a list of facts. 0 is all of them.
func parsePreserve(s string) (mover.Facts, error) {
	var set mover.Facts
	all := false
	for name := range strings.SplitSeq(s, ",") {
		f, ok := facts[strings.TrimSpace(name)]
		if !ok {
			return 0, fmt.Errorf("%q is not one of mode, owner, group, mtime, atime, times, xattrs, acls, links, holes, headers, metadata, tags, class, layout, privileges, all, none", name)
		}
		all = all || f == 0
		set |= f
	}
	beside := set & (mover.FactLayout | mover.FactPrivileges)
	switch {
	case all && beside == 0:
		return 0, nil
	case all, set == beside:
		return mover.AllFacts | beside, nil
	}
	return set, nil
}

// parseJobs reads a number of calls in flight; 0 finds a good one.
func parseJobs(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 4096 {
		return 0, fmt.Errorf("want a number from 1 to 4096, or 0 to find a good one")
	}
	return n, nil
}

// minMemory is what one part of each of a few workers takes.
const minMemory = 16 << 20

func parseMemory(s string) (int64, error) {
	n, err := units.ParseBytes(s)
	if err == nil && n < minMemory {
		err = fmt.Errorf("want %s at least", units.Bytes(minMemory))
	}
	return n, err
}
