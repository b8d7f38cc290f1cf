// Package copytool serves Lustre's HSM: it takes the actions that an MDT hands out, and
// moves the content of files to and from an archive.
package copytool
