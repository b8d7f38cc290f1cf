package directive

import (
	"fmt"
	"strings"
	"testing"
)

// TestDataWarp reads what users of DataWarp and Rabbit have in their scripts.
func TestDataWarp(t *testing.T) {
	const striped = "#DW jobdw type=scratch access_mode=striped capacity=10GiB\n"
	const fast = "#DW jobdw type=xfs capacity=10GB name=fast-storage\n"
	for _, row := range []struct{ name, lines, want, variables string }{
		{"space only", striped, "dw\n#DW jobdw type=scratch capacity=10GiB", "DW_JOB_STRIPED=scratch:DW_JOB_STRIPED/"},
		{"no mode is striped", "#DW jobdw capacity=1TiB type=scratch", "dw\n#DW jobdw type=scratch capacity=1TiB", "DW_JOB_STRIPED=scratch:DW_JOB_STRIPED/"},
		{"private", "#DW jobdw access_mode=private capacity=1289GiB type=scratch pool=sm_pool", "dw\n#DW jobdw type=scratch access_mode=private capacity=1289GiB", "DW_JOB_PRIVATE=scratch:DW_JOB_PRIVATE/"},
		{"both", "#DW jobdw type=scratch capacity=1500MB access_mode=striped,private", "dw\n#DW jobdw type=scratch access_mode=striped,private capacity=1500000000B", ""},
		{"Rabbit", fast, "dw\n#DW jobdw type=xfs capacity=9765625KiB name=fast-storage", "DW_JOB_fast_storage=scratch:DW_JOB_fast_storage/"},
		{"Rabbit's profiles", "#DW jobdw type=lustre capacity=1TB name=temp profile=high-metadata", "dw\n#DW jobdw type=lustre capacity=976562500KiB name=temp", "DW_JOB_temp=scratch:DW_JOB_temp/"},
		{"a directory in", striped + "#DW stage_in type=directory source=/lus/me/in destination=$DW_JOB_STRIPED/in",
			"stage-in=/lus/me/in to=scratch:DW_JOB_STRIPED/in required\ndw\n#DW jobdw type=scratch capacity=10GiB", ""},
		{"a directory out, before its space", "#DW stage_out type=directory source=${DW_JOB_STRIPED}/out/ destination=/lus/me/out\n" + striped,
			"stage-out=scratch:DW_JOB_STRIPED/out/ to=/lus/me/out\ndw\n#DW jobdw type=scratch capacity=10GiB", ""},
		{"all of it", striped + "#DW stage_out type=directory source=$DW_JOB_STRIPED/ destination=/lus/me/out",
			"stage-out=scratch:DW_JOB_STRIPED/ to=/lus/me/out\ndw\n#DW jobdw type=scratch capacity=10GiB", ""},
		{"a file by its name", striped + "#DW stage_in type=file source=/lus/me/a destination=$DW_JOB_STRIPED/b",
			"stage-in=/lus/me/a to=scratch:DW_JOB_STRIPED/b required\ndw\n#DW jobdw type=scratch capacity=10GiB", ""},
		{"files into the space", striped + "#DW stage_in type=file source=/lus/me/a destination=$DW_JOB_STRIPED\n#DW stage_in type=file source=/lus/me/b destination=$DW_JOB_STRIPED/",
			"stage-in=/lus/me/a to=scratch:DW_JOB_STRIPED/a required\nstage-in=/lus/me/b to=scratch:DW_JOB_STRIPED/b required\ndw\n#DW jobdw type=scratch capacity=10GiB", ""},
		{"Rabbit's copies", fast + "#DW copy_in source=/lus/me/in destination=$DW_JOB_fast_storage/in profile=no-xattr\n#DW copy_out source=$DW_JOB_fast-storage/out destination=/lus/me/out",
			"stage-in=/lus/me/in to=scratch:DW_JOB_fast_storage/in required\nstage-out=scratch:DW_JOB_fast_storage/out to=/lus/me/out\ndw\n#DW jobdw type=xfs capacity=9765625KiB name=fast-storage", ""},
		{"beside ours", striped + "#DATAMOVE dw\n#DATAMOVE stage-in=dataset:x to=scratch:DW_JOB_STRIPED/x", "stage-in=dataset:x to=scratch:DW_JOB_STRIPED/x\ndw\n#DW jobdw type=scratch capacity=10GiB", ""},
		{"our places", striped + "#DW stage_in type=directory source=project:in destination=$DW_JOB_STRIPED/in",
			"stage-in=project:in to=scratch:DW_JOB_STRIPED/in required\ndw\n#DW jobdw type=scratch capacity=10GiB", ""},
		{"a line that goes on", "#DW jobdw type=scratch \\\n#DW capacity=10GiB", "dw\n#DW jobdw type=scratch capacity=10GiB", ""},
	} {
		job, err := Parse(script(row.lines), site)
		if err != nil || printed(job) != row.want {
			t.Errorf("%s: %q, %v; want %q", row.name, printed(job), err, row.want)
		}
		var variables []string
		for _, v := range job.Variables() {
			variables = append(variables, fmt.Sprintf("%s=%s", v.Name, v.At))
		}
		if got := strings.Join(variables, " "); row.variables != "" && got != row.variables {
			t.Errorf("%s: variables %s; want %s", row.name, got, row.variables)
		}
	}
}

