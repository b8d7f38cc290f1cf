// Package spelling finds the word that was probably meant: what is refused as unknown is mostly misspelled. It is pure.
package spelling

import "strings"

// wordMost is how long a word can be. Longer ones are far from all of ours.
const wordMost = 64

// Nearest returns the word that is the nearest to a name, whatever their case: at most two letters, and half of the shorter one, are to be added, removed or
// changed, or two neighbours exchanged. Of several it is the first; "" is none.
func Nearest(name string, words []string) string {
	best, least := "", 3
	for _, w := range words {
		if d := distance(strings.ToLower(name), strings.ToLower(w)); d < least && 2*d <= min(len(name), len(w)) {
			best, least = w, d
		}
	}
	return best
}

// Question asks whether the nearest word was meant; "" is none.
func Question(name string, words []string) string {
	best := Nearest(name, words)
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

// distance is the number of letters to add, remove or change between a and b, or of neighbours to exchange (optimal string alignment).
func distance(a, b string) int {
	if len(a) > wordMost || len(b) > wordMost {
		return len(a) + len(b)
	}
	var before, above []int // the rows of the two letters of a before this one
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, above, row = above, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := above[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, row[j]+1, above[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
