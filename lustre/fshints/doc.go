// Package fshints answers what the mover asks of the file system below a backend
// ([mover.FileSystem]), with what package detect finds out about it: which layout a new
// file gets, what its parts are a multiple of, whether a content is in an archive only, and
// what a project may still hold where root is not held.
//
// What is decided is in three pure functions: [lustre.Advise] (which layout), worth (whether
// it is worth a call to the servers), and left (what a quota leaves). What clusters look like
// is asked once a minute, what a directory's own default is once for each directory.
//
// A directory with a default of its own keeps it: a user or administrator set it. So does every
// file for which the advice is what it would get anyway. An error of the file system never
// keeps a file from being made: it is then made in the usual way, and a note says so once. So
// it is where targets, or the layout of a directory, can not be asked for.
//
// Answers may be asked for by many goroutines; what is remembered is bounded, and lost with
// the process. TestCreate shows which files get a layout, TestAskedSeldom and
// TestAskedInVain how often a file system is asked.
package fshints
