package directive

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// site is the cluster of these tests.
var site = Tiers{
	Named: map[string]Tier{
		"scratch": {Level: Hot, Path: "/local_nvme", NodeLocal: true, Ephemeral: true},
		"cache":   {Level: Hot, Path: "/local_nvme/cache", NodeLocal: true},
		"project": {Level: Warm, Path: "/lustre/project"},
		"fast":    {Level: Warm, Path: "/lustre/fast", Ephemeral: true},
		"kept":    {Level: Warm, Path: "/lustre/fast/kept"},
		"tape":    {Level: Cold, Path: "/tape"},
		"archive": {Level: Cold, Bucket: "archive", Prefix: "site"},
	},
	Disk: []string{"/nvme2"},
}

const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func script(lines ...string) Text {
	return Text{Script: "#!/bin/bash\n" + strings.Join(lines, "\n") + "\nsrun train\n"}
}

// printed is what a job asks for, as lines without their beginning.
func printed(j Job) string {
	return strings.TrimSpace(strings.ReplaceAll(j.String(), ours+" ", ""))
}

// TestGrammar is the manual: what is written, and what is understood, in full.
func TestGrammar(t *testing.T) {
	for _, row := range []struct{ name, line, want string }{
		{"a dataset for the job", "stage-in=dataset:imagenet to=scratch:imagenet required", "stage-in=dataset:imagenet to=scratch:imagenet required"},
		{"at one version", "stage-in=dataset:imagenet@sha256:" + digest, "stage-in=dataset:imagenet@" + digest + " to=scratch:imagenet"},
		{"shared by jobs on the node", "shared stage-in=dataset:imagenet", "stage-in=dataset:imagenet to=scratch:imagenet shared"},
		{"the target may be left out", "stage-in=s3://bucket/a/b/", "stage-in=s3://bucket/a/b/ to=scratch:b"},
		{"a bucket gives its name", "stage-in=s3://bucket", "stage-in=s3://bucket/ to=scratch:bucket"},
		{"a tier gives its name", "stage-in=archive:", "stage-in=archive: to=scratch:archive"},
		{"to the job's directory itself", "stage-in=project:x to=scratch:", "stage-in=project:x to=scratch:"},
		{"to the cache of each node", "stage-in=dataset:x to=cache:x", "stage-in=dataset:x to=cache:x"},
		{"from cold to warm", "stage-in=archive:run1 to=project:run1", "stage-in=archive:run1 to=project:run1"},
		{"paths", "stage-in=/home/me/in to=/home/me/out", "stage-in=/home/me/in to=/home/me/out"},
		{"results", "stage-out=scratch:out to=project:%x/%j", "stage-out=scratch:out to=project:%x/%j"},
		{"the default is said or not", "stage-out=scratch:out to=archive:x when=always", "stage-out=scratch:out to=archive:x"},
		{"results of each node", "stage-out=scratch:out to=project:%j/{node} when=success", "stage-out=scratch:out to=project:%j/{node} when=success"},
		{"checkpoints", "checkpoint=scratch:ckpt to=project:run1 ", "checkpoint=scratch:ckpt to=project:run1"},
		{"checkpoints, all words", "checkpoint=scratch:ckpt to=project:run1,archive:run1 profile=dcp keep=3", "checkpoint=scratch:ckpt to=project:run1,archive:run1 profile=dcp keep=3"},
		{"checkpoints that are written warm", "checkpoint=project:ckpt to=archive:%u/run1 profile=plain", "checkpoint=project:ckpt to=archive:%u/run1"},
		{"purge", "purge=fast:tmp/%u when=success", "purge=fast:tmp/%u when=success"},
		{"purge what is the job's anyhow", "purge=scratch:", "purge=scratch:"},
		{"quotes", `stage-in="project:my data" to="scratch:a\"b\\c;d"`, `stage-in="project:my data" to="scratch:a\"b\\c;d"`},
		{"quotes that nobody needs", `stage-in="project:data"`, `stage-in=project:data to=scratch:data`},
		{"tabs", "\tstage-in=project:data\tto=scratch:x\t", "stage-in=project:data to=scratch:x"},
		{"percent signs", "stage-out=scratch:100%% to=project:100%%", "stage-out=scratch:100%% to=project:100%%"},
		{"UTF-8", "stage-in=project:größe", "stage-in=project:größe to=scratch:größe"},
		{"the mark for #DW lines", "dw", ""},
		{"the mark for a dependency", "depends", ""},
	} {
		job, err := Parse(script(ours+" "+row.line), site)
		if err != nil || printed(job) != row.want {
			t.Errorf("%s: %s is read as %q, %v; want %q", row.name, row.line, printed(job), err, row.want)
		}
	}
}

