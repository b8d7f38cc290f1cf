package client

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"datamove.dev/lustre"
)

// errPrinted is for what a program printed and is not understood.
var errPrinted = errors.New("what lfs printed is not understood")

func notUnderstood(line string) error { return fmt.Errorf("%w: %q", errPrinted, line) }

// getstripe reads what lfs getstripe -y prints: lines "key: value", where a '-' begins a
// component or an object. Keys of a directory's default lack their lmm_.
type getstripe struct {
	layout    lustre.Layout
	component *lustre.Component
	object    *lustre.Object
	inherited bool
}

func parseGetstripe(text string) (lustre.Layout, error) {
	var g getstripe
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue // an empty line
		}
		begins := strings.HasPrefix(key, "- ")
		key, value = strings.TrimSpace(strings.TrimPrefix(key, "- ")), strings.TrimSpace(value)
		if err := g.line(begins, key, value); err != nil {
			return lustre.Layout{}, err
		}
	}
	switch {
	case g.inherited: // the file system's, with no pattern of its own
		return lustre.Layout{}, lustre.ErrInherited
	case g.layout.Foreign == nil && len(g.layout.Components) == 0:
		return lustre.Layout{}, notUnderstood(text[:min(len(text), 80)])
	}
	g.states()
	return g.layout, nil
}

// states says how mirrors are, as far as the components tell.
func (g *getstripe) states() {
	if g.layout.Mirrors < 2 {
		return
	}
	g.layout.Mirrored = lustre.ReadOnly
	for i := range g.layout.Components {
		if g.layout.Components[i].Flags.Has(lustre.Stale) {
			g.layout.Mirrored = lustre.WritePending
		}
	}
}

func (g *getstripe) begin(end int64) {
	g.layout.Components = append(g.layout.Components, lustre.Component{End: end, FirstTarget: lustre.AnyTarget})
	g.component = &g.layout.Components[len(g.layout.Components)-1]
}

func (g *getstripe) line(begins bool, key, value string) error {
	key = strings.TrimPrefix(key, "lmm_")
	var err error
	switch key {
	case "lcm_layout_gen":
		g.layout.Generation = uint32(number(value, &err))
		return err
	case "lcm_mirror_count":
		g.layout.Mirrors = int(max(number(value, &err), 1))
		return err
	case "lfm_value":
		value = strings.TrimSuffix(strings.TrimPrefix(value, "'"), "'")
		g.layout.Foreign = &lustre.Foreign{Value: []byte(value)}
		return nil
	case "lcme_id":
		if len(g.layout.Components) >= maxPrintedComponents {
			return notUnderstood(key)
		}
		g.begin(lustre.EOF)
		g.component.ID = uint32(number(value, &err))
		return err
	case "stripe_count":
		if g.component == nil && !begins {
			g.begin(lustre.EOF)
		}
	}
	if g.component == nil {
		return nil // of the head
	}
	return g.ofComponent(begins, key, value)
}

const maxPrintedComponents = 1000

func (g *getstripe) ofComponent(begins bool, key, value string) (err error) {
	c := g.component
	switch key {
	case "lcme_flags":
		c.Flags |= printedFlags(value)
	case "lcme_extent.e_start":
		c.Start = number(value, &err)
	case "lcme_extent.e_end":
		c.End = number(value, &err)
	case "stripe_count":
		c.StripeCount = int(number(value, &err))
		if c.Flags.Has(lustre.Extension) && c.StripeCount == 0 { // 2.17.57 prints that it has none of its own; the kernel says 1, as others print
			c.StripeCount = 1
		}
	case "stripe_size", "extension_size":
		c.StripeBytes = number(value, &err)
	case "pattern":
		g.pattern(value)
	case "layout_gen":
		c.Stored.Generation, c.Stored.HasGeneration = uint16(number(value, &err)), true
	case "pool":
		c.Pool = value
	case "l_ost_idx":
		if begins && len(c.Objects) < lustre.MaxStripes {
			c.Objects = append(c.Objects, lustre.Object{Target: int(number(value, &err))})
			g.object = &c.Objects[len(c.Objects)-1]
		}
	case "l_fid":
		if g.object == nil {
			return notUnderstood(key + ": " + value)
		}
		g.object.FID, err = lustre.ParseFID(value)
	}
	return err
}

func (g *getstripe) pattern(value string) {
	if value == "" || strings.Contains(value, "unknown") {
		g.inherited = true
		return
	}
	for word := range strings.SplitSeq(value, ",") {
		switch word {
		case "raid0":
			g.component.Pattern |= lustre.RAID0
		case "mdt":
			g.component.Pattern |= lustre.OnMDT
		case "overstriped":
			g.component.Pattern |= lustre.Overstriped
		case "released":
			g.component.Flags |= lustre.Released
		}
	}
}

