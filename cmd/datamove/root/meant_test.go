package root

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover/remedy"
)

// TestMeant: a word that is none ends with 2, and what was probably meant stands behind "try:".
func TestMeant(t *testing.T) {
	for _, row := range []struct{ line, want string }{
		{"cp a b", "datamove copy SRC DST"},
		{"--service none cp a b", "datamove copy SRC DST"},
		{"mv a b", "datamove copy SRC DST, then datamove verify SRC DST, then datamove rm -r SRC: nothing moves in one step"},
		{"cat s3://bucket/x", contentAnswer},
		{"head s3://bucket/x", contentAnswer},
		{"presign s3://bucket/x", "the store's own tool: aws s3 presign"},
		{"hashsum md5 a", sumAnswer},
		{"get pods", "datamove copy SRC DST; datamove task list and datamove agent list say what a service has"},
		{"task get 1", "datamove task show ID"},
		{"task describe 1", "datamove task show ID"},
		{"help task get", "datamove task show ID"},
		{"agent resume n1", "datamove agent undrain NODE"},
		{"service start", unitAnswer},
		{"completion tcsh", shellsAnswer},
		{"completion nushell", "datamove completion --help"},
		{"check a b", "datamove verify SRC DST"},
		{"mirror a b", "datamove sync --delete SRC DST"},
		{"mb s3://bucket", bucketAnswer},
		{"ncdu a", "datamove du LOCATION..."},
		{"lsd a", "datamove ls LOCATION"},
		{"help cp", "datamove copy SRC DST"},
		{"copi a b", "datamove copy; datamove --help lists all"},
		{"cpy a b", "datamove copy; datamove --help lists all"},
		{"dataset stge a", "datamove stage; datamove --help lists all"},
		{"dataset stage a", "datamove stage; datamove --help lists all"},
		{"drain n1", "datamove agent drain NODE"},
		{"lint a", "datamove policy lint; datamove --help lists all"},
		{"identity a", "datamove service identity; datamove --help lists all"},
		{"misrror a b", "datamove sync --delete SRC DST"},
		{"task describ 1", "datamove task show ID"},
		{"dsync a b", "datamove sync --delete SRC DST"},
		{"dcmp a b", "datamove verify SRC DST"},
		{"list s3://bucket", "datamove ls LOCATION; datamove task list and datamove dataset list say what a service has"},
		{"listremotes", cli.TierList},
		{"backup a b", "datamove sync SRC DST; datamove service backup FILE writes the records of a service"},
		{"task lst", "datamove task list; datamove task --help lists all"},
		{"help task lst", "datamove task list; datamove task --help lists all"},
		{"frobnicate", "datamove --help"},
		{"copy -r a b", "no -r: folders go with all that is below them"},
		{"copy --recursive a b", "no --recursive: folders go with all that is below them"},
		{"du -r a b", "datamove du --help"},
		{"copy --recusrive a b", "no --recusrive: folders go with all that is below them"},
		{"rm --recusrive a", "--recursive; datamove rm --help lists all"},
		{"copy --inplace a b", strings.Replace(atOnceAnswer, "%s", "--inplace", 1)},
		{"sync --partial-dir=x a b", strings.Replace(onwardAnswer, "%s", "--partial-dir", 1)},
		{"sync --remove-source-files a b", moveAnswer + " in place of --remove-source-files"},
		{"sync --backup a b", "--backup-dir in place of --backup"},
		{"copy --part-size 64 a b", strings.Replace(partsAnswer, "%s", "--part-size", 1)},
		{"copy --no-verify-ssl a b", "AWS_CA_BUNDLE, or ca: of a tier in place of --no-verify-ssl"},
		{"copy --storage-class GLACIER a b", strings.Replace(classAnswer, "%s", "--storage-class", 1)},
		{"copy --only-show-errors a b", "--quiet in place of --only-show-errors"},
		{"copy --follow-symlinks a b", "--follow in place of --follow-symlinks"},
		{"copy --chunksize 1M a b", strings.Replace(partsAnswer, "%s", "--chunksize", 1)},
		{"copy --retries 9 a b", strings.Replace(againAnswer, "%s", "--retries", 1)},
		{"copy --watch a b", strings.Replace(afreshAnswer, "%s", "--watch", 1)},
		{"task list --watch", "datamove task list --help"},
		{"copy -avz a b", strings.Replace(keptAnswer, "%s", "-a", 1) + "; no -z: nothing is compressed on the way"},
		{"sync -Pr a b", "no -P: progress is shown; --quiet turns it off; no -r: folders go with all that is below them"},
		{"copy --progress a b", "no --progress: progress is shown; --quiet turns it off"},
		{"copy --delete-after a b", "no --delete-after: copy removes nothing; datamove sync --delete SRC DST does"},
		{"copy --delete a b", "no --delete: copy removes nothing; datamove sync --delete SRC DST does"},
		{"copy -u a b", strings.Replace(newerAnswer, "%s", "-u", 1)},
		{"sync --update a b", strings.Replace(newerAnswer, "%s", "--update", 1)},
		{"verify --update a b", "datamove verify --help"},
		{"verify --size-only a b", "no --size-only: contents are compared by their checksums"},
		{"sync --delete-after a b", "--delete in place of --delete-after"},
		{"sync --delet a b", "--delete; datamove sync --help lists all"},
		{"copy --dryrun a b", "--dry-run; datamove copy --help lists all"},
		{"copy --dry a b", "--dry-run; datamove copy --help lists all"},
		{"rm -rf x", "--yes in place of -f"},
		{"ls -lh x", "no -l: sizes and times are printed"},
		{"task list --json", "--output json in place of --json"},
		{"copy --profile lab a b", "AWS_PROFILE, or credentials: of a tier in place of --profile"},
		{"copy --frobnicate a b", "datamove copy --help"},
		{"-V", "datamove version in place of -V"},
	} {
		code, stdout, stderr := newSession(t, nil).run(strings.Fields(row.line)...)
		if code != cli.ExitUsage || stdout != "" || !strings.HasSuffix(stderr, "\ntry: "+row.want+"\n") || strings.Count(stderr, "\n") != 2 {
			t.Errorf("%s: exit %d, %q, want %q", row.line, code, stderr, row.want)
		}
	}
	if code, stdout, _ := newSession(t, nil).run("--version"); code != 0 || !strings.HasPrefix(stdout, "datamove ") {
		t.Errorf("--version: exit %d, %q", code, stdout)
	}
}

