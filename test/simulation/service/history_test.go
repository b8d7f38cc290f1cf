package service

import (
	"math"
	"testing"

	"github.com/anishathalye/porcupine"

	"datamove.dev/mover/task"
)

// TestOrderOfCalls: the model of what callers are told admits what one order explains, and nothing else.
func TestOrderOfCalls(t *testing.T) {
	type op struct {
		verb, told string
		from, to   int64
	}
	done, cancelled := task.Done.String(), task.Cancelled.String()
	for name, c := range map[string]struct {
		object string
		ops    []op
		want   bool
	}{
		"one key is one task":                 {"key k", []op{{"submit", "a", 1, 4}, {"submit", "a", 2, 3}}, true},
		"one key is two tasks":                {"key k", []op{{"submit", "a", 1, 4}, {"submit", "b", 2, 3}}, false},
		"a lost answer is of the same task":   {"key k", []op{{"submit", lost, 1, math.MaxInt64}, {"submit", "a", 2, 3}, {"submit", "a", 4, 5}}, true},
		"a task ends by itself":               {"task t", []op{{"read", open, 1, 2}, {"read", done, 3, 4}, {"cancel", done, 5, 6}}, true},
		"a task that has ended is open again": {"task t", []op{{"cancel", cancelled, 1, 2}, {"read", open, 3, 4}}, false},
		"a task ends twice":                   {"task t", []op{{"read", done, 1, 2}, {"read", cancelled, 3, 4}}, false},
		"a cancel that is lost comes late":    {"task t", []op{{"cancel", lost, 1, math.MaxInt64}, {"read", open, 2, 3}, {"read", cancelled, 4, 5}}, true},
		"a lease that was given is there":     {"lease l", []op{{"acquire", is, 1, 2}, {"read", isNot, 3, 4}}, false},
		"a lease is given meanwhile":          {"lease l", []op{{"acquire", is, 1, 6}, {"read", isNot, 2, 3}, {"read", is, 4, 5}}, true},
		"a lease goes and comes":              {"lease l", []op{{"acquire", is, 1, 9}, {"read", is, 2, 3}, {"read", isNot, 4, 5}}, false},
		"a lease that was dropped is gone":    {"lease l", []op{{"acquire", is, 1, 2}, {"drop", isNot, 3, 4}, {"read", is, 5, 6}}, false},
		"a pin that was refused is not there": {"pin p", []op{{"acquire", refused, 1, 2}, {"read", is, 3, 4}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var history []porcupine.Operation
			for _, o := range c.ops {
				history = append(history, porcupine.Operation{Input: call{c.object, o.verb}, Call: o.from, Output: o.told, Return: o.to})
			}
			if got := porcupine.CheckOperations(model.ToModel(), history); got != c.want {
				t.Errorf("it has an order: %v, want %v", got, c.want)
			}
		})
	}
}
