package directive

import (
	"fmt"
	"strconv"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/mover/units"
)

// String prints the words of a request as they stand in a directive.
func (r Request) String() string {
	words := []string{string(r.Verb) + "=" + quote(r.From.String())}
	if len(r.To) > 0 {
		var to []string
		for _, l := range r.To {
			to = append(to, l.String())
		}
		words = append(words, "to="+quote(strings.Join(to, ",")))
	}
	if r.Required {
		words = append(words, "required")
	}
	if r.Shared {
		words = append(words, "shared")
	}
	if r.When == Success {
		words = append(words, "when="+string(r.When))
	}
	if r.Verb == Checkpoint && r.Profile != Plain {
		words = append(words, "profile="+string(r.Profile))
	}
	if r.Keep > 0 {
		words = append(words, "keep="+strconv.Itoa(r.Keep))
	}
	return strings.Join(words, " ")
}

// String prints the words of a line that asks for space.
func (s Scratch) String() string {
	text := "jobdw type=" + s.Type
	switch {
	case s.Striped && s.Private:
		text += " access_mode=striped,private"
	case s.Private:
		text += " access_mode=private"
	}
	text += " capacity=" + capacity(s.Bytes)
	if s.Name != "" {
		text += " name=" + s.Name
	}
	return text
}

// String prints a job as lines of a script, which Parse reads back as the same.
func (j Job) String() string {
	var b strings.Builder
	for _, r := range j.Requests {
		b.WriteString(ours + " " + r.String() + "\n")
	}
	if len(j.Scratch) > 0 {
		b.WriteString(ours + " dw\n")
	}
	for _, s := range j.Scratch {
		b.WriteString(cray + " " + s.String() + "\n")
	}
	return b.String()
}

// Summary tells people what a job asks for, one line for each.
func (j Job) Summary() []string {
	var lines []string
	for _, s := range j.Scratch {
		lines = append(lines, s.summary())
	}
	for _, r := range j.Requests {
		lines = append(lines, r.Summary())
	}
	return lines
}

// Summary tells people what is asked for.
func (r Request) Summary() string {
	var to []string
	for _, l := range r.To {
		to = append(to, spoken(l))
	}
	text, targets, details := "", strings.Join(to, " and "), ""
	switch r.Verb {
	case StageIn:
		text = "stage in " + spoken(r.From) + " to " + targets
		switch {
		case r.Required && r.Shared:
			details = "required, shared"
		case r.Required:
			details = "required"
		case r.Shared:
			details = "shared"
		}
	case StageOut:
		text, details = "stage out "+spoken(r.From)+" to "+targets, r.When.spoken()
	case Checkpoint:
		text, details = "copy checkpoints of "+spoken(r.From)+" to "+targets, string(r.Profile)
		if r.Keep > 0 {
			details += fmt.Sprintf(", the last %d of them stay", r.Keep)
		}
	case Purge:
		text, details = "purge "+spoken(r.From)+" at the end", r.When.spoken()
	}
	if details == "" {
		return text
	}
	return text + " (" + details + ")"
}

func (w When) spoken() string {
	if w == Success {
		return "if the job succeeds"
	}
	return ""
}

func (s Scratch) summary() string {
	var names []string
	for _, v := range s.Variables() {
		names = append(names, "$"+v.Name)
	}
	text := units.Bytes(s.Bytes) + " on each node as " + strings.Join(names, " and ")
	if s.Shared() {
		text += " (seen by its node only)"
	}
	return text
}

// spoken prints a location for people: of a digest the beginning is enough.
func spoken(l location.Location) string {
	if len(l.Digest) > 12 {
		return "dataset:" + l.Name + "@" + l.Digest[:12]
	}
	return mover.Printable(l.String())
}