var flagWords = map[string]lustre.Flags{"init": lustre.Initialised, "stale": lustre.Stale, "prefrd": lustre.PreferRead, "prefwr": lustre.PreferWrite,
	"offline": lustre.Offline, "nosync": lustre.NoSync, "extension": lustre.Extension, "parity": lustre.Parity}

func printedFlags(value string) (flags lustre.Flags) {
	for word := range strings.SplitSeq(value, ",") {
		flags |= flagWords[word]
	}
	return flags
}

// number reads a value; EOF is the end of a file, N/A nothing.
func number(value string, err *error) int64 {
	switch value {
	case "EOF":
		return lustre.EOF
	case "N/A":
		return 0
	}
	n, bad := strconv.ParseInt(value, 10, 64)
	if bad != nil && *err == nil {
		*err = notUnderstood(value)
	}
	return n
}

// parseQuota reads the line of lfs quota -q: mount, KiB, soft, hard, grace, files, soft,
// hard, grace. A long mount stands on a line of its own.
func parseQuota(text string, now time.Time) (lustre.Quota, error) {
	fields := strings.Fields(text)
	if len(fields) < 9 {
		return lustre.Quota{}, notUnderstood(text[:min(len(text), 80)])
	}
	fields = fields[len(fields)-8:]
	var err error
	of := func(i int) int64 {
		n := number(strings.TrimSuffix(fields[i], "*"), &err) // '*' is over the soft limit
		if n < 0 {
			err = notUnderstood(fields[i])
		}
		return n
	}
	bytes := func(i int) int64 {
		kib := of(i)
		if kib > lustre.EOF>>10 {
			return lustre.EOF
		}
		return kib << 10
	}
	q := lustre.Quota{CountsFiles: true, HasSoft: true, UsedBytes: bytes(0), UsedFiles: of(4)}
	q.Limits = lustre.Limits{SoftBytes: bytes(1), HardBytes: bytes(2), SoftFiles: of(5), HardFiles: of(6)}
	q.BytesUntil, q.FilesUntil = grace(fields[3], now), grace(fields[7], now)
	return q, err
}

// grace is when a time like 6d23h59m59s is over; zero for "-".
func grace(text string, now time.Time) time.Time {
	if text == "none" || text == "expired" {
		return now
	}
	var total, n time.Duration
	units := map[rune]time.Duration{'w': 7 * 24 * time.Hour, 'd': 24 * time.Hour, 'h': time.Hour, 'm': time.Minute, 's': time.Second}
	for _, r := range text {
		unit, isUnit := units[r]
		switch {
		case r >= '0' && r <= '9' && n < 1e6:
			n = n*10 + time.Duration(r-'0')
		case isUnit:
			total, n = total+n*unit, 0
		default:
			return time.Time{}
		}
	}
	if total == 0 {
		return time.Time{}
	}
	return now.Add(total)
}

// parseDF reads lfs df and lfs df -i: name, total, used, free, per cent, where[KIND:index].
func parseDF(sizes, inodes, fsname string) ([]lustre.Target, error) {
	var targets []lustre.Target
	at := map[string]int{}
	for line := range strings.Lines(sizes) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		kind, index, ok := parseTarget(fields[0], fsname)
		if !ok {
			continue // headings, sums
		}
		t := lustre.Target{Kind: kind, Index: index, Name: fields[0]}
		if total, free, err := dfNumbers(fields); err != nil {
			t.Inactive = strings.TrimSpace(strings.TrimPrefix(line, fields[0]))
		} else {
			t.TotalBytes, t.FreeBytes = total<<10, free<<10
		}
		at[t.Name] = len(targets)
		targets = append(targets, t)
	}
	for line := range strings.Lines(inodes) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		i, known := at[fields[0]]
		if total, free, err := dfNumbers(fields); known && err == nil {
			targets[i].TotalFiles, targets[i].FreeFiles = total, free
		}
	}
	if len(targets) == 0 {
		return nil, notUnderstood(sizes[:min(len(sizes), 80)])
	}
	return targets, nil
}

func dfNumbers(fields []string) (total, free int64, err error) {
	if len(fields) < 5 {
		return 0, 0, notUnderstood(strings.Join(fields, " "))
	}
	total, free = number(fields[1], &err), number(fields[3], &err)
	if total < 0 || free < 0 || total > lustre.EOF>>10 || free > lustre.EOF>>10 {
		err = notUnderstood(strings.Join(fields, " "))
	}
	return total, free, err
}
