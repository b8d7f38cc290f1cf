//go:build tools

// Package tools pins s5cmd, a peer that we are measured against. It is a module of
// its own because "go install" of this version can not look up its deprecation.
package tools

import _ "github.com/peak/s5cmd/v2"
