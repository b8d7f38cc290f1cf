package cli

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/units"
)

// Word is a value of the API as people write it: TASK_STATE_RUNNING is running.
func Word(value fmt.Stringer, prefix string) string {
	return strings.ToLower(strings.TrimPrefix(value.String(), prefix))
}

// StateWord is the state of a task.
func StateWord(s pb.TaskState) string { return Word(s, "TASK_STATE_") }

// ClassWord is the class of a task; "" is none.
func ClassWord(c pb.TaskClass) string { return unspecified(Word(c, "TASK_CLASS_")) }

// LevelWord is a level of verification; "" is none.
func LevelWord(l pb.Level) string { return unspecified(Word(l, "LEVEL_")) }

func unspecified(word string) string {
	if word == "unspecified" {
		return ""
	}
	return word
}

// Stamp is a time for machines; nil when it is not known.
func Stamp(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	at := t.AsTime()
	return &at
}

// Ago is how long ago something was, for people.
func Ago(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	passed := max(0, time.Since(t.AsTime()))
	if passed < time.Minute {
		return fmt.Sprintf("%ds", int(passed.Seconds()))
	}
	return units.Duration(passed.Truncate(time.Second))
}

// Moment is a time for people.
func Moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Local().Format("2006-01-02 15:04:05")
}

// OrDash is text, or a dash.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// BytesOrDash prints a number of bytes, or a dash for 0.
func BytesOrDash(n int64) string {
	if n == 0 {
		return "-"
	}
	return units.Bytes(n)
}

// ShellWord is text as one word of a shell.
func ShellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:=,+@%", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// ShellLine is a command as a shell reads it.
func ShellLine(args ...string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = ShellWord(arg)
	}
	return strings.Join(words, " ")
}

// Age is how long ago a time in ns was.
func Age(made int64) string {
	if made == 0 {
		return "-"
	}
	return units.Duration(max(0, time.Since(time.Unix(0, made))).Truncate(time.Second))
}
