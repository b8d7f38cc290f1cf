package convert

import (
	"strings"

	"datamove.dev/mover"
)

// The most of labels in a request.
const (
	MaxLabels = 32
	MaxLabel  = 256 // bytes of a label and its value
)

// CheckLabels refuses labels that are too many, too long or empty.
func CheckLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return mover.Usagef("%d labels; at most %d", len(labels), MaxLabels)
	}
	for k, v := range labels {
		if k == "" || len(k)+len(v) > MaxLabel || strings.ContainsRune(k, 0) {
			return mover.Usagef("the label %q is empty or longer than %d letters", k, MaxLabel)
		}
	}
	return nil
}