// TestMistakes writes each wrong, and reads where and why, and what would be right.
func TestMistakes(t *testing.T) {
	for _, row := range []struct{ line, want string }{
		{"", "script line 2: it asks for nothing (as in stage-in=dataset:imagenet to=scratch:imagenet required)"},
		{"stag-in=project:x", "script line 2, column 11: stag-in: unknown word (did you mean stage-in?)"},
		{"stage_in=project:x", "column 11: stage_in: unknown word (did you mean stage-in?)"},
		{"stage-in=project:x requierd", "column 30: requierd: unknown word (did you mean required?)"},
		{"stage-in=project:x colour=red", "colour: unknown word (there are stage-in, stage-out, checkpoint,"},
		{"stage-in=project:größe größer", "column 34: größer: unknown word"},
		{"=x", "unknown word"},
		{"to=scratch:x required", "line 2: it asks for nothing"},
		{"stage-in=project:x stage-out=scratch:y to=project:z", "column 30: stage-out: a line has one request (give it a line of its own"},
		{"stage-in=project:x dw", "dw: it stands alone"},
		{"stage-in=project:x # my data", "column 30: a comment does not stand behind a directive"},
		{"stage-in project:x", "column 20: project:x: unknown word"},
		{"stage-in= project:x", "column 21: project:x: unknown word"},
		{"stage-in", "column 11: stage-in: it has to have a value"},
		{"stage-in=project:x to", "column 30: to: it has to have a value"},
		{"stage-in=project:x required=yes", "required: it has no value"},
		{"stage-in=project:x required required", "column 39: required: it stands here twice"},
		{"stage-in=project:x keep=3", "keep: it does not belong to stage-in"},
		{"stage-out=scratch:x to=project:x required", "required: it does not belong to stage-out"},
		{"purge=fast:x to=project:x", "to: it does not belong to purge"},
		{"stage-out=scratch:x", "stage-out: it has no to= (as in stage-out=scratch:out to=project:run1/out when=success)"},
		{"checkpoint=scratch:x", "checkpoint: it has no to="},
		{"stage-out=scratch:x to=project:x when=never", "when: never is neither always nor success"},
		{"checkpoint=scratch:x to=project:x profile=dpc", "there is no profile dpc; did you mean dcp?"},
		{"checkpoint=scratch:x to=project:x keep=1", "keep: it is a number from 2"},
		{"checkpoint=scratch:x to=project:x keep=+3", "keep: it is a number from 2"},
		{"checkpoint=scratch:x to=project:x keep=1001", "to 1000"},
		{"checkpoint=scratch:x to=project:x,", "column 32: to: a location is empty"},
		{"checkpoint=scratch:x to=project:x,project:x/y", "two targets are the same, or one lies in the other"},
		{"checkpoint=scratch:x to=file:///lustre/a%2Cb", "a comma separates the targets"},
		{"stage-in=project:x to=scratch:x;", "column 42: a quote or a semicolon in a value"},
		{`stage-in="project:x`, "column 20: a quote is not closed"},
		{`stage-in="project:x"y`, "column 31: behind the closing quote comes a blank"},
		{`stage-in=project:"x"`, "column 28: a quote or a semicolon in a value"},
		{`"stage-in=project:x"`, "has a quote or a semicolon"},
		{"stage-in=project:a\x07", "column 29: there is a control character"},
		{"stage-in=project:a\r", "Windows line ends"},
		{"stage-in=project:a\xff", "the text is not UTF-8"},
		{"stage-in=project:a\u00a0to=scratch:x", "a blank that is none in ASCII"},
		{"stage-in=data", "a path begins with /"},
		{"stage-in=/", "this is the root of all files"},
		{"stage-in=/lustre/../etc", "it would be another directory"},
		{"stage-in=project:../x", "it leads out of the tier"},
		{"stage-in=http://host/x", "the schemes are file:// and s3://"},
		{"stage-in=~/data", "variables of the shell and ~ are not known here (write %u"},
		{"stage-in=/home/$USER/data", "variables of the shell"},
		{"stage-in=file:///home/%24USER/data", "variables of the shell"},
		{"stage-in=file:///a%0Ab", "control characters"},
		{"stage-in=project:%q", "behind % stands no pattern (there are %j"},
		{"stage-in=project:x to=scratch:{node}", "{node} stands only where a stage-out or a checkpoint goes to"},
		{"stage-out=scratch:{node} to=project:x", "{node} stands only"},
		{"stage-out=scratch:x to=project:%n", "Slurm takes %n away"},
		{"stage-out=scratch:x to=project:.datamove-x", "such names are the mover's own"},
		{"stage-in=projekt:x", "there is no tier projekt (did you mean project?)"},
		{"stage-in=dataset:x to=nvme:x", "column 30: to: there is no tier nvme (there are archive, cache,"},
		{"stage-in=project:" + strings.Repeat("x", 256), "more than 255 bytes"},
		{"stage-in=project:" + strings.Repeat("x/", LineMost/2), "the directive has more than 4096 bytes"},
		{`stage-in="project:` + strings.Repeat(`"\x/"`, 800) + `x"`, "behind the closing quote"},
		{`stage-in="project:` + strings.Repeat(`\x/`, 1300) + `x"`, "written in full, the directive has more than 4096 bytes"},
	} {
		job, err := Parse(script(ours+" "+row.line), site)
		var problems Problems
		if !errors.Is(err, mover.ErrUsage) || !errors.As(err, &problems) || len(problems) != 1 || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%.80s: %v, %v; want one problem: %s", row.line, printed(job), err, row.want)
		}
	}
}

