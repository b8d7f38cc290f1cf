// Package volume is what is written about volumes, and nothing that is done with them. It has their
// IDs, the parameters of a StorageClass, the attributes of a volume, which pods may have which of
// them, and which mount options a user may ask for.
//
// Its words: a volume has a [Kind]. A file system is named as in the driver's configuration, and never by a path. An
// [ID] says kind, file system and a number made of the volume's name, so that making it twice is making it
// once; where it lies, and what it may hold, is in the volume. [Parameters] are what a StorageClass
// says, [Attributes] what a PersistentVolume or a pod says.
//
// All of it is pure, and everything that comes in is taken for hostile: what is not in a
// table here is refused by its name. Errors are mover.ErrUsage or mover.ErrPermission.
//
// The fuzz tests hold that whatever is taken prints as it was read, and that nothing which is taken can
// leave the directory of its file system.
package volume
