// Package gpfs asks IBM Storage Scale (GPFS): by its REST API, or by its mm commands.
package gpfs