// TestNoSecretInProblems writes credentials where they do not belong.
func TestNoSecretInProblems(t *testing.T) {
	for _, line := range []string{
		"stage-in=s3://key:hidden@host/x", "stage-in= s3://key:hidden@host/x", "stage-in=https://me:hidden@host/x", "stage-in=project:x to=s3://key:hidden@host/x",
		"stagein=s3://key:hidden@host/x", "checkpoint=scratch:x to=project:x,s3://key:hidden@host/x", `stage-in="s3://key:hidden@host`,
		"stage-in s3://key:hidden@host/x", "stage-in= s3://key:hidden=x@host/x",
	} {
		if _, err := Parse(script(ours+" "+line), site); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestScan reads scripts as Slurm does.
func TestScan(t *testing.T) {
	const a, b = "#DATAMOVE stage-in=project:a", "#DATAMOVE stage-in=project:b"
	const both = "stage-in=project:a to=scratch:a\nstage-in=project:b to=scratch:b"
	const first = "stage-in=project:a to=scratch:a"
	for _, row := range []struct{ name, script, want string }{
		{"nothing", "", ""},
		{"nothing of ours", "#!/bin/sh\n#SBATCH -N 2\nsrun x\n", ""},
		{"behind other lines", "#!/bin/sh\n#SBATCH -N 2\n" + a + "\n# comment\n" + b + "\nsrun x\n", both},
		{"empty lines", "#!/bin/sh\n\n" + a + "\n\n\n" + b, both},
		{"no first line", a + "\n" + b, both},
		{"in a text that a command writes", "#!/bin/sh\n" + a + "\ncat > next <<.\n#!/bin/sh\n" + b + " wrong\n.\n", first},
		{"in a text that ends behind tabs", "#!/bin/sh\n" + a + "\ncat <<-\\END >x; echo <<<y\n" + b + "\n\t" + b + "\n\tEND\n", first},
		{"in two texts", "#!/bin/sh\n" + a + "\npaste <<'A' - <<\"B\" # it's <<C\n" + b + "\nA\n" + b + "\nB\n", first},
		{"in quotes", "#!/bin/sh\n" + a + "\necho it\\'s '\n" + b + "\n' \"\\\"'\n" + b + "\n\"\n", first},
		{"twice commented", "#" + a + "\nx\n#" + b + "\n##  " + b + "\n", ""},
		{"of datamove in words", "# datamove copies; #DATAMOVE lines ask: stage-in\n#datamove x\n# DW stage_in: see there\nx\n#DATAMOVE lines are above\n#SBATCH --comment=datamove:stage-in=project:a", ""},
		{"a line that goes on", "#DATAMOVE stage-in=project:a \\\n#DATAMOVE   to=scratch:b\nx", "stage-in=project:a to=scratch:b"},
		{"a line that goes on behind empty ones", "#DATAMOVE \\\n\n#DATAMOVE stage-in=project:a\\\n#DATAMOVE \\\n#DATAMOVE required\n", first + " required"},
		{"the same twice is one", a + "\n" + a + " to=scratch:a\n", first},
		{"the mark", "#!/bin/sh\n#DATAMOVE dw\n" + a, first},
		{"others' directives", "#BB x \"y\n#DWARF x\n#BB\n#BB \\\n" + a, first},
	} {
		job, err := Parse(Text{Script: row.script}, site)
		if err != nil || printed(job) != row.want {
			t.Errorf("%s: %q, %v; want %q", row.name, printed(job), err, row.want)
		}
	}
	for _, row := range []struct{ name, script, want string }{
		{"a blank is missing", "#DATAMOVE: stage-in=project:a", "script line 1, column 10: behind #DATAMOVE comes a blank"},
		{"goes on in a comment", "#DATAMOVE stage-in=project:a \\\n# to=scratch:a\n", `script line 1, column 30: a line that ends in \ goes on in the next one, which begins with #DATAMOVE, too`},
		{"goes on in a command", "#DATAMOVE stage-in=project:a \\\n to=scratch:a\n", "goes on in the next one"},
		{"goes on in another kind", "#DW jobdw \\\n" + a, "begins with #DW, too"},
		{"goes on at the end", "#DATAMOVE stage-in=project:a \\", "goes on in the next one"},
		{"wrong where it goes on", "#DATAMOVE stage-in=project:a \\\n\n#DATAMOVE wrong", "script line 3, column 11: wrong: unknown word"},
		{"behind blanks", "#!/bin/sh\n  \n" + a + "\nsrun x", "script line 3: #DATAMOVE: it is not seen: Slurm stops reading at line 2"},
		{"behind an indented comment", "#!/bin/sh\n # x\n\n#DW jobdw\nsrun x", "script line 4: #DW: it is not seen"},
		{"behind a command", "#!/bin/sh\n" + a + "\n\nsrun x\n" + b + "\n", "script line 5: #DATAMOVE: it is not seen: Slurm reads no directive behind the first command, which is in line 4 (put it above line 4"},
		{"behind a line with blanks, and a command", "#!/bin/sh\n" + a + "\n  \nsrun x\n" + b, "script line 5: #DATAMOVE: it is not seen"},
		{"behind a command, indented", "x\nif y; then\n\t" + a + "\nfi", "script line 3: #DATAMOVE: it is not seen"},
		{"behind a command, with Windows line ends", "#!/bin/sh\r\nsrun x\r\n" + a + "\r\n", "script line 3: #DATAMOVE: it is not seen"},
		{"behind texts", "cat <<A; cat <<B\n" + a + "\nA\n" + a + "\nB\necho $((1 << 2)) '<<X' # <<Y it's\n" + a + "\nX\nY\n", "script line 7: #DATAMOVE: it is not seen"},
		{"behind a command, of DataWarp", "x\n#DW jobdw type=scratch capacity=1GiB", "script line 2: #DW: it is not seen"},
		{"behind blanks after the #", "# " + b[1:], "script line 1: #DATAMOVE: to Slurm this is a comment (a directive begins with exactly #DATAMOVE and a blank"},
		{"in other letters", "#!/bin/sh\n#DataMove required STAGE_IN=project:a", "script line 2: #DATAMOVE: to Slurm this is a comment"},
		{"with blanks and a colon", "#  datamove: stage-in=project:a", "script line 1: #DATAMOVE: to Slurm this is a comment"},
		{"in other letters behind a command", "x\n#Datamove purge=fast:x", "script line 2: #DATAMOVE: it is not seen"},
		{"of DataWarp behind a blank", "# DW stage_in type=file source=/a destination=$DW_JOB_STRIPED/a", "script line 1: #DW: to Slurm this is a comment"},
		{"indented", "#!/bin/sh\n " + a + "\nsrun x", "script line 2: #DATAMOVE: it is not seen"},
		{"Windows", "#!/bin/sh\r\n\r\n" + a + "\r\nsrun x", "it is not seen"},
		{"too far down", strings.Repeat("# x\n", ScriptMost/4+1) + a, "comments only, and no more are looked at"},
		{"too many", strings.Repeat(a+"\n", RequestsMost+1), "script line 65: this is more than 64 requests"},
	} {
		job, err := Parse(Text{Script: row.script}, site)
		if !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %q, %v; want %q", row.name, printed(job), err, row.want)
		}
	}
	if _, err := Parse(Text{Script: a + "\nx\n" + strings.Repeat("x", ScriptMost)}, site); err != nil {
		t.Errorf("a long script: %v", err)
	}
}

// TestChannels has requests in comments and variables.
func TestChannels(t *testing.T) {
	const a, b = "stage-in=project:a to=scratch:a", "stage-in=project:b to=scratch:b"
	for _, row := range []struct {
		name string
		text Text
		want string
	}{
		{"none", Text{Comment: "my best run; see datamove.dev, http://datamove:80, mydatamove: and %j"}, ""},
		{"a comment", Text{Comment: "datamove: " + a + "; stage-in=project:b"}, a + "\n" + b},
		{"with text around", Text{Comment: `it's "mine; datamove: ` + a + ` | wandb: 7; x="`}, a},
		{"in other letters", Text{Comment: "Größe; DataMove: " + a}, a},
		{"twice", Text{Comment: "datamove:" + a + "|x|datamove:" + b + ";"}, a + "\n" + b},
		{"quotes keep what separates", Text{Comment: `datamove: stage-in="project:a;b|c"`}, `stage-in="project:a;b|c" to="scratch:a;b|c"`},
		{"a variable", Text{Environment: ";" + a + ";;" + b + " ; "}, a + "\n" + b},
		{"they add up, and the same is one", Text{Script: "#DATAMOVE " + a, Comment: "datamove: " + a + ";" + b, Environment: "stage-in=project:b"}, a + "\n" + b},
	} {
		job, err := Parse(row.text, site)
		if err != nil || printed(job) != row.want {
			t.Errorf("%s: %q, %v; want %q", row.name, printed(job), err, row.want)
		}
	}
	for _, row := range []struct {
		name string
		text Text
		want string
	}{
		{"a comment", Text{Comment: "größe, datamove: " + a + "; wrong"}, "comment, column 51: wrong: unknown word"},
		{"text behind", Text{Comment: "datamove: " + a + " thanks"}, "thanks: unknown word"},
		{"a variable", Text{Environment: a + "; to=x"}, "DATAMOVE, column 33: it asks for nothing"},
		{"a bar in a variable", Text{Environment: a + " | x"}, "DATAMOVE, column 33: |: unknown word"},
		{"a line in a variable", Text{Environment: a + "\n" + b}, "a control character"},
		{"otherwise", Text{Script: "#DATAMOVE " + a, Comment: "datamove: " + a + " required"}, "comment, column 30: to: the target is that of another request"},
		{"without end", Text{Comment: "datamove: " + strings.Repeat(" ", RequestsMost*LineMost)}, "comment: it has more than"},
	} {
		job, err := Parse(row.text, site)
		if !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %q, %v; want %q", row.name, printed(job), err, row.want)
		}
	}
}

