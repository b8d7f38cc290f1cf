package files

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/task"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/units"
)

// commonFlags adds the flags of copy, sync and verify.
func commonFlags(t *task.Request, flags *pflag.FlagSet) {
	cli.FormatVar(flags, &t.Format, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML, cli.FormatName)
	t.Filter.Flags(flags)
	r := &t.Engine
	cli.ParsedVar(flags, &r.Jobs, "jobs", cli.ParseJobs, "keep `N` calls in flight; default 0 finds a good number")
	cli.ParsedVar(flags, &r.Bandwidth, "bwlimit", units.ParseRate, "move at most `RATE`, like 100MiB/s, 1GB or 10Gbit, without a unit bytes per second; 0 is no limit; with a service, on all nodes that work on it together")
	cli.ParsedVar(flags, &r.Memory, "memory", parseMemory, "use at most `SIZE` for buffers (default 128MiB)")
	cli.ParsedVar(flags, &r.Preserve, "preserve", parsePreserve,
		"compare and keep only these `FACTS`: mode,owner,group,mtime,atime,times,xattrs,acls,links,holes, of objects headers,metadata,tags,class, or none but the content (default all); beside all others, layout on file systems with stripes, and privileges from a bucket with trusted writers: setuid and setgid of files, attributes of security.* and trusted.*, devices")
	flags.BoolVarP(&r.Follow, "follow", "L", false, "copy what links in the source lead to, also outside of it")
	t.Service.Flags(flags)
}

// serviceHelp says of a command how it goes with a service.
const serviceHelp = `With a service, the work is done there, as you, and the command waits: it goes on
over restarts of the service, prints the same report and ends with the same code.
Single items are not sent to it: -v names none, and -o jsonl prints failures and
the report. ^C cancels the task, and what is done stays; with --detach it goes on
without you, see datamove task. A dry run is done in this process.`

// comparison is by what copy and sync compare files, as their flags say; none is the usual.
type comparison struct{ checksum, size bool }

// writeFlags adds the flags of copy and sync.
func writeFlags(t *task.Request, by *comparison, flags *pflag.FlagSet) {
	commonFlags(t, flags)
	r := &t.Engine
	flags.BoolVarP(&r.DryRun, "dry-run", "n", false, "say what would be done, and do nothing")
	flags.BoolVar(&by.checksum, "checksum", false, "compare contents instead of size and mtime")
	flags.BoolVar(&by.size, "size-only", false, "compare size alone: a file of equal size stays as it is, whatever its mtime and content; other facts are brought over, see --preserve")
	flags.BoolVar(&r.CopyAll, "again", false, "copy everything again, also what is equal")
	flags.Var(&cli.Chosen[mover.Level]{Dst: &r.Verify, Choices: levelChoices}, "verify", "check at `LEVEL` at least: written, server, or read (read the target again)")
	flags.Var(&cli.Chosen[engine.Reflink]{Dst: &r.Reflink, Choices: reflinkChoices}, "reflink", "`WHEN` to share blocks with the source: auto, where the file system can (default), or never")
	flags.Var(&cli.Chosen[engine.Released]{Dst: &r.Released, Choices: releaseChoices}, "released", "`WHAT` to do with files that have their content only in the archive of their file system: restore them first (default), skip, or fail")
	flags.Var(&cli.Chosen[engine.OnNoSpace]{Dst: &r.OnNoSpace, Choices: onFullChoices}, "full", "`WHAT` to do when the target is full: wait for room (default) or fail")
}

// request puts it into what is asked for.
func (by *comparison) request(r *engine.Request) error {
	switch {
	case by.checksum && by.size:
		return mover.Misusef("--checksum and --size-only exclude each other")
	case by.checksum:
		r.CompareBy = plan.ByContent
	case by.size:
		r.CompareBy = plan.BySize
	}
	return nil
}

var (
	reflinkChoices = []cli.Choice[engine.Reflink]{{Word: "auto", Value: engine.ReflinkAuto}, {Word: "never", Value: engine.ReflinkNever}}
	releaseChoices = []cli.Choice[engine.Released]{{Word: "restore", Value: engine.ReleasedRestore}, {Word: "skip", Value: engine.ReleasedSkip}, {Word: "fail", Value: engine.ReleasedFail}}
	onFullChoices  = []cli.Choice[engine.OnNoSpace]{{Word: "wait", Value: engine.NoSpaceWait}, {Word: "fail", Value: engine.NoSpaceFail}}
	levelChoices   = []cli.Choice[mover.Level]{{Word: "written", Value: mover.Written}, {Word: "server", Value: mover.Server}, {Word: "read", Value: mover.Read}}
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

// minMemory is what one part of each of a few workers takes.
const minMemory = 16 << 20

func parseMemory(s string) (int64, error) {
	n, err := units.ParseBytes(s)
	if err == nil && n < minMemory {
		err = fmt.Errorf("want %s at least", units.Bytes(minMemory))
	}
	return n, err
}
