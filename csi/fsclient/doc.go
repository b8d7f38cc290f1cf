// Package fsclient is what the driver does with file systems, each call in a process that can be
// killed. [Files] is asked by the driver, [Methods] answers in a worker process (package fsworker). What is
// done is in packages volumestore and mount.
//
// A call has a limit, and goes on to its end or its limit when its caller has left. So the holder
// of a lock around it knows that nothing of it goes on afterwards. Every call can be made again.
package fsclient
