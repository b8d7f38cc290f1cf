// Package archive keeps the contents of open files in a backend, each under a key, and gives
// them back into open files.
//
// # Words
//
// An [Archive], or vault, is a backend that holds copies. An [Item] is one open file with the key of its
// copy. What is kept beside the bytes are the facts of the file, where it was (its origin),
// and the CRC-64/NVME of its content.
//
// # Promises
//
//   - A copy is replaced in one step: a reader of a key gets the old content or the new
//     one, whole. The old one stays when the new one can not be made, when the file changed
//     while it was read, and when [Item.Mine] says no right before the step. A store with
//     conditional writes replaces a content of one part only while the old copy is the one
//     that was there at the beginning.
//   - A copy that Put has reported is on stable storage, and was compared: by the store, or
//     by being read again past the cache.
//   - A backend that was emptied, or is not mounted, is not taken for a vault, nor one with
//     the copies of another file system: see [IdentityKey] and [ForKey].
//   - Get compares every byte with the checksum that was taken when the copy was made. A
//     copy that differs, has another size, or has no checksum, is [mover.ErrCorrupt].
//   - All methods may be called from many goroutines, for different keys.
//   - After a crash nothing half is visible. What was being written is found by the notes
//     in [Options.StateDir] and removed by the next [Open] with the same owner. A power cut
//     may take a note along; a store should end uploads that are days old by itself.
//
// Where the backend keeps no checksum for the whole of an object, that of an object of many
// parts is written by a copy that the store makes of it; see package s3. The callers decide on
// actions and on the meaning of keys. Bytes are moved by transfer. The tests
// run over directories, memory and a real store.
package archive
