package burst

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// Observed is what AWS shows of something that may be ours, and what else is known of it.
type Observed struct {
	ID    string
	Kind  string // FileSystemSight or InstanceSight
	State string // as AWS says
	Tags  map[string]string
	Since time.Time // that it is there
	Type  string    // of an instance

	Activity *Activity // nil is not known
	Pending  int       // data repository tasks that have not ended
	Leases   []string  // the holders that need it
}

// The kinds of what is looked at.
const (
	FileSystemSight = "file system"
	InstanceSight   = "instance"
)

// Activity is what clients did, as CloudWatch has it.
type Activity struct {
	From    time.Time     // the time that was looked at begins
	Last    time.Time     // something was read or written, or computed; zero is nothing since From
	Written time.Time     // something was written; zero is nothing since From
	Queued  time.Duration // how old the oldest change is that waits for its automatic export
}

// Figure is what one of CloudWatch covers. Times of an [Activity] are the ends of figures.
const Figure = time.Minute

// DefaultSettle is how long it takes until CloudWatch has told of what clients did.
const DefaultSettle = 15 * time.Minute

// Verdict is what is to happen to what was seen.
type Verdict struct {
	Sight Observed
	Burst Name // "" is not known
	Take  bool // it may go
	Ours  bool // our tag and our ledger know it
	Why   string
}

// Judge says of everything that was seen whether it may be taken away: what is ours by its tag and by a record that has its ID, without I/O of a client for as long as its burst says, with
// no lease, no task, and nothing that is not exported, home and verified. In doubt it stays. records are by ID.
func Judge(all []Observed, records map[string]*Record, now time.Time) []Verdict {
	verdicts := make([]Verdict, 0, len(all))
	for _, s := range all {
		v := Verdict{Sight: s}
		v.Take, v.Ours, v.Burst, v.Why = judge(&s, records[s.Tags[TagBurst]], now)
		verdicts = append(verdicts, v)
	}
	return verdicts
}

func judge(s *Observed, r *Record, now time.Time) (take, ours bool, name Name, why string) {
	tag := s.Tags[TagBurst]
	switch {
	case tag == "":
		return false, false, "", "it has no tag of ours"
	case r == nil || r.ID != tag:
		return false, false, "", "its tag names a burst of which no record is here: another service's, or its ledger is lost; a person has to look"
	}
	b, err := r.Burst()
	if err != nil {
		return false, false, "", err.Error()
	}
	name = b.Metadata.Name
	if s.Kind == FileSystemSight && (r.FileSystem == nil || r.FileSystem.ID != s.ID) {
		return false, false, name, "its tag is that of a burst whose record has another file system"
	}
	if why := busy(s, b, now); why != "" {
		return false, true, name, why
	}
	if s.Kind == FileSystemSight {
		seen := *s.Activity
		if !seen.Written.IsZero() {
			seen.Written = seen.Written.Add(-Figure) // it may have been before that came home; the step that takes it down exports once more, and looks again
		}
		if missing := r.Missing(b, &seen); len(missing) > 0 {
			return false, true, name, "not home and verified: " + strings.Join(missing, ", ")
		}
	}
	return true, true, name, "no client did anything for " + units.Duration(now.Sub(later(s.Activity.Last, s.Activity.From)))
}

// standing are the states in which something is only there: neither is it being made, nor does it go.
var standing = map[string][]string{
	FileSystemSight: {"AVAILABLE", "FAILED", "MISCONFIGURED", "MISCONFIGURED_UNAVAILABLE"},
	InstanceSight:   {"running"},
}

// busy is why something is needed, or may be; "" is that it is idle.
func busy(s *Observed, b *Burst, now time.Time) string {
	idle := b.Spec.Idles()
	switch a := s.Activity; {
	case !slices.Contains(standing[s.Kind], s.State):
		return "it is " + s.State
	case len(s.Leases) > 0:
		return "it is held by " + strings.Join(s.Leases, ", ")
	case s.Pending > 0:
		return units.Plural(int64(s.Pending), "task of it has not ended", "tasks of it have not ended")
	case now.Sub(s.Since) < idle:
		return fmt.Sprintf("it is there since %s, less than %s", units.Duration(now.Sub(s.Since)), units.Duration(idle))
	case a == nil:
		return "what its clients do is not known"
	case a.Queued > 0:
		return fmt.Sprintf("a change waits for its export since %s", units.Duration(a.Queued))
	case now.Sub(later(a.Last, a.From)) < idle:
		return fmt.Sprintf("a client did something %s ago, and it is idle after %s", units.Duration(now.Sub(later(a.Last, a.From))), units.Duration(idle))
	}
	return ""
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Missing names what would be lost with what is in AWS: directories that did not come home whole and verified, or were written to after that. What was abandoned by name is not missing.
// activity is what the clients of its file system did; nil is not known, and not asked where there is no file system.
func (r *Record) Missing(b *Burst, activity *Activity) (all []string) {
	for _, h := range b.Homeward() {
		if r.GaveUp(h.Path, "") {
			continue
		}
		if why := r.missing(h.Path, activity); why != "" {
			all = append(all, fmt.Sprintf("%s (%s)", h.Path, why))
		}
	}
	return all
}

func (r *Record) missing(path Path, activity *Activity) string {
	home := r.CameHome(path)
	made := r.FileSystem != nil && r.FileSystem.ID != "" && !r.FileSystem.Gone
	switch {
	case r.Ready.IsZero():
		return "" // no job ever ran
	case home == nil:
		return "it never came home"
	case len(r.left(home)) > 0:
		return "it came home, and not all of it: " + strings.Join(r.left(home), "; ")
	case !made:
		return ""
	case activity == nil:
		return "what was written since it came home is not known"
	case activity.From.After(home.At):
		return "what was written since it came home is not known"
	case activity.Written.After(home.At):
		return fmt.Sprintf("clients wrote to the file system %s after it began to come home", units.Duration(activity.Written.Sub(home.At)))
	}
	return ""
}

// left is what of a directory did not come home, and was not given up.
func (r *Record) left(h *Homecame) (all []string) {
	if !h.Verified && len(h.Left) == 0 {
		return []string{"it was not verified"}
	}
	for _, why := range h.Left {
		if name := LeftName(why); name == "" || !r.GaveUp(h.Path, name) {
			all = append(all, why)
		}
	}
	return all
}

// Left is a line of what did not come, as Homecame.Left has it: a name, which is quoted where it is no plain word, and why.
func Left(name, why string) string {
	if mover.Printable(name) != name || strings.ContainsAny(name, `:"`) {
		name = strconv.Quote(name)
	}
	return name + ": " + why
}

// LeftName is the name in a line of Left; "" is that it has none.
func LeftName(line string) string {
	if quoted, err := strconv.QuotedPrefix(line); err == nil && line[0] == '"' { // and in no other quotes
		name, _ := strconv.Unquote(quoted) // which it is
		return name
	}
	name, _, _ := strings.Cut(line, ":")
	return name
}
