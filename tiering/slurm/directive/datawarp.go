package directive

import (
	"fmt"
	"slices"
	"strings"

	"datamove.dev/mover/location"
	"datamove.dev/mover/units"
)

const (
	jobdwExample = "write #DW jobdw type=scratch access_mode=striped capacity=10GiB, or #DW jobdw type=xfs capacity=10GiB name=fast"
	stageExample = "write #DW stage_in type=directory source=/lus/me/in destination=$DW_JOB_STRIPED/in"
	outExample   = "write #DW stage_out type=directory source=$DW_JOB_STRIPED/out destination=/lus/me/out"
)

// stages are the commands that move, and as what they are understood here.
var stages = map[string]struct {
	verb     Verb
	required []string
	hints    []string // what chooses among hardware or programs that are not here
	example  string
}{
	"stage_in":  {StageIn, []string{"type", "source", "destination"}, nil, stageExample},
	"copy_in":   {StageIn, []string{"source", "destination"}, []string{"profile"}, "write #DW copy_in source=/lus/me/in destination=$DW_JOB_fast/in"},
	"stage_out": {StageOut, []string{"type", "source", "destination"}, nil, outExample},
	"copy_out":  {StageOut, []string{"source", "destination"}, []string{"profile"}, "write #DW copy_out source=$DW_JOB_fast/out destination=/lus/me/out"},
}

// refused are the commands that mean nothing here, and what to use.
var refused = map[string]string{
	"persistentdw":       "keep the data as a dataset, and write #DATAMOVE stage-in=dataset:NAME shared: the next job on the node finds it there",
	"create_persistent":  "keep the data as a dataset (datamove dataset add); it is staged where jobs want it",
	"destroy_persistent": "remove the line; what no job wants any more leaves the nodes by itself",
	"swap":               "ask Slurm for memory: #SBATCH --mem=...",
	"container":          "start the container in the job",
}

var commands = []string{"jobdw", "stage_in", "stage_out", "copy_in", "copy_out"}

// command finds the word that says what a line of DataWarp wants.
func (r *reader) command(l *line, words []word) (string, bool) {
	if len(words) == 0 || !words[0].flag {
		r.problems = append(r.problems, l.problem(-1, "", "it has no command", jobdwExample))
		return "", false
	}
	name := words[0].key
	if mend := refused[name]; mend != "" {
		r.problems = append(r.problems, l.problem(words[0].at, name, "there is no such thing here", mend))
		return "", false
	}
	if !slices.Contains(commands, name) {
		r.problems = append(r.problems, l.problem(words[0].at, shown(name), "unknown command", nearest(name, commands)))
		return "", false
	}
	return name, true
}

// old refuses what Slurm's DataWarp plugin wanted in lines of its own. Others that begin
// like that are comments.
func (r *reader) old(l *line, words []word) {
	if len(words) > 0 && strings.HasSuffix(words[0].key, "_persistent") {
		r.command(l, words)
	}
}

// cray reads a line that moves.
func (r *reader) cray(l *line, words []word) {
	name, ok := r.command(l, words)
	if !ok || name == "jobdw" { // read before
		return
	}
	form := stages[name]
	values, p := keyed(l, words[1:], form.required, form.hints, form.example)
	if p == nil {
		p = kindOfStage(l, values)
	}
	if p != nil {
		r.problems = append(r.problems, *p)
		return
	}
	source, destination := values["source"], values["destination"]
	from, fromJob, p := r.follow(l, source)
	if p == nil && fromJob != (form.verb == StageOut) {
		p = wrong(l, source, "what is brought in comes from elsewhere, and what is brought out is in $DW_JOB_...", form.example)
	}
	var to location.Location
	toJob := false
	if p == nil {
		to, toJob, p = r.follow(l, destination)
	}
	if p == nil && toJob != (form.verb == StageIn) {
		p = wrong(l, destination, "what is brought in goes to $DW_JOB_..., and what is brought out goes elsewhere", form.example)
	}
	if p != nil {
		r.problems = append(r.problems, *p)
		return
	}
	if values["type"].value == "file" {
		to = fileInto(to, from)
	}
	a := asked{Request: Request{Verb: form.verb, From: from, To: []location.Location{to}}, line: l, words: map[string]word{string(form.verb): source, "to": destination}}
	if a.Verb == StageOut {
		a.When = Always
	}
	a.Required = a.Verb == StageIn
	if !r.unsure {
		r.add(a)
	}
}

