// Package slurm runs a real Slurm for tests: a controller and some nodes, with munge, in namespaces of their own, so that
// nothing of it is seen outside or stays when the test is killed. Its other tests pin what Slurm does, where our hooks rely on it.
package slurm
