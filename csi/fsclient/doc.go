// Package fsclient is what the driver does with file systems, each call in a process that can be
// killed: [Files] is asked by the driver, [Methods] answers in a hand (package hand). What is
// done is in packages base and mount.
//
// A call has a limit, and goes on to its end or its limit when its caller has left: so who
// holds a lock around it knows that nothing of it goes on afterwards. Every call can be made again.
package fsclient
