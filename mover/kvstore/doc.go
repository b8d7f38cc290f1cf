// Package kvstore is what a directory with a Badger store needs beside Badger. The packages that keep state on this host's disk
// (journal, ledger, catalog) open it through here.
//
// Badger does not survive some failures: a full disk is a fatal signal, because it writes to mappings of sparse files.
// Some kinds of damage are panics, others end the process. Here a full disk is mover.ErrFull before anything is written
// ([Lock.Room], [Reserve], [Ballast]), damage is mover.ErrCorrupt ([Open], [Verify], [Caught]), and openings that end the process are
// counted ([Lock.Opening]), so that the next one knows.
//
// What the entries mean, and what is done about damage, is left to the owner of the directory, with the tests that break files,
// fill disks and kill processes.
package kvstore
