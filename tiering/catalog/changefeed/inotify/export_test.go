package inotify

// Stall has do called before the kernel's queue is read.
func (o Options) Stall(do func()) Options {
	o.stall = do
	return o
}
