package copytool

import (
	"bytes"
	"errors"
	"os"
)

// mark is a file that is there while this copytool is registered. An MDT has one copytool
// for each mount, and forgets a killed one only when it hands something out to it,
// each MDT by itself. Until all have, no other copytool is registered (EEXIST); where the
// others have nothing to hand out that is never. So the next process has to take the old
// registration back, and must not take that of another copytool. By the mark it knows that it
// is its own.
type mark string

// bootID names the time since the kernel was started, which no registration outlives.
const bootID = "/proc/sys/kernel/random/boot_id"

// left reports whether a process of ours was registered and has not taken that back.
func (m mark) left() bool {
	if m == "" {
		return false
	}
	was, err := os.ReadFile(string(m))
	now, nowErr := os.ReadFile(bootID)
	return err == nil && nowErr == nil && bytes.Equal(was, now)
}

func (m mark) set() error {
	if m == "" {
		return nil
	}
	boot, err := os.ReadFile(bootID)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.notes(), 0o700); err != nil {
		return err
	}
	return os.WriteFile(string(m), boot, 0o600)
}

func (m mark) clear() error {
	if m == "" {
		return nil
	}
	if err := os.Remove(string(m)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