// TestAnswersAreTrue: no word that is answered is one of ours, and what an answer names is there.
func TestAnswersAreTrue(t *testing.T) {
	root := New(&cli.App{})
	answers := slices.Collect(maps.Values(otherFlags))
	for word, answer := range otherCommands {
		answers = append(answers, answer)
		if cmd, rest, err := root.Find(strings.Fields(word)); err == nil && len(rest) == 0 {
			t.Errorf("%s is a command, and is answered", word)
		} else if path := strings.Fields(cmd.CommandPath()); len(path) != len(strings.Fields(word)) {
			t.Errorf("%s is asked for below %s", word, cmd.CommandPath())
		}
	}
	for _, answer := range answers {
		for i, part := range strings.Split(answer, "datamove ") {
			words := strings.Fields(part)
			if i == 0 || words[0] == "makes" {
				continue // what stands before the first command
			}
			cmd, rest, err := root.Find(strings.Fields(strings.TrimRight(words[0], ",;:") + " " + strings.TrimRight(words[min(1, len(words)-1)], ",;:")))
			if err != nil || cmd == root || cmd.HasSubCommands() && len(rest) > 0 {
				t.Errorf("there is no such command: %s", answer)
				continue
			}
			for _, w := range words {
				if option, is := strings.CutPrefix(strings.TrimRight(w, ",;:"), "--"); is && cmd.Flags().Lookup(option) == nil {
					t.Errorf("%s has no %s: %s", cmd.CommandPath(), w, answer)
				}
			}
		}
	}
}

// TestAdviceCanBeTaken: an option that is advised after an error belongs to commands that the advice names, since any command may have failed.
func TestAdviceCanBeTaken(t *testing.T) {
	root := New(&cli.App{})
	for _, try := range remedy.All() {
		for _, word := range strings.FieldsFunc(try, func(r rune) bool { return strings.ContainsRune(" ,;:()=", r) }) {
			option, is := strings.CutPrefix(word, "--")
			if !is {
				continue
			}
			named := 0
			for _, cmd := range root.Commands() {
				if !slices.Contains(strings.Fields(strings.ReplaceAll(try, ",", "")), cmd.Name()) {
					continue
				}
				if named++; cmd.Flags().Lookup(option) == nil {
					t.Errorf("%s has no --%s: %s", cmd.Name(), option, try)
				}
			}
			if named == 0 {
				t.Errorf("whose --%s it is says nothing: %s", option, try)
			}
		}
	}
}
