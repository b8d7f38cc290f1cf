package directive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// version is that of the record; a later one means something that is not known here.
const version = 1

type record struct {
	Version  int             `json:"version"`
	Requests []requestRecord `json:"requests,omitempty"`
	Scratch  []scratchRecord `json:"scratch,omitempty"`
}

type requestRecord struct {
	Verb     Verb     `json:"verb"`
	From     string   `json:"from"`
	To       []string `json:"to,omitempty"`
	Required bool     `json:"required,omitempty"`
	Shared   bool     `json:"shared,omitempty"`
	When     When     `json:"when,omitempty"`
	Profile  Profile  `json:"profile,omitempty"`
	Keep     int      `json:"keep,omitempty"`
}

type scratchRecord struct {
	Tier    string `json:"tier"`
	Type    string `json:"type"`
	Striped bool   `json:"striped,omitempty"`
	Private bool   `json:"private,omitempty"`
	Name    string `json:"name,omitempty"`
	Bytes   int64  `json:"bytes"`
}

// MarshalJSON writes the record of a job.
func (j Job) MarshalJSON() ([]byte, error) {
	r := record{Version: version}
	for _, q := range j.Requests {
		out := requestRecord{q.Verb, q.From.String(), nil, q.Required, q.Shared, q.When, q.Profile, q.Keep}
		for _, l := range q.To {
			out.To = append(out.To, l.String())
		}
		r.Requests = append(r.Requests, out)
	}
	for _, s := range j.Scratch {
		r.Scratch = append(r.Scratch, scratchRecord(s))
	}
	return json.Marshal(r)
}

// UnmarshalJSON reads the record of a job. One of a version that is not known is mover.ErrUnsupported;
// one that says what no directive says is mover.ErrUsage. The tiers are not looked at: see [Job.Check].
func (j *Job) UnmarshalJSON(text []byte) error {
	var v struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return broken(err.Error())
	}
	if v.Version != version {
		return fmt.Errorf("record of a job's directives: %w: it has version %d, and known is %d; a newer datamove reads it", mover.ErrUnsupported, v.Version, version)
	}
	var r record
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return broken(err.Error())
	}
	if len(r.Requests)+len(r.Scratch) > RequestsMost {
		return broken(fmt.Sprintf("it has more than %d requests", RequestsMost))
	}
	read := Job{}
	for _, in := range r.Requests {
		q, err := in.request()
		if err != nil {
			return err
		}
		read.Requests = append(read.Requests, q)
	}
	for _, in := range r.Scratch {
		if s := Scratch(in); !s.valid() {
			return broken("it asks for space that no directive asks for")
		}
		read.Scratch = append(read.Scratch, Scratch(in))
	}
	*j = read
	return nil
}

func broken(what string) error {
	return fmt.Errorf("record of a job's directives: %w: %s", mover.ErrUsage, what)
}

// request makes the request of a record, if it is one that a directive may ask for.
func (in requestRecord) request() (Request, error) {
	q := Request{in.Verb, location.Location{}, nil, in.Required, in.Shared, in.When, in.Profile, in.Keep}
	var what string
	if q.From, what, _ = parseLocation(in.From, false); what != "" {
		return q, broken(what)
	}
	for _, text := range in.To {
		to, what, _ := parseLocation(text, q.Verb == StageOut || q.Verb == Checkpoint)
		if what == "" && q.Verb == Checkpoint && strings.Contains(to.String(), ",") {
			what = hasComma
		}
		if what != "" {
			return q, broken(what)
		}
		q.To = append(q.To, to)
	}
	if !q.valid() {
		return q, broken("it asks for what no directive asks for")
	}
	return q, nil
}

// valid reports whether a request has what its verb has, and no more.
func (r Request) valid() bool {
	when := r.When == Always || r.When == Success
	in, checkpoint := r.Required || r.Shared, r.Profile != "" || r.Keep != 0
	if len(r.String()) > LineMost {
		return false
	}
	switch r.Verb {
	case StageIn:
		return len(r.To) == 1 && r.When == "" && !checkpoint
	case StageOut:
		return len(r.To) == 1 && when && !in && !checkpoint
	case Checkpoint:
		return len(r.To) > 0 && r.When == "" && !in && slices.Contains(Profiles, r.Profile) && (r.Keep == 0 || validKeep(r.Keep))
	case Purge:
		return len(r.To) == 0 && when && !in && !checkpoint
	}
	return false
}

// valid reports whether a line may ask for the space.
func (s Scratch) valid() bool {
	ofScratch := s.Striped || s.Private
	switch s.Type {
	case "scratch":
		return validName(s.Tier) && s.Bytes > 0 && ofScratch && (s.Name == "" || validName(s.Name))
	case "xfs", "gfs2", "lustre":
		return validName(s.Tier) && s.Bytes > 0 && !ofScratch && validName(s.Name)
	}
	return false
}
