package authz

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"sync"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// AccountOf is a caller as the owner of what it makes.
func AccountOf(c Caller) *datamovev1.Account {
	return &datamovev1.Account{Name: c.Name, Uid: c.UID}
}

// OwnerOf is an account as the rules have it.
func OwnerOf(a *datamovev1.Account, project string) Owner {
	return Owner{Name: a.GetName(), UID: a.GetUid(), Project: project}
}

// IsOwner reports whether an account is that of a caller.
func IsOwner(a *datamovev1.Account, c Caller) bool {
	return a.GetName() == c.Name && a.GetUid() == c.UID
}

// NameOf is the account of a caller in one word: its name, or "uid 1001".
func NameOf(c Caller) string {
	if c.Name != "" {
		return c.Name
	}
	return fmt.Sprintf("uid %d", c.UID)
}

// NameOfAccount is NameOf of an owner.
func NameOfAccount(a *datamovev1.Account) string {
	return NameOf(Caller{Name: a.GetName(), UID: a.GetUid()})
}

// Self is this process as a caller: what the service does by itself.
var Self = sync.OnceValue(func() Caller {
	c := Caller{UID: uint32(os.Geteuid()), Via: Local}
	if u, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil {
		c.Name = u.Username
	}
	return c
})

// MayUseAt reports why a caller may not use a location through a project; "" is any of its own.
func (r *Rules) MayUseAt(c Caller, project, at string, write bool) error {
	_, err := r.Through(c, project, at, write)
	return err
}

// Through is the project through which a caller may use a location: the one that is named, or one of its own.
func (r *Rules) Through(c Caller, project, at string, write bool) (string, error) {
	projects := []string{project}
	if mine := r.Projects(c); project == "" && len(mine) > 0 {
		projects = mine
	}
	var d Decision
	for _, p := range projects {
		if d = r.MayUse(c, p, at, write); d.Allowed {
			return p, nil
		}
	}
	return "", &mover.Error{Op: "use", Location: at, Err: d.Err()}
}