func kindOfStage(l *line, values map[string]word) *Problem {
	kind, has := values["type"]
	switch {
	case !has || kind.value == "file" || kind.value == "directory":
		return nil
	case kind.value == "list":
		return wrong(l, kind, "a list of files is not read here", "write a line for each, or stage their directory: "+strings.TrimPrefix(stageExample, "write "))
	}
	return wrong(l, kind, "it is neither file nor directory", stageExample)
}

// fileInto is where a file goes that is brought to a directory.
func fileInto(to, from location.Location) location.Location {
	if base := baseOf(from); to.TrailingSlash && base != "" {
		return to.Child(base)
	}
	return to
}

func wrong(l *line, w word, what, mend string) *Problem {
	return l.wrong(w.at, shown(w.key), what, mend)
}

// keyed sorts the words of a command by their keys.
func keyed(l *line, words []word, required, optional []string, example string) (map[string]word, *Problem) {
	known := slices.Concat(required, optional)
	values := map[string]word{}
	for _, w := range words {
		switch _, twice := values[w.key]; {
		case strings.HasPrefix(w.key, "#"):
			return nil, wrong(l, word{at: w.at}, "a comment does not stand behind a directive", "give it a line of its own")
		case twice:
			return nil, wrong(l, w, "it stands here twice", "keep one")
		case !slices.Contains(known, w.key):
			return nil, wrong(l, w, "unknown key", nearest(w.key, known))
		case w.value == "":
			return nil, wrong(l, w, "it has to have a value, behind = and without a blank", example)
		}
		values[w.key] = w
	}
	for _, key := range required {
		if _, has := values[key]; !has {
			return nil, l.wrong(-1, "", "it has no "+key+"=", example)
		}
	}
	return values, nil
}

// follow reads a location, which may begin with a variable of the job's space.
func (r *reader) follow(l *line, w word) (at location.Location, ofJob bool, p *Problem) {
	name, path, ok := variable(w.value)
	if !ok {
		at, p = locate(l, w, false)
		return at, false, p
	}
	if strings.HasPrefix(name, "DW_PERSISTENT_") {
		return at, false, wrong(l, w, "there is no persistent space here", refused["persistentdw"])
	}
	name = strings.ReplaceAll(name, "-", "_")
	root, there := r.names[name]
	if r.unsure && !there && strings.HasPrefix(name, "DW_JOB_") {
		return at, true, nil
	}
	if !there {
		mend := "add a line before it: " + strings.TrimPrefix(jobdwExample, "write ")
		if !strings.HasPrefix(name, "DW_JOB_") {
			mend = "write %u for the user; of variables there are $DW_JOB_STRIPED, $DW_JOB_PRIVATE and $DW_JOB_name"
		}
		return at, false, wrong(l, w, "no jobdw line makes $"+shown(name), mend)
	}
	if path = strings.Trim(path, "/"); path == "" {
		return root, true, nil
	}
	slash := ""
	if strings.HasSuffix(w.value, "/") {
		slash = "/"
	}
	at, p = locate(l, word{key: w.key, value: root.Tier + ":" + root.Path + "/" + path + slash, at: w.at}, false)
	if p == nil && !strings.HasPrefix(at.Path, root.Path+"/") {
		p = wrong(l, w, "it leads out of the job's space", "write it without ..")
	}
	return at, true, p
}

// variable cuts $NAME/path and ${NAME}/path.
func variable(s string) (name, path string, ok bool) {
	s, ok = strings.CutPrefix(s, "$")
	if !ok {
		return "", "", false
	}
	name, path, _ = strings.Cut(s, "/")
	if inner, braced := strings.CutPrefix(name, "{"); braced {
		name, ok = strings.CutSuffix(inner, "}")
	}
	return name, path, ok && name != ""
}

