package cli

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
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

// commandWords are the commands that begin tasks of each kind. For a look there is none.
var commandWords = map[pb.TaskKind]string{
	pb.TaskKind_TASK_KIND_COPY: "copy", pb.TaskKind_TASK_KIND_SYNC: "sync", pb.TaskKind_TASK_KIND_VERIFY: "verify",
	pb.TaskKind_TASK_KIND_REMOVE: "rm", pb.TaskKind_TASK_KIND_DESCRIBE: "dataset add", pb.TaskKind_TASK_KIND_STAGE: "stage", pb.TaskKind_TASK_KIND_SCAN: "tier scan", pb.TaskKind_TASK_KIND_FOLLOW: "tier follow", pb.TaskKind_TASK_KIND_CHECKPOINTS: "tier checkpoints", pb.TaskKind_TASK_KIND_RETAIN: "checkpoint prune", pb.TaskKind_TASK_KIND_TIER: "policy run", pb.TaskKind_TASK_KIND_UNDO: "policy undo",
	pb.TaskKind_TASK_KIND_BURST: "burst", pb.TaskKind_TASK_KIND_RELEASE: "release", pb.TaskKind_TASK_KIND_PURGE: "purge", pb.TaskKind_TASK_KIND_LOOK: "look",
}

// commandOf is how a person would ask for a task of that kind.
func commandOf(kind pb.TaskKind) string {
	if command, ok := commandWords[kind]; ok {
		return command
	}
	return word(kind, "TASK_KIND_")
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
