package cli

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cmp"

	pb "datamove.dev/api/datamove/v1"
	tasks "datamove.dev/mover/task"
	"datamove.dev/mover/units"
)

// word is a value of the API as people write it: TASK_STATE_RUNNING is running.
func word(value fmt.Stringer, prefix string) string {
	return strings.ToLower(strings.TrimPrefix(value.String(), prefix))
}

func stateWord(s pb.TaskState) string      { return word(s, "TASK_STATE_") }
func classWord(c pb.TaskClass) string      { return unspecified(word(c, "TASK_CLASS_")) }
func levelWord(l pb.Level) string          { return unspecified(word(l, "LEVEL_")) }
func replicaWord(s pb.ReplicaState) string { return word(s, "REPLICA_STATE_") }
func agentWord(s pb.AgentState) string     { return word(s, "AGENT_STATE_") }

func unspecified(word string) string {
	if word == "unspecified" {
		return ""
	}
	return word
}

// commandOf is how a person would ask for a task of that kind.
func commandOf(kind pb.TaskKind) string {
	return cmp.Or(tasks.KindOf(kind).Command, tasks.KindWord(kind))
}

// stamp is a time for machines; nil when it is not known.
func stamp(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	at := t.AsTime()
	return &at
}

// ago is how long ago something was, for people.
func ago(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	passed := max(0, time.Since(t.AsTime()))
	if passed < time.Minute {
		return fmt.Sprintf("%ds", int(passed.Seconds()))
	}
	return units.Duration(passed.Truncate(time.Second))
}

// moment is a time for people.
func moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Local().Format("2006-01-02 15:04:05")
}

// known is text, or a dash.
func known(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// bytesKnown prints a number of bytes, or a dash for 0.
func bytesKnown(n int64) string {
	if n == 0 {
		return "-"
	}
	return units.Bytes(n)
}

// shellWord is text as one word of a shell.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:=,+@%", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// shellLine is a command as a shell reads it.
func shellLine(args ...string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = shellWord(arg)
	}
	return strings.Join(words, " ")
}

// age is how long ago a time in ns was.
func age(made int64) string {
	if made == 0 {
		return "-"
	}
	return units.Duration(max(0, time.Since(time.Unix(0, made))).Truncate(time.Second))
}
