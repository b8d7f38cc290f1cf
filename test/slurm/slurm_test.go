package slurm

import "testing"

func TestMain(m *testing.M) { Main(m) }

func TestSmoke(t *testing.T) {
	c := Start(t, Options{})
	id := c.MustSubmit(Anna, "#!/bin/sh\nsrun sh -c 'hostname; id; env | sort'\n", "-N4")
	c.UntilState(id, "COMPLETED")
	t.Log(c.Output(Anna, id))
	t.Log(c.Nodes())
	t.Log(c.On(1, "mount"))
}
