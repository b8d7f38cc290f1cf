package units

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// ParseSpan reads a length of time: as Go writes it (90s, 1h30m), or in days or
// weeks (7d, 2w).
func ParseSpan(s string) (time.Duration, error) {
	for unit, of := range map[string]time.Duration{"d": day, "w": 7 * day} {
		number, ok := strings.CutSuffix(s, unit)
		n, err := strconv.ParseInt(number, 10, 32)
		if ok && err == nil && n > 0 && time.Duration(n) <= maxSpan/of {
			return time.Duration(n) * of, nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 && d <= maxSpan {
		return d, nil
	}
	return 0, fmt.Errorf("want a length of time like 90s, 12h, 7d or 2w")
}

// maxSpan bounds a length of time: longer is a slip of the hand.
const maxSpan = 100 * 365 * day

// ParseDate reads a date, which begins at midnight here, or a moment.
func ParseDate(s string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", "2006-01-02T15:04", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("want a date like 2027-01-31, a moment like 2027-01-31T18:00, or a length of time like 30d")
}
