// Package chaos runs storms on a real federation while parts of it are killed, paused, restarted and cut off, and
// validates what happened. It believes nobody but the etcds of the workers, whose history it reads revision by
// revision, and the clients, which note when they asked and what they were answered. Breakwater's own status is
// only asked whether it has become the truth again.
package chaos
