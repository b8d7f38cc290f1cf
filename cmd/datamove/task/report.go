package task

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/units"
)

const schemaReport = "datamove.report/v1"

// ReportView is a task's end as JSON.
type ReportView struct {
	Schema   string           `json:"schema"`
	Command  string           `json:"command"`
	Task     string           `json:"task,omitempty"` // of a service
	Source   string           `json:"source,omitempty"`
	Target   string           `json:"target"`
	Dataset  string           `json:"dataset,omitempty"` // name@digest that it made or moved
	DryRun   bool             `json:"dry_run,omitempty"`
	Exit     int              `json:"exit"`
	Error    string           `json:"error,omitempty"`
	Files    int64            `json:"files"`
	Bytes    int64            `json:"bytes"`
	Others   int64            `json:"others"`
	Updated  int64            `json:"updated"`
	Removed  int64            `json:"removed"`
	Kept     int64            `json:"kept"`
	Failed   int64            `json:"failed"`
	Levels   map[string]int64 `json:"levels,omitempty"`
	Seconds  float64          `json:"seconds"`
	Planned  *totalsView      `json:"planned,omitempty"`
	Failures []ItemView       `json:"failures,omitempty"` // the first ones; Failed counts all
	Notes    []string         `json:"notes,omitempty"`
}

// totalsView is the sum of a plan as JSON.
type totalsView struct {
	Files        int64 `json:"files"`
	Bytes        int64 `json:"bytes"`
	Dirs         int64 `json:"dirs"`
	Others       int64 `json:"others"`
	Links        int64 `json:"links"`
	Updates      int64 `json:"updates"`
	Compares     int64 `json:"compares"`
	CompareBytes int64 `json:"compare_bytes"`
	Removes      int64 `json:"removes"`
	RemoveBytes  int64 `json:"remove_bytes"`
	Conflicts    int64 `json:"conflicts"`
}

func viewTotals(t plan.Totals) *totalsView {
	return &totalsView{t.Files, t.Bytes, t.Dirs, t.Others, t.Links, t.Updates, t.Compares, t.CompareBytes,
		t.Removes, t.RemoveBytes, t.Conflicts}
}

// ItemView is what became of one entry, as JSON.
type ItemView struct {
	Schema string `json:"schema,omitempty"`
	cli.NameView
	Op    string `json:"op"`
	Kind  string `json:"kind,omitempty"`
	Bytes int64  `json:"bytes"`
	Level string `json:"level,omitempty"`
	CRC   string `json:"crc64nvme,omitempty"` // 16 hex digits
	Why   string `json:"why,omitempty"`
	Error string `json:"error,omitempty"`
	Exit  int    `json:"exit,omitempty"` // the code of the error
}

func viewItem(it engine.Item) ItemView {
	v := ItemView{NameView: cli.ViewName(it.Name), Op: it.Op.String(), Bytes: it.Bytes, Why: it.Why}
	if it.Kind != 0 {
		v.Kind = it.Kind.String()
	}
	if it.Level != mover.Unchecked {
		v.Level = it.Level.String()
	}
	if it.HasCRC {
		v.CRC = fmt.Sprintf("%016x", it.CRC)
	}
	if it.Err != nil {
		v.Error, v.Exit = it.Err.Error(), cli.ExitCode(it.Err)
	}
	return v
}

// ViewReport fills what a report says; err is how the task ended.
func (t *Request) ViewReport(r engine.Report, err error) ReportView {
	v := ReportView{Schema: schemaReport, Command: t.Command, Task: t.ID, Source: t.Source, Target: t.Target, Dataset: t.Last.GetDataset(), DryRun: t.Engine.DryRun, Exit: cli.ExitCode(err),
		Files: r.Files, Bytes: r.Bytes, Others: r.Others, Updated: r.Updated, Removed: r.Removed, Kept: r.Kept, Failed: r.Failed,
		Seconds: r.Elapsed.Seconds(), Planned: viewTotals(r.Planned), Notes: r.Notes}
	if err != nil {
		v.Error = err.Error()
	}
	for level, n := range r.Levels {
		if v.Levels == nil {
			v.Levels = map[string]int64{}
		}
		v.Levels[level.String()] += n
	}
	for _, it := range r.Failures {
		v.Failures = append(v.Failures, viewItem(it))
	}
	return v
}

// done is how a command speaks of what it has finished.
var done = map[string]string{"copy": "copied", "sync": "synchronised", "verify": "compared", "rm": "removed",
	"stage": "staged", "release": "released", "purge": "purged"}

// removes says whether what a command does is removing.
func removes(command string) bool {
	return command == "rm" || command == "release" || command == "purge"
}

// PrintSummary tells a person how a task ended.
func PrintSummary(w io.Writer, command string, r engine.Report) {
	if done[command] == "" { // it has nothing to count
		return
	}
	bytes, rate := ", "+units.Bytes(r.Bytes), ""
	switch {
	case removes(command):
		bytes = "" // none has passed
	case r.Bytes > 0:
		rate = ", " + units.Rate(r.Bytes, r.Elapsed)
	}
	fmt.Fprintf(w, "%s %s%s in %s%s\n", done[command], subject(command, r), bytes, units.Duration(r.Elapsed), rate)
	if command == "verify" {
		printList(w, "result", []string{units.Count(r.Kept) + " equal", units.Count(r.Failed) + " differ or could not be read"})
		printNotes(w, r)
		return
	}
	var checked []string
	for _, level := range slices.Sorted(maps.Keys(r.Levels)) {
		if n := r.Levels[level]; n > 0 {
			checked = append(checked, units.Count(n)+" "+level.String())
		}
	}
	printList(w, "checked", checked)
	if removes(command) {
		r.Removed, r.Kept = 0, 0 // the one is the result, the other the folder itself
	}
	var also []string
	for _, part := range []struct {
		n         int64
		one, many string
	}{
		{r.Others, "folder, link or special file made", "folders, links and special files made"},
		{r.Updated, "updated", "updated"},
		{r.Removed, "removed", "removed"},
		{r.Kept, "already there", "already there"},
	} {
		if part.n > 0 {
			also = append(also, units.Plural(part.n, part.one, part.many))
		}
	}
	printList(w, "also", also)
	printNotes(w, r)
}

func printNotes(w io.Writer, r engine.Report) {
	for _, note := range r.Notes {
		printList(w, "note", []string{cli.Shown(note)})
	}
}

// subject is what the summary counts. A removal has no contents and a comparison
// looks at entries of all kinds.
func subject(command string, r engine.Report) string {
	switch {
	case command == "verify":
		return units.Plural(r.Kept+r.Failed, "entry", "entries")
	case removes(command):
		return units.Plural(r.Removed, "entry", "entries")
	}
	return units.Plural(r.Files, "file", "files")
}

func printList(w io.Writer, label string, parts []string) {
	if len(parts) > 0 {
		fmt.Fprintf(w, "  %s: %s\n", label, strings.Join(parts, ", "))
	}
}

// maxShown is how many failures a person is shown; -o jsonl has all of them.
const maxShown = 20

// PrintFailures names the failed items.
func PrintFailures(w io.Writer, command string, r engine.Report) {
	for _, it := range r.Failures[:min(len(r.Failures), maxShown)] {
		fmt.Fprintf(w, "datamove: %s: %s\n", command, cli.Shown(it.Err.Error()))
	}
	if more := r.Failed - int64(min(len(r.Failures), maxShown)); more > 0 {
		fmt.Fprintf(w, "datamove: %s: and %s more; -o jsonl names each\n", command, units.Count(more))
	}
}
