// Package spelling says which of some words somebody probably meant: what is refused as unknown is mostly misspelled. It is pure.
package spelling

import "strings"

// wordMost is how long a word can be. Longer ones are far from all of ours.
const wordMost = 64

// Nearest returns the word that is the nearest to a name, whatever their case: at most two letters of it, and not all, are to be added, removed or
// changed. Of several it is the first; "" is none.
func Nearest(name string, words []string) string {
	best, least := "", 3
	for _, w := range words {
		if d := distance(strings.ToLower(name), strings.ToLower(w)); d < least && d < len(w) {
			best, least = w, d
		}
	}
	return best
}

// distance is the number of letters to add, remove or change between a and b (Levenshtein).
func distance(a, b string) int {
	if len(a) > wordMost || len(b) > wordMost {
		return len(a) + len(b)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
