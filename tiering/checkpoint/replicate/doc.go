// Package replicate brings checkpoints from one place to another, and back.
//
// Its words: a folder is an opened directory or prefix that has checkpoints; a hop is one target of a watch; a save is one state of a
// checkpoint, named by the names, sizes and times of its files; a record is the commit that a hop writes with a copy (checkpoint.Committed): what is in
// it, how it was checked, and of which save it is.
//
// On a target a checkpoint is not there, or whole. On a file system it is built as NAME.incomplete-0, which no framework takes for one, and renamed
// with its record in it; an older save of that name is exchanged for it. A store can not rename: there the mark of the framework and the record come last, and a
// name that is there is not written over. Trackers come when what they name is verified there. A source that changes while it is copied makes
// the copy worthless, and it begins again; one that is gone is [ErrSuperseded]. What was copied before a kill is not sent
// again. Every byte is checked: by the store, or by reading it again.
//
// In an [Alarm], when the machine or the job is about to go, the newest complete checkpoint goes before all others, and what is not complete is never sent for
// it; TestAlarm shows it.
//
// Bytes are moved by mover/engine; what is complete, and what stays, tiering/checkpoint decides. A [Watch] has a goroutine for each hop, so that a slow one
// holds no other. Memory is that of one checkpoint's names for each hop, and the engine's. TestCarry, TestKilled and TestWatch show it.
package replicate
