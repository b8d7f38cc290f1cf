// Package system finds out which file system a path is on, and who answers for it.
package system
