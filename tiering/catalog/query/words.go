package query

import (
	"fmt"
	"slices"
	"strings"

	"datamove.dev/mover"
)

// read reads a word that has to be one of some.
func read[T ~string](what string, word T, of []T) (T, error) {
	if slices.Contains(of, word) {
		return word, nil
	}
	words := make([]string, len(of))
	for i, w := range of {
		words[i] = string(w)
	}
	return "", fmt.Errorf("%w: %s is not %s; want %s", mover.ErrUsage, mover.Printable(string(word)), what, strings.Join(words, ", "))
}

func twice(word string) error {
	return fmt.Errorf("%w: %s comes twice", mover.ErrUsage, mover.Printable(word))
}
