// Package kvstore is what a directory with a Badger store needs beside Badger: whoever keeps something on this host's disk
// (journal, ledger, catalog) opens it through here.
//
// Badger is fast and meets a bad world badly: a full disk is a fatal signal, because it writes to mappings of sparse files;
// some kinds of damage are panics, others end the process. Here a full disk is mover.ErrFull before anything is written
// ([Lock.Room], [Reserve], [Ballast]), damage is mover.ErrCorrupt ([Open], [Verify], [Caught]), and openings that end the process are
// counted ([Lock.Opening]), so that the next one knows.
//
// What the entries mean, and what is done about damage, is left to who owns the directory; the tests that break files, fill
// disks and kill processes are theirs.
package kvstore
