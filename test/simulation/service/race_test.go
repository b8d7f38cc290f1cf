//go:build race

package service

// raced is with the race detector, which makes a world take five times as long.
const raced = true