// TestNoTextIsTooMuch has texts that would take minutes if something of them were looked
// at once for each other part.
func TestNoTextIsTooMuch(t *testing.T) {
	const most = RequestsMost * LineMost
	for _, text := range []Text{
		{Script: strings.Repeat("#DATAMOVE \\\n", ScriptMost/12)},
		{Script: strings.Repeat("#DATAMOVE\\\n", ScriptMost/11)},
		{Script: strings.Repeat("#DATAMOVE x\n", ScriptMost/12)},
		{Script: strings.Repeat("#DW x\n", ScriptMost/6)},
		{Script: "\n" + strings.Repeat(" \n", ScriptMost/2)},
		{Script: "x\n" + strings.Repeat("cat <<A\n", ScriptMost/8)},
		{Script: "x\n" + strings.Repeat("#DATAMOVE purge=x\n", ScriptMost/18)},
		{Comment: strings.Repeat("datamove:", most/9)},
		{Comment: strings.Repeat("datamove:x|", most/11)},
		{Comment: strings.Repeat("xdatamove:", most/10)},
		{Environment: strings.Repeat("x;", most/2)},
		{Environment: strings.Repeat(`"`, most)},
		{Environment: "x=" + strings.Repeat(`\`, LineMost-3)},
	} {
		if _, err := Parse(text, site); err != nil && !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%v", err)
		}
	}
}

// TestAllAtOnce tells every mistake, in the order of the text, and not too many.
func TestAllAtOnce(t *testing.T) {
	text := script("#DATAMOVE one", "#DATAMOVE stage-in=project:x to=scratch:x", "#DATAMOVE two=2", "#DATAMOVE stage-in=nowhere:x to=scratch:y", "#DATAMOVE stage-in=project:y to=scratch:x/y")
	text.Environment, text.Comment = "four", "datamove: three"
	_, err := Parse(text, site)
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatal(err)
	}
	var places []string
	for _, p := range problems {
		places = append(places, p.Word+" "+p.Source)
	}
	if got := strings.Join(places, ", "); got != "one script, two script, stage-in script, to script, three comment, four DATAMOVE" {
		t.Errorf("%s\n%v", got, err)
	}
	_, err = Parse(script(strings.Repeat("#DATAMOVE wrong\n", 12)), site)
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 11 || lines[10] != "and 2 more" {
		t.Errorf("%v", err)
	}
}

func TestDefaultTarget(t *testing.T) {
	for _, row := range []struct {
		name  string
		tiers Tiers
		want  string
	}{
		{"the one that there is", Tiers{Named: map[string]Tier{"nvme": {Path: "/n", NodeLocal: true, Ephemeral: true}, "warm": {Path: "/w"}}}, "nvme:x"},
		{"the one that is named", Tiers{Scratch: "b", Named: map[string]Tier{"a": {Path: "/a", NodeLocal: true, Ephemeral: true}, "b": {Path: "/b", NodeLocal: true, Ephemeral: true}}}, "b:x"},
		{"several", Tiers{Named: map[string]Tier{"a": {Path: "/a", NodeLocal: true, Ephemeral: true}, "b": {Path: "/b", NodeLocal: true, Ephemeral: true}}}, "there are several tiers for it: a, b (say where it goes"},
		{"none", Tiers{Named: map[string]Tier{"a": {Path: "/a", NodeLocal: true}}}, "there is no tier that is node-local and ephemeral"},
		{"a wrong name", Tiers{Scratch: "c"}, "the tier for it, c, is not node-local and ephemeral"},
	} {
		job, err := Parse(script("#DATAMOVE stage-in=dataset:x"), row.tiers)
		got := fmt.Sprint(err)
		if err == nil {
			got = job.Requests[0].To[0].String()
		}
		if !strings.Contains(got, row.want) {
			t.Errorf("%s: %s; want %s", row.name, got, row.want)
		}
	}
}

func TestSummary(t *testing.T) {
	job, err := Parse(script(
		"#DATAMOVE stage-in=dataset:imagenet@"+digest+" to=scratch:imagenet required shared",
		`#DATAMOVE stage-in="project:my data"`,
		"#DATAMOVE stage-out=scratch:out to=project:run1 when=success",
		"#DATAMOVE checkpoint=scratch:ckpt to=project:ckpt,archive:run1 profile=dcp keep=3",
		"#DATAMOVE purge=fast:tmp/%j",
		"#DW jobdw type=scratch access_mode=striped,private capacity=10GiB",
		"#DW jobdw type=xfs capacity=1TB name=my-fast"), site)
	must.Do(t, err)
	want := `10.0 GiB on each node as $DW_JOB_STRIPED and $DW_JOB_PRIVATE (seen by its node only)
931 GiB on each node as $DW_JOB_my_fast
stage in dataset:imagenet@0123456789ab to scratch:imagenet (required, shared)
stage in project:my data to scratch:my data
stage out scratch:out to project:run1 (if the job succeeds)
copy checkpoints of scratch:ckpt to project:ckpt and archive:run1 (dcp, the last 3 of them stay)
purge fast:tmp/%j at the end`
	if got := strings.Join(job.Summary(), "\n"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestOfJob(t *testing.T) {
	for text, want := range map[string]bool{"scratch:x": true, "scratch:": true, "cache:x": false, "fast:x": false, "/local_nvme/x": false, "dataset:x": false, "none:x": false} {
		l, err := location.Parse(text)
		if err != nil || site.OfJob(l) != want {
			t.Errorf("%s is of the job: %v, %v", text, !want, err)
		}
	}
	job, err := Parse(script("#DATAMOVE stage-out=scratch:a to=project:%j/{node}", "#DATAMOVE stage-out=scratch:b to=project:%%n", "#DATAMOVE checkpoint=scratch:c to=archive:%%{node},project:x"), site)
	must.Do(t, err)
	var got []bool
	for _, r := range job.Requests {
		got = append(got, r.PerNode())
	}
	if !reflect.DeepEqual(got, []bool{true, false, false}) {
		t.Errorf("per node: %v", got)
	}
}
