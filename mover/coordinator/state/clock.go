package state

import "time"

// counterTime is the latest time that a change was made by, in nanoseconds since 1970.
const counterTime = "time"

// LastTime is the latest time by which anything was decided to have ended. The next
// decision continues from there, wherever the clock of the machine is by then.
func LastTime(tx *Tx) (time.Time, error) {
	n, err := counter(tx, counterTime)
	return time.Unix(0, int64(n)).UTC(), err
}

// SetLastTime stores with a change the time that it was made by. An earlier one than
// is there changes nothing.
func SetLastTime(tx *Tx, t time.Time) error {
	n, err := counter(tx, counterTime)
	if now := t.UnixNano(); err == nil && now > int64(n) {
		err = setCounter(tx, counterTime, uint64(now))
	}
	return err
}