// jobdw reads a line that asks for space.
func (r *reader) jobdw(l *line, words []word) {
	values, p := keyed(l, words[1:], []string{"type", "capacity"}, []string{"access_mode", "name", "pool", "profile", "pfs", "requires"}, jobdwExample)
	s := Scratch{Type: values["type"].value, Name: values["name"].value}
	if p == nil {
		p = s.take(l, values)
	}
	if p == nil {
		var why string
		if s.Tier, why = r.tiers.scratch(); why != "" {
			p = l.wrong(-1, "jobdw", why, "such jobs can not run here; ask the administrators of the cluster")
		}
	}
	if p != nil {
		r.problems, r.unsure = append(r.problems, *p), true
		return
	}
	for _, v := range s.Variables() {
		if _, twice := r.names[v.Name]; twice {
			r.problems = append(r.problems, l.problem(-1, "jobdw", "another line makes $"+v.Name+", too", "give each a name of its own"))
		}
		r.names[v.Name] = v.At
	}
	r.scratch = append(r.scratch, s)
}

// take reads the values.
func (s *Scratch) take(l *line, values map[string]word) *Problem {
	switch s.Type {
	case "scratch", "xfs", "gfs2", "lustre":
	case "cache":
		return wrong(l, values["type"], "nothing here is a cache of another file system", "stage what the job reads, and what it writes: "+forms[StageIn].example)
	case "raw":
		return wrong(l, values["type"], "there are no bare devices here", jobdwExample)
	default:
		return wrong(l, values["type"], "it is none of scratch, xfs, gfs2, lustre", jobdwExample)
	}
	if w, has := values["pfs"]; has {
		return wrong(l, w, "nothing here is a cache of another file system", "leave it out, and stage what the job reads")
	}
	if w, has := values["requires"]; has {
		return wrong(l, w, "programs can not ask for copies as on Rabbit", "copies while the job runs are "+forms[Checkpoint].example)
	}
	if p := s.takeModes(l, values); p != nil {
		return p
	}
	return s.takeBytes(l, values["capacity"])
}

func (s *Scratch) takeModes(l *line, values map[string]word) *Problem {
	modes, has := values["access_mode"]
	name, named := values["name"]
	switch {
	case has && s.Type != "scratch":
		return wrong(l, modes, "it belongs to type=scratch", jobdwExample)
	case named && !validName(s.Name):
		return wrong(l, name, "a name has up to 63 letters, digits, underscores and hyphens, and begins with no hyphen", jobdwExample)
	case !named && s.Type != "scratch":
		return wrong(l, values["type"], "space of this type has a name", jobdwExample)
	case !has:
		s.Striped = s.Type == "scratch"
		return nil
	}
	for mode := range strings.SplitSeq(modes.value, ",") {
		switch {
		case mode == "striped" && !s.Striped:
			s.Striped = true
		case mode == "private" && !s.Private:
			s.Private = true
		default:
			return wrong(l, modes, "it is striped, private, or both with a comma between", jobdwExample)
		}
	}
	return nil
}

func (s *Scratch) takeBytes(l *line, w word) *Problem {
	n, err := units.ParseBytes(w.value)
	switch {
	case err != nil:
		return wrong(l, w, err.Error(), jobdwExample)
	case n == 0 || strings.Trim(w.value, "0123456789.") == "":
		return wrong(l, w, "it has no unit, or is nothing", jobdwExample)
	}
	s.Bytes = n
	return nil
}

func validName(s string) bool {
	for _, c := range []byte(s) {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return s != "" && len(s) <= 63 && s[0] != '-'
}

// capacity prints bytes so that they are read back exactly.
func capacity(n int64) string {
	unit := 0
	for unit < 4 && n > 0 && n%1024 == 0 {
		n, unit = n/1024, unit+1
	}
	return fmt.Sprintf("%d%s", n, []string{"B", "KiB", "MiB", "GiB", "TiB"}[unit])
}
