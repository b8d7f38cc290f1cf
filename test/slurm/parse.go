package slurm

import (
	"fmt"
	"strings"
)

// Job is what Slurm says of one, in its words.
type Job struct {
	ID, Name, State, Reason, Nodes        string
	Comment, AdminComment, SystemComment  string // "" when there is none
	BurstBuffer, Priority, Restarts, Exit string
	BurstBufferState                      string // as staging-in, pre-run, running, staging-out, complete
	ArrayID, ArrayTask                    string
}

// alone are fields with a line of their own, whose values may have blanks.
var alone = []string{"Comment", "AdminComment", "SystemComment", "BurstBuffer", "Command", "WorkDir", "StdErr", "StdIn", "StdOut"}

// parseJob reads one record of scontrol show job.
func parseJob(text string) (Job, error) {
	f := map[string]string{}
	last := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		inner, indented := strings.CutPrefix(line, "   ")
		switch {
		case line == "":
			last = ""
		case !indented && f["JobId"] != "":
			f[last] += "\n" + strings.TrimSuffix(line, " ") // of a value that has several
		default:
			last = fields(f, inner)
		}
	}
	if f["JobId"] == "" {
		return Job{}, fmt.Errorf("no job in %q", text)
	}
	return Job{ID: f["JobId"], Name: f["JobName"], State: f["JobState"], Reason: f["Reason"], Nodes: f["NodeList"], Comment: f["Comment"], AdminComment: f["AdminComment"],
		SystemComment: f["SystemComment"], BurstBuffer: f["BurstBuffer"], Priority: f["Priority"], Restarts: f["Restarts"], Exit: f["ExitCode"], BurstBufferState: f["BurstBufferState"],
		ArrayID: f["ArrayJobId"], ArrayTask: f["ArrayTaskId"]}, nil
}

// fields adds those of a line, and returns the name of the last. Words without a name belong to the value before.
func fields(f map[string]string, line string) (last string) {
	for _, name := range alone {
		if value, is := strings.CutPrefix(line, name+"="); is {
			f[name] = known(value)
			return name
		}
	}
	for word := range strings.SplitSeq(line, " ") {
		name, value, is := strings.Cut(word, "=")
		switch {
		case is:
			f[name], last = known(value), name
		case last != "" && word != "":
			f[last] += " " + word
		}
	}
	return last
}

// known is a value, and "" for that of Slurm for none.
func known(value string) string {
	value = strings.TrimSuffix(value, " ") // that of comments
	if value == "(null)" {
		return ""
	}
	return value
}

// Node is what Slurm says of one: IDLE, ALLOCATED, IDLE+DRAIN, DOWN+NOT_RESPONDING.
type Node struct{ Name, State, Reason string }

// parseNodes reads scontrol --oneliner show node.
func parseNodes(text string) (nodes []Node) {
	for line := range strings.Lines(text) {
		line, reason, _ := strings.Cut(strings.TrimSpace(line), " Reason=")
		f := map[string]string{}
		fields(f, line)
		if f["NodeName"] != "" {
			nodes = append(nodes, Node{f["NodeName"], f["State"], reason})
		}
	}
	return nodes
}
