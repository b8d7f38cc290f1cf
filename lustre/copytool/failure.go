package copytool

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// Why an action ends before its end.
var (
	errCancelled = &Failure{unix.ECANCELED, false, errors.New("it was cancelled")}
	errLost      = &Failure{unix.ECANCELED, false, errors.New("the MDT has given it up, or to somebody else")}
	errStopping  = &Failure{unix.EAGAIN, true, errors.New("this copytool stops")}
	errKilled    = &Failure{unix.EAGAIN, true, errors.New("this copytool was killed in it three times")}
	errChanged   = &Failure{unix.EBUSY, true, errors.New("the file is written while it is archived")}
	errEncrypted = &Failure{unix.EOPNOTSUPP, false, errors.New("the file is encrypted: who reads the archive would read it, and what comes back would be encrypted for another one")}

	// Mistakes of the MDT that hands actions out.
	errOther   = &Failure{unix.ENXIO, true, errors.New("it is for an archive that is not served here")}
	errUnknown = &Failure{unix.EOPNOTSUPP, false, errors.New("an action of a kind that is not known")}
)

// failure is what the MDT is told of an error.
func failure(ctx context.Context, err error) *Failure {
	var f *Failure
	var errno unix.Errno
	switch cause := context.Cause(ctx); {
	case cause != nil && errors.As(cause, &f): // whatever it has led to
		return &Failure{f.Errno, f.Retry, f.Err}
	case errors.As(err, &f):
		return &Failure{f.Errno, f.Retry, err}
	case errors.As(err, &errno) && errno > 0 && errno < 4096:
		return &Failure{errno, passes[errno], err}
	}
	return &Failure{unix.EIO, false, err}
}

// passes are the errors of the kernel after which the same action may go well later.
var passes = map[unix.Errno]bool{
	unix.EAGAIN: true, unix.ENOSPC: true, unix.EDQUOT: true, unix.ENOMEM: true, unix.ETIMEDOUT: true, unix.ENOTCONN: true, unix.ESHUTDOWN: true, unix.EHOSTUNREACH: true,
}

// mostErrno is the largest error that a record of changes has room for: an MDT answers a larger one
// with EINVAL (CLF_HSM_MAXERROR of lustre_user.h, lustre/mdt/mdt_coordinator.c, 2.15 to 2.17).
const mostErrno = 0x7e

// told is what an MDT is told of an error.
func told(errno unix.Errno) unix.Errno {
	if errno > mostErrno {
		return unix.EIO
	}
	return errno
}

// patience is how often the actions of this time were begun for nothing because their file
// was written meanwhile.
type patience struct {
	mu    sync.Mutex
	tries map[identity]int // guarded by mu, at most patienceMost
}

const (
	patienceMost = 4096
	triesMost    = 3
)

// left counts a try and reports whether there may be another one.
func (p *patience) left(id identity) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tries == nil || len(p.tries) >= patienceMost {
		p.tries = map[identity]int{}
	}
	p.tries[id]++
	if p.tries[id] < triesMost {
		return true
	}
	delete(p.tries, id)
	return false
}