func TestDataWarpMistakes(t *testing.T) {
	const striped = "#DW jobdw type=scratch access_mode=striped capacity=10GiB"
	for _, row := range []struct{ name, line, want string }{
		{"no command", "#DW", "script line 2: it has no command"},
		{"no command, but words", "#DW type=scratch", "it has no command"},
		{"a wrong command", "#DW stage-in type=file", "column 5: stage-in: unknown command (did you mean stage_in?)"},
		{"persistent", "#DW persistentdw name=x", "column 5: persistentdw: there is no such thing here (keep the data as a dataset"},
		{"made persistent", "#DW create_persistent name=x capacity=1GB type=xfs", "create_persistent: there is no such thing here"},
		{"as Slurm wanted it", "#BB create_persistent name=x capacity=1GB access=striped", "column 5: create_persistent: there is no such thing here"},
		{"destroyed", "#BB destroy_persistent name=x hurry", "destroy_persistent: there is no such thing here"},
		{"swap", "#DW swap 3TiB", "swap: there is no such thing here (ask Slurm for memory"},
		{"container", "#DW container name=x profile=y", "container: there is no such thing here"},
		{"cache", "#DW jobdw type=cache access_mode=striped pfs=/lus/me capacity=1GiB", "column 11: type: nothing here is a cache"},
		{"cache of scratch", "#DW jobdw type=scratch pfs=/lus/me capacity=1GiB", "pfs: nothing here is a cache"},
		{"raw", "#DW jobdw type=raw capacity=1GiB name=x", "type: there are no bare devices here"},
		{"a wrong type", "#DW jobdw type=ext4 capacity=1GiB name=x", "type: it is none of scratch"},
		{"copy offload", "#DW jobdw type=gfs2 capacity=1GiB name=x requires=copy-offload", "requires: programs can not ask for copies"},
		{"no type", "#DW jobdw capacity=1GiB", "it has no type="},
		{"no capacity", "#DW jobdw type=scratch", "it has no capacity= (write #DW jobdw"},
		{"capacity without unit", "#DW jobdw type=scratch capacity=48", "column 24: capacity: it has no unit"},
		{"no capacity at all", "#DW jobdw type=scratch capacity=0GB", "it has no unit, or is nothing"},
		{"capacity as a word", "#DW jobdw type=scratch capacity=much", "want a number with a unit"},
		{"capacity beyond all", "#DW jobdw type=scratch capacity=99999999TB", "more than can be counted"},
		{"a wrong mode", "#DW jobdw type=scratch capacity=1GB access_mode=ldbalance", "access_mode: it is striped, private"},
		{"a mode twice", "#DW jobdw type=scratch capacity=1GB access_mode=striped,striped", "access_mode: it is striped, private"},
		{"a mode of xfs", "#DW jobdw type=xfs capacity=1GB name=x access_mode=private", "access_mode: it belongs to type=scratch"},
		{"no name", "#DW jobdw type=xfs capacity=1GB", "type: space of this type has a name"},
		{"a wrong name", "#DW jobdw type=xfs capacity=1GB name=../x", "name: a name has up to 63 letters"},
		{"a wrong key", "#DW jobdw type=scratch capcity=1GB", "capcity: unknown key (did you mean capacity?)"},
		{"a key twice", "#DW jobdw type=scratch type=scratch capacity=1GB", "type: it stands here twice"},
		{"a key without value", "#DW jobdw type= capacity=1GB", "type: it has to have a value"},
		{"a comment", "#DW jobdw type=scratch capacity=1GB # mine", "a comment does not stand behind"},
		{"twice the same variable", striped + "\n" + striped, "script line 3: jobdw: another line makes $DW_JOB_STRIPED, too"},
		{"names that are one as variables", "#DW jobdw type=xfs capacity=1GB name=a-b\n#DW jobdw type=xfs capacity=1GB name=a_b", "another line makes $DW_JOB_a_b"},
		{"no space", "#DW stage_in type=file source=/lus/a destination=$DW_JOB_STRIPED/a", "destination: no jobdw line makes $DW_JOB_STRIPED (add a line before it: #DW jobdw"},
		{"other space", striped + "\n#DW stage_in type=file source=/lus/a destination=$DW_JOB_PRIVATE/a", "no jobdw line makes $DW_JOB_PRIVATE"},
		{"persistent space", striped + "\n#DW copy_in source=$DW_PERSISTENT_x/a destination=$DW_JOB_STRIPED/a", "source: there is no persistent space here"},
		{"a variable of the shell", striped + "\n#DW copy_in source=$HOME/a destination=$DW_JOB_STRIPED/a", "source: no jobdw line makes $HOME (write %u for the user"},
		{"a variable of the shell behind", striped + "\n#DW copy_in source=/home/$USER destination=$DW_JOB_STRIPED/a", "variables of the shell"},
		{"an open brace", striped + "\n#DW copy_in source=/lus/a destination=${DW_JOB_STRIPED/a", "variables of the shell"},
		{"a list", striped + "\n#DW stage_in type=list source=/lus/list", "it has no destination="},
		{"a list with all", striped + "\n#DW stage_in type=list source=/lus/list destination=$DW_JOB_STRIPED", "type: a list of files is not read here (write a line for each"},
		{"a wrong kind", striped + "\n#DW stage_in type=tree source=/lus/a destination=$DW_JOB_STRIPED", "type: it is neither file nor directory"},
		{"no kind", striped + "\n#DW stage_in source=/lus/a destination=$DW_JOB_STRIPED", "it has no type="},
		{"in from the space", striped + "\n#DW copy_in source=$DW_JOB_STRIPED/a destination=$DW_JOB_STRIPED/b", "source: what is brought in comes from elsewhere"},
		{"in to elsewhere", striped + "\n#DW copy_in source=/lus/a destination=/lus/b", "destination: what is brought in goes to $DW_JOB_..."},
		{"out from elsewhere", striped + "\n#DW copy_out source=/lus/a destination=/lus/b", "source: what is brought in comes from elsewhere, and what is brought out is in"},
		{"out to the space", striped + "\n#DW copy_out source=$DW_JOB_STRIPED/a destination=$DW_JOB_STRIPED/b", "destination: what is brought in goes to"},
		{"out of the space", striped + "\n#DW copy_in source=/lus/a destination=$DW_JOB_STRIPED/../x", "it leads out of the job's space"},
		{"a relative path", striped + "\n#DW copy_in source=a destination=$DW_JOB_STRIPED/a", "source: a path begins with /"},
		{"a directory and a file in it", striped + "\n#DW stage_in type=directory source=/lus/a destination=$DW_JOB_STRIPED\n#DW stage_in type=file source=/lus/b destination=$DW_JOB_STRIPED/b", "script line 4, column 38: destination: the target is that of another request"},
		{"the disk of a node", striped + "\n#DW copy_out source=$DW_JOB_STRIPED/a destination=/tmp/a", "would be seen there only"},
	} {
		expect(t, row.name, row.want, row.line)
	}
	// A wrong line has no mistakes in its wake.
	_, err := Parse(script("#DW jobdw type=scratch capacity=x\n#DW copy_in source=/lus/a destination=$DW_JOB_STRIPED/a\n#DW copy_out source=$DW_JOB_STRIPED/b destination=/lus/b"), site)
	if err == nil || strings.Count(err.Error(), "\n") != 0 {
		t.Errorf("%v", err)
	}
	if _, err := Parse(script(striped), Tiers{}); err == nil || !strings.Contains(err.Error(), "jobdw: there is no tier that is node-local and ephemeral") {
		t.Errorf("no tier: %v", err)
	}
}

func TestBytes(t *testing.T) {
	job, err := Parse(script("#DW jobdw type=xfs capacity=10GB name=a", "#DW jobdw type=xfs capacity=1KiB name=b"), site)
	if err != nil || job.Bytes() != 10e9+1024 {
		t.Errorf("%d bytes, %v", job.Bytes(), err)
	}
	job, err = Parse(script("#DW jobdw type=xfs capacity=8000PiB name=a", "#DW jobdw type=xfs capacity=8000PiB name=b"), site)
	if err != nil || job.Bytes() != 1<<63-1 {
		t.Errorf("%d bytes, %v", job.Bytes(), err)
	}
}
