//go:build !race

package service

// raced is with the race detector.
const raced = false
